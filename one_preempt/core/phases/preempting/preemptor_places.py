"""Where a preemptor goes once its victims have left."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.lease_lifecycle import VmPhase, phase_of
from one_preempt.core.model.plan import Placement, Preemption, Reason, Victim
from one_preempt.core.model.resources import NO_RESOURCES
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases.devices_and_groups.beside_promised import placed_beside
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.room_ahead import end_of, firm_ceiling, rows_of, stay_at, takes_s


def places_after(
    draft: PlanDraft, preemption: Preemption, lease: Lease, outstanding: Sequence[Victim]
) -> tuple[Placement, ...] | Reason:
    """Where the preemptor goes once the outstanding victims have left; the room is left as it was."""
    vms, room = draft.state.snapshot.vms, draft.room
    mark = room.checkpoint()
    for victim in outstanding:
        if phase_of(vms[victim.vm_id]) is VmPhase.MOVING:
            room.hold(victim.host_id, NO_RESOURCES - vms[victim.vm_id].resources)
        else:
            room.leave(victim.vm_id)
    waiting = [vms[placement.vm_id] for placement in preemption.placements if vms[placement.vm_id].may_be_deployed]
    placed = placed_after(draft, preemption, lease, waiting)
    room.rollback(mark)
    return placed.reason if isinstance(placed, Unplaced) else placed


def placed_after(
    draft: PlanDraft, preemption: Preemption, lease: Lease, waiting: Sequence[VirtualMachine]
) -> tuple[Placement, ...] | Unplaced:
    """Where its VMs were meant to go; else wherever they fit, for as long as they stay, beside what is promised.

    The placements are charged to the draft's room.
    """
    placed = draft.matchmaker.place_at(waiting, preemption.placements, draft.room)
    if not isinstance(placed, Unplaced):
        return placed
    now_s = draft.state.now_s
    end_s = end_of(now_s, takes_s(draft, lease, waiting))
    anywhere = partial(draft.matchmaker.place_together, waiting, draft.room)
    with draft.room.capped(firm_ceiling(draft, lease, now_s, end_s)):
        placed = placed_beside(draft, lease, waiting, end_s, anywhere)
    if not isinstance(placed, Unplaced):
        elsewhere = stay_at(lease, waiting, rows_of(draft, placed), now_s, end_s, firm=True)
        arrived = draft.timeline.stays.get(lease.id, ()) if len(waiting) < len(lease.vm_ids) else ()
        draft.timeline.replace(lease.id, (*arrived, elsewhere))
    return placed
