"""For which leases a reservation decides when they start, not the queue."""

from __future__ import annotations

from one_preempt.core.availability.timeline import Stay
from one_preempt.core.memory.lease_concerns import WAITING_STATES, Concern
from one_preempt.core.model.lease import Lease, LeaseState
from one_preempt.core.model.lease_lifecycle import VmPhase, phase_of
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.observed_room import has_promised_start
from one_preempt.core.phases.draft import PlanDraft


def is_promised(draft: PlanDraft, lease: Lease) -> bool:
    """A reservation decides about its next start, as was said before or in this cycle."""
    return has_promised_start(lease, accepted=draft.is_accepted(lease))


def promised_leases(draft: PlanDraft) -> list[Lease]:
    """All that wait for a start that was promised, before or in this cycle; in no order."""
    known = draft.concerns.all(Concern.PROMISED)
    # Only what had no answer yet gets one, so that what was promised before stays so.
    judged = (draft.state.leases[lease_id] for lease_id in draft.verdicts if lease_id not in known)
    return [*known.values(), *(one for one in judged if one.state in WAITING_STATES and is_promised(draft, one))]


def standing_stays(draft: PlanDraft, lease: Lease) -> tuple[Stay, ...]:
    """The stays by which it is to start; none while other hosts are looked for, because one is lost."""
    stays = draft.timeline.stays.get(lease.id, ())
    return () if any(stay.displaced for stay in stays) else stays


def has_exact_start(draft: PlanDraft, lease: Lease) -> bool:
    """It is an advance reservation: not earlier, not later."""
    return draft.is_accepted(lease) and lease.terms.deadline_at_s is None and lease.preempted_by is None


def not_before_s(draft: PlanDraft, lease: Lease) -> int:
    """The instant before which it may not start: its START, as long as that holds; 0 where none does.

    Who was turned down and waits in the queue instead has given it up, and so has who started then and gave way since.
    """
    holds = draft.is_accepted(lease) and (lease.terms.deadline_at_s is not None or lease.preempted_by is None)
    return (lease.terms.start_at_s or 0) if holds else 0


def is_unanswered(draft: PlanDraft, lease: Lease) -> bool:
    """It waits as a whole, nothing was said to it yet, and nobody is busy with it."""
    if lease.verdict is not Verdict.NONE or lease.state is not LeaseState.WAITING or lease.id in draft.busy_leases:
        return False
    return all(phase_of(vm) is VmPhase.WAITING for vm in draft.members(lease))
