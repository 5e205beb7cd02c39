"""No backfilling: leases start in the order of the queue. The first that has to wait is promised a start and stops all
behind it, unless it asks for what no host could ever give.
"""

from __future__ import annotations

from one_preempt.core.backfilling.queue_walk import QueueWalk

POLICY = QueueWalk(
    "none", promises=1, overtaking=False, description="nobody overtakes: leases start in the order of the queue"
)
