"""What is said to a wish for a time: accepted, refused, or left to wait in the queue instead (SR11)."""

from __future__ import annotations

from collections.abc import Sequence

from one_preempt.core.availability.timeline import Stay
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.plan import Reason
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.model.time_rules import RefusedReservation
from one_preempt.core.model.written_time import utc_text
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.stays import book


def turn_down(draft: PlanDraft, lease: Lease, why: Reason) -> None:
    """Refuse a wish for a time, or let the lease wait in the queue instead (SR11's AR-to-BE conversion)."""
    if draft.power is not None:
        draft.power.turned_down(lease.id)
    if draft.policies.time.refused_reservation is RefusedReservation.QUEUE:
        instead = Reason(why.code, f"{why.text.removesuffix('.')}; it waits in the queue instead")
        draft.judge(lease, Verdict.CONVERTED, instead.text)
        if lease.preempts:
            # From the next cycle on: in this one it still stands before all who make nobody leave (decision 0066).
            draft.reserved.add(lease.id)
            draft.waits[lease.id] = instead
            draft.wake_by(draft.state.now_s + 1)
        return
    draft.judge(lease, Verdict.REFUSED, why.text)
    draft.reserved.add(lease.id)
    draft.waits[lease.id] = why
    draft.statuses[lease.id] = f"refused: {why.text}"


def accept(draft: PlanDraft, lease: Lease, stays: Sequence[Stay]) -> None:
    """Promise these stays firmly, the first one first: they are written to the ledger and told to the owner."""
    book(draft, lease, stays)
    draft.judge(lease, Verdict.ACCEPTED, f"reserved from {utc_text(stays[0].start_s)} on")
