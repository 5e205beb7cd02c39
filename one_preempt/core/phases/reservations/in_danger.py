"""What was promised and may not be kept is said to its owner before it is too late."""

from __future__ import annotations

from one_preempt.core.model.lease import Lease, LeaseState
from one_preempt.core.model.plan import Reason
from one_preempt.core.model.written_time import utc_text
from one_preempt.core.phases.draft import PlanDraft

IN_DANGER = "reservation-in-danger"


def warn(draft: PlanDraft, lease: Lease, text: str) -> None:
    """Say to the owner what will go wrong as things stand."""
    draft.waits[lease.id] = Reason(IN_DANGER, text)
    draft.statuses[lease.id] = text
    if lease.state is LeaseState.WAITING:
        draft.lacking_room.discard(lease.id)


def warn_of_late_leavers(draft: PlanDraft, lease: Lease, start_at_s: int) -> None:
    """Say that room is being made, and perhaps not by its start."""
    text = "others are leaving for it, and might not have left by then"
    warn(draft, lease, f"it may start later than {utc_text(start_at_s)}: {text}")
