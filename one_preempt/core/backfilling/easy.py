"""EASY, or aggressive, backfilling: whoever does not delay the head of the queue may overtake it.

Only the head is promised a start, at the shadow time of Mu'alem and Feitelson (2001). The extra nodes are counted as
there: expected ends are gone through one by one until the head has enough, and what the last of them leaves over is
extra. A lease whose end is expected in the same second, but is not waited for, adds nothing to them.
"""

from __future__ import annotations

from one_preempt.core.backfilling.queue_walk import QueueWalk

POLICY = QueueWalk(
    "easy",
    promises=1,
    shielded=True,
    description="the first waiting lease is promised a start; others may overtake if they do not delay it",
)
