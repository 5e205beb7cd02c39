"""Datastores and networks for what is to start soon: nobody is sent out for what could not start for want of them.

How much of them others will have given back at a time to come is known of few. So it is looked at when others must
begin to leave, and not before: as things are then, but for what those give back who are known to end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.model.lease import PreemptionMethod
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.known_ends import has_ended_by
from one_preempt.core.victims import PossibleVictim


def unserved(
    draft: PlanDraft,
    vms: Sequence[VirtualMachine],
    rows: Sequence[int],
    start_s: int,
    leaving: Sequence[PossibleVictim],
) -> Unplaced | None:
    """What VMs that start on these rows' hosts lack of datastores and networks; None where they have all.

    `leaving` are those who make room for them.
    """
    room, matchmaker = draft.room, draft.matchmaker
    if matchmaker.unserved_at(vms, rows, room) is None:
        return None
    mark = room.checkpoint()
    for vm in _who_end(draft, start_s, leaving):
        room.give_back(vm)
    lacking = matchmaker.unserved_at(vms, rows, room)
    room.rollback(mark)
    return lacking


def _who_end(draft: PlanDraft, start_s: int, leaving: Sequence[PossibleVictim]) -> Iterator[VirtualMachine]:
    """The VMs that are gone for good by then, and leave their disks and addresses to others."""
    for one in leaving:
        for vm, method in zip(one.vms, one.methods, strict=True):
            if method is PreemptionMethod.TERMINATE:
                yield vm
    for lease in draft.state.leases.values():
        if has_ended_by(draft, lease, start_s):
            yield from draft.members(lease)
