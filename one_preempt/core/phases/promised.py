"""For which leases a reservation decides when they start, not the queue."""

from __future__ import annotations

from one_preempt.core.model.lease import Lease, LeaseState
from one_preempt.core.model.lease_lifecycle import VmPhase, phase_of
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.observed_room import is_return_promised
from one_preempt.core.phases.draft import PlanDraft


def is_promised(draft: PlanDraft, lease: Lease) -> bool:
    """A reservation decides about its next start: an accepted one, or that of its return (SR11)."""
    # An advance reservation that has run and gave way is best effort from then on, if its type says so.
    still_counts = lease.terms.deadline_at_s is not None or lease.preempted_by is None
    if still_counts and draft.is_accepted(lease) and lease.terms.asks_for_time and not lease.terms.at_once:
        return True
    return is_return_promised(lease)


def has_exact_start(draft: PlanDraft, lease: Lease) -> bool:
    """It is an advance reservation: not earlier, not later."""
    return draft.is_accepted(lease) and lease.terms.deadline_at_s is None and lease.preempted_by is None


def is_unanswered(draft: PlanDraft, lease: Lease) -> bool:
    """It waits as a whole, nothing was said to it yet, and nobody is busy with it."""
    if lease.verdict is not Verdict.NONE or lease.state is not LeaseState.WAITING or lease.id in draft.busy_leases:
        return False
    return all(phase_of(vm) is VmPhase.WAITING for vm in draft.members(lease))
