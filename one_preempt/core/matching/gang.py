"""All or nothing: a bounded search for hosts that hold several VMs together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import takewhile
from operator import attrgetter, eq

from one_preempt.core.matching.room import Room
from one_preempt.core.model.plan import Placement
from one_preempt.core.model.virtual_machine import VirtualMachine

SEARCH_STEPS = 2_000
# A step may look at every host in vain, and owners say how: so what is looked at is bounded as well.
SEARCH_TRIALS = 100_000
# In one cycle the searches of an owner go so far; and each owner has one, once those of all have gone so far.
STEPS_AN_OWNER = 5 * SEARCH_STEPS
STEPS_FOR_ALL = 20 * SEARCH_STEPS
_TRIALS_A_STEP = SEARCH_TRIALS // SEARCH_STEPS


class OwnersSearches:
    """How far the searches of each owner went in this cycle: what waits is searched for anew in each of them."""

    def __init__(self) -> None:
        self._steps: Counter[int] = Counter()

    def begin_cycle(self) -> None:
        """Nobody has searched yet."""
        self._steps.clear()

    def are_over(self, uid: int) -> bool:
        """Did those of this owner go as far as they may?"""
        return self._steps[uid] >= (STEPS_AN_OWNER if self._steps.total() < STEPS_FOR_ALL else 1)

    def count(self, uid: int, steps: int, trials: int) -> None:
        """One of this owner took so many steps, and tried so many hosts in vain."""
        self._steps[uid] += max(1, steps + trials // _TRIALS_A_STEP)


class Trials:
    """What one search looked at in vain: how many more hosts it may try, and which it need not try again."""

    def __init__(self, room: Room) -> None:
        self.left = SEARCH_TRIALS
        self._room = room
        self._before = room.dispatched.copy()
        self._hopeless: dict[object, set[int]] = {}

    def hopeless_for(self, vm: VirtualMachine) -> set[int]:
        """The rows that lack devices or NUMA room for what asks for as much, whatever the search does."""
        return self._hopeless.setdefault((vm.pci_requests, vm.topology, vm.numa_nodes, vm.memory_mib), set())

    def is_untouched(self, row: int) -> bool:
        """The search has put nobody there: what is missing now was missing before it, and comes back in no step."""
        return bool(self._room.dispatched[row] == self._before[row])


Candidates = Callable[[VirtualMachine, Trials], Iterator[Placement]]


def search(
    vms: Sequence[VirtualMachine], room: Room, candidates: Candidates, searches: OwnersSearches
) -> tuple[Placement, ...] | None:
    """Backtracking in the order of `vms`: the first complete placement, charged to the room, or None.

    Complete as long as fewer than SEARCH_STEPS placements are tried, and SEARCH_TRIALS hosts in vain; None after that,
    or where the `searches` of their owner are over, only says that none was found. `candidates` must yield what the
    room, as it is at that moment, allows.
    """
    if searches.are_over(vms[0].uid):
        return None
    start, trials = room.checkpoint(), Trials(room)
    marks = [start]
    found: list[Placement] = []
    levels = [candidates(vms[0], trials)]
    steps = 0
    while levels and steps < SEARCH_STEPS and trials.left > 0:
        placement = next(levels[-1], None)
        if placement is None:
            levels.pop()
            if found:
                found.pop()
                room.rollback(marks.pop())
            continue
        steps += 1
        marks.append(room.checkpoint())
        room.take(placement)
        found.append(placement)
        if len(found) == len(vms):
            break
        levels.append(candidates(vms[len(found)], trials))
    searches.count(vms[0].uid, steps, SEARCH_TRIALS - trials.left)
    if len(found) == len(vms):
        return tuple(found)
    room.rollback(start)
    return None


# Nothing that a placement depends on tells VMs apart that ask for the same; others may be alike as well.
_asked_by = attrgetter(
    "uid", "gid", "cpu_centi", "memory_mib",
    "automatic_requirements", "sched_requirements", "sched_rank",
    "automatic_datastore_requirements", "sched_datastore_requirements", "sched_datastore_rank",
    "automatic_nic_requirements", "nics", "disks", "pci_requests", "topology", "vm_group_id",
    "state", "history", "extended", "user_template",
)  # fmt: skip


def like_the_first(vms: Sequence[VirtualMachine]) -> int:
    """How many of the VMs, from the first one on, ask for the same as that."""
    return len(list(takewhile(partial(eq, _asked_by(vms[0])), map(_asked_by, vms))))


def alike(vms: Sequence[VirtualMachine]) -> bool:
    """Do all ask for the same, so that another order of trying them finds nothing new?"""
    return len({what_it_asks(vm) for vm in vms}) <= 1


def what_it_asks(vm: VirtualMachine) -> tuple[object, ...]:
    """What decides whether a VM has room somewhere, as a key."""
    return (
        vm.uid,
        vm.gid,
        vm.cpu_centi,
        vm.memory_mib,
        vm.automatic_requirements,
        vm.sched_requirements,
        vm.automatic_datastore_requirements,
        vm.sched_datastore_requirements,
        vm.automatic_nic_requirements,
        tuple((nic.automatic, nic.sched_requirements) for nic in vm.nics),
        tuple((disk.size_mib, disk.type, disk.datastore_id, disk.clone_target, disk.ln_target) for disk in vm.disks),
        vm.pci_requests,
        vm.topology,
        vm.vm_group_id,
        vm.vm_group_role,
        vm.last_history.datastore_id if vm.last_history else None,
    )
