"""Conservative backfilling: every lease in the queue is promised a start, and nobody delays anybody.

Where room comes free before its time, the schedule is compressed: in the order of the queue each lease takes the
earliest start there is by now, which is never later than the one it was promised.
"""

from __future__ import annotations

from one_preempt.core.backfilling.queue_walk import QueueWalk

POLICY = QueueWalk(
    "conservative", promises=None, description="all waiting leases are promised a start; none may delay another"
)
