"""Counts what was sent to which cluster, and asks a dispatch policy for each request."""

from __future__ import annotations

from msgspec import Struct, field

from one_preempt.core.dispatch.policy import DispatchPolicy, Routing


class Dispatcher(Struct):
    """Sends request after request; the same requests in the same order go to the same clusters.

    `sent_by_type` is all that it remembers: with what it held, another dispatcher goes on where this one was.
    """

    policy: DispatchPolicy
    routing: Routing
    sent_by_type: dict[str, list[int]] = field(default_factory=dict)

    def send(self, request_type: str) -> int:
        """The number of the cluster that the next request, of this type, goes to; it counts as sent there."""
        of_type = self.sent_by_type.setdefault(request_type, [0] * len(self.routing.shares))
        sent = sum(map(sum, self.sent_by_type.values()))
        cluster = self.policy.cluster(self.routing, of_type, sent)
        of_type[cluster] += 1
        return cluster
