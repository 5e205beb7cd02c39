"""Intermediate backfilling: the first few leases that have to wait are promised a start, those behind may overtake."""

from __future__ import annotations

from one_preempt.core.backfilling.queue_walk import QueueWalk


def with_promises(promises: int) -> QueueWalk:
    """The policy with the number of reservations of the configuration. Raises ValueError for less than 1."""
    if promises < 1:
        raise ValueError(f"intermediate backfilling with {promises} reservations: at least 1 is needed")
    return QueueWalk(
        "intermediate",
        promises,
        description="the first few (time.promised_leases) are promised a start; others may overtake if they delay none",
    )


POLICY = with_promises(4)
