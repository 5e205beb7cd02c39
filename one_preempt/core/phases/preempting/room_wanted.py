"""The room that a request wants: what is free for it then, and where it goes once those who were chosen have left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from one_preempt.core.availability.gang_demand import BoolArray
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.model.cluster_state import IntArray
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.plan import Placement, Reason
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases.devices_and_groups.beside_promised import takes_promised
from one_preempt.core.phases.devices_and_groups.served_then import unserved
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.giving_way import giving_way
from one_preempt.core.phases.reservations.room_ahead import firm_ceiling
from one_preempt.core.preemption.problem import Choice
from one_preempt.core.victims import (
    Hindered,
    PossibleVictim,
)


@dataclass(frozen=True, slots=True)
class RoomWanted:
    """The VMs of a lease that need room from `start_s` until `end_s`, None where nobody knows.

    `within`, shape (H,): only on these hosts; None: on all that it may count on.
    """

    lease: Lease
    vms: tuple[VirtualMachine, ...]
    start_s: int
    end_s: int | None
    within: BoolArray | None = None


def free_then(draft: PlanDraft, wanted: RoomWanted, possible: Sequence[PossibleVictim]) -> IntArray:
    """What is free for the whole stay while those who could leave are still there.

    Each of them counts for all of that time, also one that holds its room firmly for a part of it: what its leaving
    gives is added later, and must not be lent from the time after its end, which may be promised to somebody else.
    """
    now_s, giving = draft.state.now_s, {one.lease.id for one in giving_way(draft)}
    held = [draft.timeline.stays.get(one.lease.id, ()) for one in possible if one.lease.id not in giving]
    held = [stays for stays in held if stays and stays[0].firm and stays[0].start_s <= now_s]
    for stays in held:
        draft.timeline.replace(stays[0].lease_id, stays[1:])
    firm = firm_ceiling(draft, wanted.lease, wanted.start_s, wanted.end_s, throughout=True)
    for stays in held:
        draft.timeline.replace(stays[0].lease_id, stays)
    if firm is None:
        return draft.room.free
    for stays in held:
        for row, amounts in zip(stays[0].host_rows, stays[0].amounts, strict=True):
            firm[row] -= amounts
    return firm if wanted.start_s > now_s else np.minimum(firm, draft.room.free)


def placements_for(
    draft: PlanDraft, wanted: RoomWanted, chosen: list[PossibleVictim], choice: Choice, free: IntArray
) -> tuple[Placement, ...] | Hindered:
    """Where the request goes once the victims have left, with datastores and networks; the room is left as it was.

    Of a time to come only the hosts are known; others leave for it where they have all else that it will need.
    """
    hosts, room = draft.state.hosts, draft.room
    planned = tuple(
        Placement(vm.id, int(hosts.ids[row])) for vm, row in zip(wanted.vms, choice.host_of_request, strict=True)
    )
    if wanted.start_s > draft.state.now_s:
        return lacks_to_start(draft, wanted, chosen, choice) or planned
    mark = room.checkpoint()
    free = free.copy()
    for victim in chosen:
        for vm in draft.members(victim.lease):
            room.leave(vm.id)
            free[hosts.index_by_id[vm.history[-1].host_id]] += (vm.cpu_centi, vm.memory_mib)
    with room.capped(free):
        placed = draft.matchmaker.place_at(wanted.vms, planned, room)
        if isinstance(placed, Unplaced):
            placed = draft.matchmaker.place_together(wanted.vms, room)
        if isinstance(placed, Unplaced):
            lacking = _lacking_rows(draft, wanted.vms, planned)
        else:
            lacking = frozenset(choice.host_of_request)
            leaving = {vm_id for victim in chosen for vm_id in victim.lease.vm_ids}
            placed = takes_promised(draft, wanted.lease, wanted.vms, placed, wanted.end_s, leaving) or placed
    room.rollback(mark)
    if isinstance(placed, Unplaced):
        why = Reason(placed.reason.code, f"even after preempting: {placed.reason.text}")
        return Hindered(frozenset(), why, lacking)
    return placed


def _lacking_rows(draft: PlanDraft, vms: Sequence[VirtualMachine], planned: Sequence[Placement]) -> frozenset[int]:
    """The hosts that lack something for all VMs that were to go there, each alone; else those for more than one."""
    index, are_alike = draft.state.hosts.index_by_id, draft.matchmaker.are_alike(vms)
    on_row: dict[int, list[tuple[VirtualMachine, Placement]]] = {}
    for vm, there in zip(vms, planned, strict=True):
        on_row.setdefault(index[there.host_id], []).append((vm, there))
    lacking = [
        row
        for row, those in on_row.items()
        if not any(_would_go(draft, vm, there) for vm, there in (those[:1] if are_alike else those))
    ]
    return frozenset(lacking or [row for row, those in on_row.items() if len(those) > 1])


def _would_go(draft: PlanDraft, vm: VirtualMachine, there: Placement) -> bool:
    mark = draft.room.checkpoint()
    placed = draft.matchmaker.place_at((vm,), (there,), draft.room)
    draft.room.rollback(mark)
    return not isinstance(placed, Unplaced)


def lacks_to_start(
    draft: PlanDraft, wanted: RoomWanted, chosen: Sequence[PossibleVictim], choice: Choice
) -> Hindered | None:
    """Nobody leaves for what could not start though they had: these hosts have no datastore or network for it."""
    lacking = unserved(draft, wanted.vms, choice.host_of_request, wanted.start_s, chosen)
    if lacking is None:
        return None
    why = Reason(lacking.reason.code, f"nobody leaves for it yet: {lacking.reason.text}")
    return Hindered(frozenset(), why, frozenset(choice.host_of_request))
