"""Transfers one after the other, by their deadlines: can more of them be in time? Answered without a plan.

It holds for transfers that could all begin at once, under a policy that keeps deadlines: then all are in time if
whatever is due until each deadline can be done by then, and otherwise under no policy.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from itertools import accumulate
from operator import add, le

from msgspec import Struct


class Work(Struct, frozen=True, order=True):
    """For so many seconds somebody has the link, until `deadline_s` at the latest."""

    deadline_s: int
    takes_s: int


class TimeOnLink(Struct, frozen=True):
    """A link that is free from an instant on, and the work that is laid on it, by deadlines."""

    free_from_s: int
    works: tuple[Work, ...] = ()

    def changed(self, less: Iterable[Work], more: Iterable[Work]) -> TimeOnLink:
        """The same without some of its works, and with others."""
        works = list(self.works)
        for one in less:
            del works[bisect_left(works, one)]
        for one in more:
            insort(works, one)
        return TimeOnLink(self.free_from_s, tuple(works))

    @property
    def keeps_deadlines(self) -> bool:
        """No work ends late."""
        ends_s = accumulate([one.takes_s for one in self.works], add, initial=self.free_from_s)
        return all(map(le, list(ends_s)[1:], [one.deadline_s for one in self.works]))

    @property
    def takes_s(self) -> int:
        """What all works take together."""
        return sum(one.takes_s for one in self.works)
