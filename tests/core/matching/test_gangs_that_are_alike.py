"""A gang of VMs that nothing tells apart is placed, or refused with the same words, as one whose VMs are looked at."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from one_preempt.core.matching.known_gangs import KnownGangs
from one_preempt.core.model.host import HostState
from tests.core.matching.small_cloud import cloud, host, matchmaker, vm

hosts = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.integers(0, 3),
        st.integers(0, 1),
        st.sampled_from([HostState.MONITORED] * 3 + [HostState.OFFLINE]),
    ),
    min_size=1,
    max_size=5,
)


@given(hosts, st.integers(2, 6), st.sampled_from([100, 200]), st.sampled_from(["", 'NAME = "node1"', "ID = "]))
def test_the_answer_is_that_of_a_look_at_every_vm(
    drawn: list[tuple[int, int, int, HostState]], size: int, cpu_centi: int, requirements: str
) -> None:
    gang = tuple(
        replace(vm(number), cpu_centi=cpu_centi, sched_requirements=requirements) for number in range(10 + size, 10, -1)
    )
    free = [
        host(row, used_cpu_centi=100 * cpu, used_memory_mib=2048 * memory, cluster_id=cluster, state=state)
        for row, (cpu, memory, cluster, state) in enumerate(drawn)
    ]
    snapshot = cloud(free, gang)
    known = matchmaker(snapshot)
    found = [known.place_together(gang, known.new_room()) for _ in range(2)]
    with patch.object(KnownGangs, "by_id", return_value=None):
        looking = matchmaker(snapshot)
        assert found == [looking.place_together(gang, looking.new_room())] * 2


def test_what_tells_vms_apart_is_seen() -> None:
    gangs, one = KnownGangs(), vm(2)
    for other in (
        replace(vm(1), cpu_centi=one.cpu_centi + 1),
        replace(vm(1), sched_requirements="ID = 1"),
        replace(vm(1), uid=77),
    ):
        assert gangs.by_id((one, other)) is None
    assert gangs.by_id((replace(one, vm_group_id=3), replace(vm(1), vm_group_id=3))) is None
    alike = (one, vm(1))
    assert gangs.by_id(alike) == (vm(1), one)
    assert gangs.by_id(alike) is gangs.by_id(alike)
    known = gangs.by_id(alike)
    gangs.forget_beyond(5)
    assert gangs.by_id(alike) is known
    gangs.forget_beyond(0)
    assert gangs.by_id(alike) == known
    assert gangs.by_id(alike) is not known
    assert gangs.by_id(list(alike)) == (vm(1), one)
    assert gangs.by_id(()) is None
