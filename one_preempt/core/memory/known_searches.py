"""What an earlier start was looked for with, for each lease that is promised one.

While that is the same only room that came free can bring a promise forward. Where it is another, all hosts have to be
looked at again, for some may suit the lease that did not before.
"""

from __future__ import annotations

from collections.abc import Hashable
from operator import is_

from msgspec import Struct

from one_preempt.core.matching.host_match import HostMatch
from one_preempt.core.model.lease import Lease


class SearchedFor(Struct, frozen=True, eq=False):
    """A lease with its VMs, for how long, which hosts suit these, and what else was told of hosts.

    A lease and a match are the very objects of before where nothing of them has changed.
    """

    lease: Lease
    duration_s: int | None
    matches: tuple[HostMatch, ...]
    told: tuple[Hashable, ...]

    def is_the_same_as(self, other: SearchedFor) -> bool:
        """Would the same be found on the same hosts?"""
        return (
            self.lease is other.lease
            and self.duration_s == other.duration_s
            and len(self.matches) == len(other.matches)
            and all(map(is_, self.matches, other.matches))
            and self.told == other.told
        )


class KnownSearches:
    """The last search for each lease. Without it more is searched, and the same is found."""

    def __init__(self) -> None:
        self._known: dict[int, SearchedFor] = {}

    def is_another(self, asked: SearchedFor, leases: int) -> bool:
        """Is something else searched for than the last time? Of no more leases than twice as many as there are."""
        known = self._known.get(asked.lease.id)
        if known is not None and known.is_the_same_as(asked):
            return False
        if len(self._known) > 2 * leases:
            self._known.clear()
        self._known[asked.lease.id] = asked
        return True
