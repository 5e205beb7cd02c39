"""What an earlier start was looked for with, for each lease that is promised one.

While that is the same only room that came free can bring a promise forward. Where it is another, all hosts have to be
looked at again, for some may suit the lease that did not before.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from operator import is_

from msgspec import Struct

from one_preempt.core.availability.timed_request import TimedRequest
from one_preempt.core.matching.host_match import HostMatch
from one_preempt.core.queue_turn import Turn


class _SearchedFor(Struct, frozen=True, eq=False):
    """A request, which hosts suit its VMs, and what else was told of hosts.

    A lease and a match are the very objects of before where nothing of them has changed; so is mostly a request.
    """

    request: TimedRequest[Turn]
    matches: Sequence[HostMatch]
    told: Sequence[Hashable]

    def asks_the_same(self, request: TimedRequest[Turn]) -> bool:
        """The same lease with the same VMs, for as long."""
        known = self.request
        return request.demand.lease is known.demand.lease and request.duration_s == known.duration_s

    def was_told(self, matches: Sequence[HostMatch], told: Sequence[Hashable]) -> bool:
        """Would the same be found on the same hosts?"""
        return len(matches) == len(self.matches) and all(map(is_, matches, self.matches)) and told == self.told


class RememberedSearches:
    """The last search for each lease. Without it more is searched, and the same is found."""

    def __init__(self) -> None:
        self._known: dict[int, _SearchedFor] = {}

    def is_another(
        self,
        request: TimedRequest[Turn],
        leases: int,
        matches: Sequence[HostMatch] = (),
        told: Sequence[Hashable] = (),
    ) -> bool:
        """Is something else searched for than the last time? Of no more leases than twice as many as there are.

        `matches` are the hosts that suit each kind of its VMs; none where hosts are counted.
        """
        known = self._known.get(request.lease_id)
        if (
            known is not None
            and (known.request is request or known.asks_the_same(request))
            and (not matches or known.was_told(matches, told))
        ):
            return False
        if len(self._known) > 2 * leases:
            self._known.clear()
        self._known[request.lease_id] = _SearchedFor(request, matches, told)
        return True
