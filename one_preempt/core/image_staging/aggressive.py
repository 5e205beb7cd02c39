"""Aggressive: the transfer begins as soon as its request is accepted. Deadlines do not matter.

A naive baseline of VW07 8.1: it looks at nothing but its own request, and transfers under way share the link equally.
"""

from __future__ import annotations

from operator import attrgetter

from one_preempt.core.image_staging.equal_sharing import InEqualShares

POLICY = InEqualShares(
    "aggressive", "each begins when it is asked for; those under way share the link", attrgetter("ready_ms")
)
