"""RTDP, the request type dispatch policy (JPDC12 section 4.2, Algorithm 2): a billiard sequence for each type.

The next request of a type goes to the cluster with the least (X_j + Y_j) / P_j: Y_j of this type were sent there, P_j
is its share, and X_j is 1 for the fastest cluster and 0 for others. So every cluster gets its mixture of types, in
which valuable leases are preempted after others. The paper multiplies P_j by the share of the type, which is the same
in all clusters and changes nothing; it is left out. Ties: the first cluster.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from one_preempt.core.dispatch.policy import Routing


class RequestType(Struct, frozen=True):
    """The cluster that is furthest behind its share of this type."""

    name: str = "RTDP"
    description: str = "by turns in proportion to the shares, for each type of requests by itself"

    def cluster(self, routing: Routing, sent_of_type: Sequence[float], sent: int) -> int:
        """Of clusters with a share; `sent` is of no matter."""
        return min(
            (((place == routing.fastest) + sent_of_type[place]) / share, place)
            for place, share in enumerate(routing.shares)
            if share
        )[1]


POLICY = RequestType()
