"""Who is pinned comes to no host without threads for him; whatever the matchmaker finds room for is not refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.matching.numa import NumaRoom
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.host import Host, NumaCore, NumaNode
from one_preempt.core.model.plan import Action, ActionKind, Plan
from one_preempt.core.model.virtual_machine import NumaNodeRequest, Topology, VirtualMachine
from tests.core.availability.naive import CASES
from tests.core.recounted_cluster import WHY, cluster, codes, deploy, host, plan, running, waiting

OVERFULL = "numa-overfull"
HELD_BY = 50


def pinned(vm: VirtualMachine, policy: str, *cpus: int) -> VirtualMachine:
    nodes = tuple(NumaNodeRequest(None, count, 1024, None) for count in cpus)
    return replace(vm, topology=Topology(sum(cpus), 0, policy, None, None), numa_nodes=nodes)


def numa_host(*nodes: list[list[int]], dedicated: bool = False, vms_thread: int = 1) -> Host:
    """Each node as its cores, each core as the VMs on its threads: -1 nobody, -2 kept for the host itself."""
    found = []
    for number, cores in enumerate(nodes):
        threads = [
            tuple((100 * number + 10 * core + cpu, vm) for cpu, vm in enumerate(of)) for core, of in enumerate(cores)
        ]
        made = tuple(NumaCore(core, of, dedicated and any(vm >= 0 for _, vm in of)) for core, of in enumerate(threads))
        found.append(
            NumaNode(number, made, (), 1 << 20, 0, tuple(sorted(range(len(nodes)), key=lambda n: n != number)))
        )
    pinned_only = {"TEMPLATE/PIN_POLICY": ("PINNED",)}
    return replace(host(0, cpus=64, gib=64), numa_nodes=tuple(found), attributes=pinned_only, vms_thread=vms_thread)


def coming(one: Host, *vms: VirtualMachine) -> tuple[ClusterState, Plan]:
    """VMs that start on a host, on which another one has threads."""
    holder = pinned(running(HELD_BY, 0, cpus=0, gib=0), "CORE", 1)
    return cluster([one], [*vms, holder]), plan(*[deploy(vm.id, 0) for vm in vms])


def wants(vm_id: int, policy: str, *cpus: int) -> VirtualMachine:
    return pinned(waiting(vm_id, cpus=0, gib=0), policy, *cpus)


@pytest.mark.parametrize(
    ("policy", "cpus", "expected"),
    [
        ("THREAD", (4,), []),
        ("THREAD", (5,), [OVERFULL]),
        ("SHARED", (3, 4), []),
        ("CORE", (2,), []),
        ("CORE", (3,), [OVERFULL]),
    ],
)
def test_each_guest_node_finds_threads_on_some_node(policy: str, cpus: tuple[int, ...], expected: list[str]) -> None:
    one = numa_host([[-1, -1], [-1, -1], [HELD_BY, -2]], [[HELD_BY, HELD_BY]], dedicated=True)
    assert codes(*coming(one, wants(1, policy, *cpus))) == expected


def test_those_who_come_at_once_share_the_threads() -> None:
    one = numa_host([[-1, -1]], [[-1, -1]])
    for cpus, expected in ((2, []), (1, []), (3, [OVERFULL, OVERFULL])):
        assert codes(*coming(one, wants(1, "THREAD", 2), wants(2, "THREAD", cpus))) == expected
    assert codes(*coming(one, *(wants(number, "THREAD", 2) for number in (1, 2, 3)))) == [OVERFULL]


def test_threads_of_who_leaves_before_are_to_be_had() -> None:
    one = numa_host([[HELD_BY, HELD_BY]])
    state, made = coming(one, wants(1, "THREAD", 2))
    assert codes(state, made) == [OVERFULL]
    stop = Action("stop", ActionKind.STOP, HELD_BY, HELD_BY, WHY, host_id=0)
    assert OVERFULL not in codes(state, replace(made, actions=(stop, replace(made.actions[0], after=("stop",)))))


threads = st.lists(st.sampled_from((-1, -1, -1, -2, HELD_BY)), min_size=1, max_size=2)
nodes = st.lists(st.lists(threads, max_size=3), min_size=1, max_size=2)
wishes = st.lists(
    st.tuples(st.sampled_from(("CORE", "THREAD", "SHARED")), st.lists(st.integers(0, 4), min_size=1, max_size=2)),
    min_size=1,
    max_size=4,
)


@settings(derandomize=True, max_examples=CASES // 2, deadline=None)
@given(nodes, wishes, st.booleans(), st.integers(1, 2))
def test_whatever_finds_room_by_the_matchmaker_is_not_refused(
    cores: Any, asked: Any, dedicated: bool, vms_thread: int
) -> None:
    one = numa_host(*cores, dedicated=dedicated, vms_thread=vms_thread)
    room, placed = NumaRoom(one), []
    for vm_id, (policy, cpus) in enumerate(asked, 1):
        vm = wants(vm_id, policy, *cpus)
        if room.fits(vm):
            room.charge(vm)
            placed.append(vm)
    assert codes(*coming(one, *placed)) == []
