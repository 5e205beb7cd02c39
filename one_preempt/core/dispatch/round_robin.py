"""RR, round robin (JPDC12 section 5.2.1): one cluster after the other, whatever the type.

It is meant for equal shares; of others it sees only whether a cluster has any.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from one_preempt.core.dispatch.policy import Routing


class InTurns(Struct, frozen=True):
    """The next of those with a share."""

    name: str = "RR"
    description: str = "one cluster after the other"

    def cluster(self, routing: Routing, sent_of_type: Sequence[float], sent: int) -> int:
        """By the number of requests before."""
        with_share = [place for place, share in enumerate(routing.shares) if share]
        return with_share[sent % len(with_share)]


POLICY = InTurns()
