"""A gang of VMs that nothing tells apart is placed, or refused with the same words, as one whose VMs are looked at."""

from __future__ import annotations

import re
from unittest.mock import patch

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.matching import reasons
from one_preempt.core.matching.known_gangs import KnownGangs
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.model.host import Host, HostState
from one_preempt.core.model.virtual_machine import Nic, PciRequest, VirtualMachine
from one_preempt.core.phases.reservations.room_ahead import most_places, smallest_need
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


Drawn = list[tuple[int, int, int, HostState]]


def drawn_gang(size: int, cpu_centi: int, requirements: str) -> tuple[VirtualMachine, ...]:
    alike = replace(vm(0), cpu_centi=cpu_centi, sched_requirements=requirements)
    return tuple(replace(alike, id=number) for number in range(10 + size, 10, -1))


def drawn_hosts(drawn: Drawn) -> list[Host]:
    return [
        host(row, used_cpu_centi=100 * cpu, used_memory_mib=2048 * memory, cluster_id=cluster, state=state)
        for row, (cpu, memory, cluster, state) in enumerate(drawn)
    ]


@given(hosts, st.integers(2, 6), st.sampled_from([100, 200]), st.sampled_from(["", 'NAME = "node1"', "ID = "]))
def test_the_answer_is_that_of_a_look_at_every_vm(drawn: Drawn, size: int, cpu_centi: int, requirements: str) -> None:
    gang, free = drawn_gang(size, cpu_centi, requirements), drawn_hosts(drawn)
    snapshot = cloud(free, gang)
    known = matchmaker(snapshot)
    found = [known.place_together(gang, known.new_room()) for _ in range(2)]
    with patch.object(KnownGangs, "by_id", return_value=None):
        looking = matchmaker(snapshot)
        assert found == [looking.place_together(gang, looking.new_room())] * 2


@given(hosts, st.integers(2, 6), st.sampled_from([100, 200]), st.sampled_from(["", 'NAME = "node1"', "ID = "]))
def test_of_those_left_over_the_last_is_named_and_all_else_is_said_as_after_a_look_at_every_vm(
    drawn: Drawn, size: int, cpu_centi: int, requirements: str
) -> None:
    gang, free = drawn_gang(size, cpu_centi, requirements), drawn_hosts(drawn)
    maker = matchmaker(cloud(free, gang))
    room = maker.new_room()
    assume(most_places(room.free, smallest_need(gang)) < size)
    placed = maker.place_together(gang, room)
    assert isinstance(placed, Unplaced)

    told = [maker.where_some_are_left_over(gang, room) for _ in range(2)]

    if told == [None, None]:
        # Then there are hosts without a datastore, which may be what is said, or it is said of all hosts.
        assert reasons.CAPACITY not in placed.counts or any(cluster for _, _, cluster, _ in drawn)
        return
    of_the_last = re.sub(r"VM \d+ \(", f"VM {10 + size} (", placed.reason.text)
    assert told == [Unplaced(replace(placed.reason, text=of_the_last), placed.counts)] * 2
    assert told[0] is told[1]


def test_nothing_is_said_in_haste_of_those_left_over_where_more_than_capacity_may_lack() -> None:
    alike = (vm(1), vm(2))
    for gang in (
        (vm(1), replace(vm(2), cpu_centi=50)),
        tuple(replace(one, pci_requests=(PciRequest(vendor="10de"),)) for one in alike),
        tuple(replace(one, sched_requirements="FREE_CPU >") for one in alike),
        tuple(replace(one, nics=(Nic(0, None, True),)) for one in alike),
    ):
        maker = matchmaker(cloud([host(0, used_cpu_centi=400)], gang))
        assert maker.where_some_are_left_over(gang, maker.new_room()) is None
    maker = matchmaker(cloud([host(0, used_cpu_centi=400)], alike))
    assert maker.where_some_are_left_over(alike, maker.new_room()) is not None


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


def test_how_many_are_alike_is_told_of_the_very_vms_that_are_asked_about() -> None:
    gangs, three = KnownGangs(), [vm(1), vm(2), replace(vm(3), uid=77)]
    for vms, alike in ((three, 2), (three, 2), (three[:2], 2), ([vm(1), three[2], vm(3)], 1), (three[2:], 1)):
        assert gangs.like_the_first(vms) == alike
