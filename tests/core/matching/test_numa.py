"""NUMA rooms: what oned refuses is refused, what is given is gone, and comes back with the VM."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from one_preempt.core.matching import numa
from one_preempt.core.matching.numa import NumaRoom
from one_preempt.core.matching.room import Room
from one_preempt.core.model.host import Host, HugePages, NumaCore, NumaNode
from one_preempt.core.model.plan import Placement
from one_preempt.core.model.virtual_machine import NumaNodeRequest, Topology, VirtualMachine
from tests.core.matching.small_cloud import cloud, host, running, vm

MIB = 1024


def node(node_id: int, threads: list[list[tuple[int, int]]], *, dedicated: bool = False) -> NumaNode:
    """One node with 4 GiB and 512 pages of 2 MiB; `threads`: (cpu, VM) of each core."""
    cores = tuple(NumaCore(node_id * 10 + number, tuple(pairs), dedicated) for number, pairs in enumerate(threads))
    return NumaNode(node_id, cores, (HugePages(2048, 512, 0, 512),), 4096 * MIB, 0, (node_id, 1 - node_id))


FREE = [[(0, -1), (1, -1)], [(2, -1), (3, -1)]]


def numa_host(*nodes: NumaNode, vms_thread: int = 1) -> Host:
    return replace(host(0, 800, 8192), numa_nodes=nodes, vms_thread=vms_thread)


def pinned(
    policy: str,
    cpus: int,
    memory_mib: int = 1024,
    *,
    vm_id: int = 1,
    threads: int = 1,
    pages_mib: int | None = None,
    affinity: int | None = None,
    guest_nodes: int = 1,
) -> VirtualMachine:
    request = NumaNodeRequest(None, cpus // guest_nodes, memory_mib * MIB // guest_nodes, None)
    return replace(
        vm(vm_id, 100, memory_mib),
        topology=Topology(cpus, threads, policy, pages_mib, affinity),
        numa_nodes=(request,) * guest_nodes,
    )


@pytest.mark.parametrize(
    ("machine", "fits"),
    [
        (vm(1), True),
        (pinned("THREAD", 4), True),
        (pinned("THREAD", 5), False),
        (pinned("THREAD", 4, threads=2), True),
        (pinned("THREAD", 3, threads=2), False),
        (pinned("THREAD", 4, threads=4), False),
        (pinned("CORE", 2), True),
        (pinned("CORE", 3), False),
        (pinned("SHARED", 2, 4097), False),
        (pinned("THREAD", 8, 6000, guest_nodes=2), True),
        (pinned("THREAD", 2, 1024, pages_mib=2), True),
        (pinned("THREAD", 2, 1026, pages_mib=2), False),
        (pinned("THREAD", 2, 1024, pages_mib=1024), False),
        (pinned("NONE", 2, 1024, pages_mib=2), True),
        (pinned("NONE", 2, 1026, pages_mib=2), False),
        (pinned("NONE", 99, affinity=1), True),
        (pinned("NONE", 1, affinity=2), False),
        (pinned("NONE", 1, affinity=-1), True),
        (pinned("NONE", 2, 1026, pages_mib=2, affinity=-1), False),
        (pinned("THREAD", 4, affinity=-1), True),
        (pinned("NONE", 1, 4097, affinity=1), False),
    ],
)
def test_a_vm_fits_the_nodes_as_oned_counts(machine: VirtualMachine, fits: bool) -> None:
    assert NumaRoom(numa_host(node(0, FREE), node(1, FREE))).fits(machine) is fits


def test_a_core_in_use_is_not_given_whole_and_reserved_threads_not_at_all() -> None:
    busy = node(0, [[(0, 9), (1, -1)], [(2, -2), (3, -1)]])

    assert NumaRoom(numa_host(busy)).fits(pinned("CORE", 1))
    assert not NumaRoom(numa_host(busy)).fits(pinned("CORE", 2))
    assert NumaRoom(numa_host(busy)).fits(pinned("THREAD", 2))
    assert not NumaRoom(numa_host(busy)).fits(pinned("THREAD", 3))
    assert not NumaRoom(numa_host(node(0, FREE, dedicated=True))).fits(pinned("THREAD", 1))


def test_threads_are_shared_by_as_many_vms_as_the_host_allows() -> None:
    busy = node(0, [[(0, 9), (1, 9)]])

    assert not NumaRoom(numa_host(busy)).fits(pinned("SHARED", 1))
    assert NumaRoom(numa_host(busy, vms_thread=2)).fits(pinned("SHARED", 2))


@pytest.mark.parametrize("policy", ["CORE", "THREAD", "SHARED"])
def test_what_is_given_is_gone(policy: str) -> None:
    room = NumaRoom(numa_host(node(0, FREE), node(1, FREE)))
    before = room.copy()
    count = 0
    while room.fits(pinned(policy, 1, 1024)):
        room.charge(pinned(policy, 1, 1024, vm_id=count))
        count += 1

    assert count == (4 if policy == "CORE" else 8)
    assert before.fits(pinned(policy, 1))


def test_pages_and_memory_of_the_named_node_are_used_up() -> None:
    room = NumaRoom(numa_host(node(0, FREE), node(1, FREE)))
    big = pinned("NONE", 1, 1024, pages_mib=2, affinity=0)
    room.charge(big)

    assert not room.fits(big)
    assert room.fits(replace(big, topology=replace(big.topology, node_affinity=1)))  # type: ignore[type-var]


def test_pinned_threads_come_back_when_their_vm_leaves_and_go_again_with_a_rollback() -> None:
    holder = replace(running(pinned("CORE", 2, vm_id=9), 0), numa_nodes=(NumaNodeRequest(0, 2, 4096 * MIB, 0),))
    full = NumaNode(
        0, node(0, [[(0, 9), (1, -1)], [(2, 9), (3, -1)]], dedicated=True).cores, (), 4096 * MIB, 4096 * MIB, (0,)
    )
    room = Room(cloud([numa_host(full)], [holder, pinned("THREAD", 4)]))
    wanting = room.snapshot.vms[1]

    assert not room.numa_room(0).fits(wanting)
    mark = room.checkpoint()
    room.leave(9)
    assert room.numa_room(0).fits(wanting)
    room.take(Placement(1, 0, 100))
    assert not room.numa_room(0).fits(wanting)
    room.rollback(mark)
    assert not room.numa_room(0).fits(wanting)
    room.leave(9)
    assert room.numa_room(0).fits(wanting)


def test_others_get_what_those_who_are_expected_leave_them_and_all_of_it_after_a_rollback() -> None:
    holder = replace(running(pinned("CORE", 1, vm_id=9), 0), numa_nodes=(NumaNodeRequest(0, 1, 1024 * MIB, 0),))
    coming, large, small = pinned("CORE", 2), pinned("CORE", 2, vm_id=2), pinned("CORE", 1, vm_id=3)
    with_holder = node(0, [[(0, 9), (1, -1)], [(2, -1), (3, -1)]])
    room = Room(cloud([numa_host(with_holder, node(1, FREE))], [holder, coming]))

    mark = room.checkpoint()
    room.reserve(Placement(1, 0, 100))
    # oned gives whoever comes first the emptiest node, though the core that is free on node 0 would do.
    assert not room.numa_room(0).fits(large)
    assert not room.numa_room(0).fits(small)
    room.take(Placement(1, 0, 100))
    assert room.numa_room(0).fits(small)
    room.rollback(mark)
    # Node 0 is there for who is expected once 9 has left.
    room.reserve(Placement(1, 0, 100), (), [holder])
    assert room.numa_room(0).fits(large)
    room.rollback(mark)
    assert room.numa_room(0).fits(large)


def test_nothing_is_kept_for_whom_there_is_no_room_when_all_have_left() -> None:
    room = NumaRoom(numa_host(node(0, FREE)))
    room.expect(pinned("CORE", 3), ())
    assert room.fits(pinned("CORE", 2, vm_id=2))


def test_a_host_that_tells_of_a_core_without_threads_refuses_in_peace() -> None:
    assert not NumaRoom(numa_host(node(0, [[], []]))).fits(pinned("THREAD", 1, threads=0))


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """As many entries as threads of a core were counted."""
    counted: list[int] = []

    def free(core: numa._Core, vms_per_thread: int) -> int:
        counted.append(vms_per_thread)
        return len(core.threads) * vms_per_thread - core.used

    monkeypatch.setattr(numa._Core, "free", free)
    return counted


def test_thousands_of_guest_nodes_cost_no_more_than_their_largest(looked_at: list[int]) -> None:
    many = tuple(NumaNodeRequest(None, 2, MIB + number, None) for number in range(3000))
    room, asked = NumaRoom(numa_host(node(0, FREE), node(1, FREE))), replace(pinned("THREAD", 2), numa_nodes=many)

    assert room.fits(asked)
    assert not room.fits(replace(asked, numa_nodes=(*many, NumaNodeRequest(None, 2, 4097 * MIB, None))))
    assert not room.fits(replace(asked, numa_nodes=(*many, NumaNodeRequest(None, 5, MIB, None))))
    assert len(looked_at) < 100


LARGE = [[(2 * core, -1), (2 * core + 1, -1)] for core in range(64)]


def test_thousands_of_guest_nodes_that_find_no_threads_together_are_not_tried_one_by_one(looked_at: list[int]) -> None:
    room = NumaRoom(numa_host(node(0, LARGE), node(1, LARGE)))
    room.charge(replace(pinned("THREAD", 1), numa_nodes=(NumaNodeRequest(None, 1, 1, None),) * 3000))
    assert room.fits(pinned("THREAD", 128, vm_id=2))
    assert len(looked_at) <= 6 * 128


def test_who_is_put_on_one_node_has_no_other_one_counted_anew(looked_at: list[int]) -> None:
    room = NumaRoom(numa_host(node(0, LARGE), node(1, LARGE)))
    room.charge(pinned("THREAD", 1, 100))
    del looked_at[:]
    for vm_id in range(2, 10):
        assert room.fits(pinned("THREAD", 1, 100, vm_id=vm_id))
        room = room.copy()
        room.charge(pinned("THREAD", 1, 100, vm_id=vm_id))
    # All cores of the one, and those down to which it is put on.
    assert len(looked_at) <= 8 * (64 + 8)


def test_a_copy_of_a_room_is_changed_by_itself() -> None:
    room = NumaRoom(numa_host(node(0, FREE)))
    taken = room.copy()
    taken.charge(pinned("THREAD", 4))
    assert room.fits(pinned("THREAD", 4, vm_id=2))
    assert not taken.fits(pinned("THREAD", 1, vm_id=2))
    left = taken.copy()
    left.release(pinned("THREAD", 4))
    assert left.fits(pinned("THREAD", 4, vm_id=2))
    assert not taken.fits(pinned("THREAD", 1, vm_id=2))
