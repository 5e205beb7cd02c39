"""One transfer after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush

from msgspec import Struct

from one_preempt.core.image_staging.link import Link
from one_preempt.core.image_staging.transfer import StagedTransfer, Transfer

Key = Callable[[Transfer], tuple[int, ...]]


class OneByOne(Struct, frozen=True):
    """A policy by which the transfer of least `key` comes first, as soon as possible."""

    name: str
    description: str
    key: Key
    keeps_deadlines: bool
    plans_slots: bool = True

    def stage(self, transfers: Sequence[Transfer], link: Link) -> tuple[StagedTransfer, ...]:
        """Packed from now on, into what is free."""
        return _one_by_one(transfers, link, self.key)


def _one_by_one(transfers: Iterable[Transfer], link: Link, key: Key) -> tuple[StagedTransfer, ...]:
    """Whenever the link is free, the one of least key among those that are ready; `key` ends in the id."""
    to_come = sorted(transfers, key=lambda one: (-one.ready_ms, -one.id))
    ready: list[tuple[tuple[int, ...], Transfer]] = []
    staged: list[StagedTransfer] = []
    at_ms = link.free_from(link.now_ms)
    while to_come or ready:
        if not ready:
            at_ms = link.free_from(max(at_ms, to_come[-1].ready_ms))
        while to_come and to_come[-1].ready_ms <= at_ms:
            one = to_come.pop()
            heappush(ready, (key(one), one))
        _, first = heappop(ready)
        staged.append(StagedTransfer(first, link.forward(at_ms, first.duration_ms)))
        at_ms = link.free_from(staged[-1].end_ms)
    return tuple(staged)
