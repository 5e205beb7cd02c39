"""Placing the VMs of a driver document as the matchmaker does: no leases, no preemption, nobody's room."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from msgspec import Struct, field

from one_preempt.core.admission.lease_attribute import LEASE
from one_preempt.core.matching.demands import moves
from one_preempt.core.matching.host_table import host_table
from one_preempt.core.matching.options import MatchOptions
from one_preempt.core.matching.placement import Matchmaker
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.matching.room import Room
from one_preempt.core.model.plan import Placement
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.prematch import Prematch
from one_preempt.core.model.resources import Resources
from one_preempt.core.model.virtual_machine import LockLevel, VirtualMachine, VmState
from one_preempt.core.queue_order.user_priority import priority_of

_MOVABLE_STATES = ("RUNNING", "UNKNOWN", "POWEROFF")
WAITS_FOR_THE_DAEMON = "It is a lease: only the daemon of one_preempt starts it, and that does not answer now."
LOCKED = "It is locked: unlock it, then it is placed."
ROOM_IS_FREED_FOR_IT = "The daemon of one_preempt is making room for it, and does not answer now."


class PlacementRound(Struct):
    """Placements in the order in which they were made, why others wait (by VM id), and who was not looked at."""

    placements: list[Placement] = field(default_factory=list)
    moved: set[int] = field(default_factory=set)
    refusals: dict[int, str] = field(default_factory=dict)
    left: int = 0


class Promised(Struct, frozen=True):
    """What the daemon has promised: (CPU in hundredths, MiB) by host id, and the VMs it was promised to."""

    held: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    vm_ids: Collection[int] = ()


def place_waiting(
    snapshot: PoolSnapshot,
    prematched: Mapping[int, Prematch],
    options: MatchOptions,
    promised: Promised,
    may_go_on: Callable[[], bool] = lambda: True,
) -> PlacementRound:
    """Place every VM that waits and that oned matched: by USER_PRIORITY, then the oldest.

    `may_go_on` is asked before each VM; once it says no, the others are only counted.
    """
    matchmaker = Matchmaker(snapshot, host_table(snapshot.hosts), options, prematched)
    room = matchmaker.new_room()
    hold_promised(room, promised.held)
    found = PlacementRound()
    waiting = sorted(_waiting(snapshot.vms.values(), prematched), key=lambda vm: (-priority_of(vm), vm.id))
    for number, vm in enumerate(waiting):
        if not may_go_on():
            found.left = len(waiting) - number
            break
        refusal = _not_ours(vm, promised)
        placed = matchmaker.place(vm, room) if refusal is None else refusal
        if isinstance(placed, Placement):
            found.placements.append(placed)
            if moves(vm):
                found.moved.add(vm.id)
        else:
            found.refusals[vm.id] = placed.reason.text if isinstance(placed, Unplaced) else placed
    return found


def hold_promised(room: Room, held: Mapping[int, tuple[int, int]]) -> None:
    """Keep what was promised to others out of the room."""
    for host_id, (cpu_centi, memory_mib) in sorted(held.items()):
        if host_id in room.hosts.index_by_id:
            room.hold(host_id, Resources(cpu_centi, memory_mib))


def _waiting(vms: Iterable[VirtualMachine], prematched: Mapping[int, Prematch]) -> Iterable[VirtualMachine]:
    """VMs to be started or moved; those that oned lists only as members of a VM group are neither."""
    for vm in vms:
        to_be_moved = vm.resched and vm.state_name in _MOVABLE_STATES
        if vm.id in prematched and (vm.state is VmState.PENDING or to_be_moved):
            yield vm


def _not_ours(vm: VirtualMachine, promised: Promised) -> str | None:
    if LEASE in vm.user_template:
        return WAITS_FOR_THE_DAEMON
    if vm.lock_level is not LockLevel.NONE:
        return LOCKED
    return ROOM_IS_FREED_FOR_IT if vm.id in promised.vm_ids else None
