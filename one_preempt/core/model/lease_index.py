"""Leases found by what most questions are about, so that nobody has to go through all of them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from one_preempt.core.model.lease import Lease, LeaseState


class Trait(StrEnum):
    """What a lease may be besides its state: it asks for a time, or it gave way and is not back."""

    ASKS_FOR_TIME = "asks-for-time"
    PREEMPTED = "is-preempted"


Heading = LeaseState | Trait


@dataclass(frozen=True, slots=True)
class LeaseIndex:
    """Ids of leases under headings, each in ascending order. A lease stands under its state and all of its traits."""

    ids: Mapping[Heading, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, leases: Iterable[Lease]) -> LeaseIndex:
        """The index of all `leases`."""
        return cls().changed((None, lease) for lease in leases)

    def under(self, *headings: Heading) -> tuple[int, ...]:
        """The leases under any of `headings`, of which a lease has one at most."""
        found = [self.ids[heading] for heading in headings if heading in self.ids]
        return found[0] if len(found) == 1 else tuple(sorted(lease_id for ids in found for lease_id in ids))

    def changed(self, changes: Iterable[tuple[Lease | None, Lease | None]]) -> LeaseIndex:
        """The index once leases that were as the first of each pair are as the second; None: no such lease."""
        lists: dict[Heading, list[int]] = {}
        for before, after in changes:
            if before is not None:
                for heading in _headings(before):
                    ids = self._opened(lists, heading)
                    del ids[bisect_left(ids, before.id)]
            if after is not None:
                for heading in _headings(after):
                    insort(self._opened(lists, heading), after.id)
        return LeaseIndex({**self.ids, **{heading: tuple(ids) for heading, ids in lists.items()}}) if lists else self

    def _opened(self, lists: dict[Heading, list[int]], heading: Heading) -> list[int]:
        """What stands under a heading, to be changed."""
        ids = lists.get(heading)
        if ids is None:
            ids = lists[heading] = list(self.ids.get(heading, ()))
        return ids


def _headings(lease: Lease) -> tuple[Heading, ...]:
    """Its state, and its traits."""
    headings: tuple[Heading, ...] = (lease.state,)
    if lease.terms.asks_for_time:
        headings += (Trait.ASKS_FOR_TIME,)
    return headings if lease.preempted_by is None else (*headings, Trait.PREEMPTED)
