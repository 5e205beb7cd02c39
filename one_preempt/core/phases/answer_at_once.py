"""Immediate leases (START = "now") start in the cycle that sees them first, or are refused (SR11)."""

from __future__ import annotations

from one_preempt.core.matching.reasons import NEXT_CYCLE, without_mend
from one_preempt.core.memory.lease_concerns import Concern
from one_preempt.core.model.plan import Reason
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.model.time_rules import RefusedReservation
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.answers import turn_down
from one_preempt.core.phases.reservations.promised import is_unanswered


def answer_at_once(draft: PlanDraft) -> None:
    """Say to each immediate lease whether it starts, or room is made for it; no other answer follows."""
    making_room = {preemption.preemptor_lease_id for preemption in draft.preemptions}
    for lease in draft.concerns.ordered(Concern.TIME):
        if not lease.terms.at_once or lease.verdict is not Verdict.NONE:
            continue
        if lease.id in draft.starting or lease.id in making_room:
            draft.judge(lease, Verdict.ACCEPTED, "starts at once")
        elif is_unanswered(draft, lease):
            wait = draft.waits.get(lease.id)
            if wait is not None and wait.code == NEXT_CYCLE:
                # Nobody has looked at it yet.
                continue
            turn_down(draft, lease, Reason("not-at-once", _why_not_now(draft, wait)))


def _why_not_now(draft: PlanDraft, wait: Reason | None) -> str:
    """What its owner reads: he is tried no more, unless he asks otherwise."""
    why = f": {without_mend(wait.text).removesuffix('.')}" if wait is not None else ""
    if draft.policies.time.refused_reservation is RefusedReservation.QUEUE:
        return f"it cannot start now{why}"
    return f"it cannot start now{why}; take START out to let it wait, or write a later one"
