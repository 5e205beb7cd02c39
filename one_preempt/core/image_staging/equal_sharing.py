"""Transfers that are under way at the same time have equal shares of the link."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from heapq import heappop, heappush
from math import ceil

from msgspec import Struct

from one_preempt.core.image_staging.link import Link
from one_preempt.core.image_staging.transfer import StagedTransfer, Transfer


class InEqualShares(Struct, frozen=True):
    """A policy by which each transfer begins at an instant that is its own: `begin_ms`, looking at nothing else."""

    name: str
    description: str
    begin_ms: Callable[[Transfer], int]
    plans_slots: bool = False
    keeps_deadlines: bool = False

    def stage(self, transfers: Sequence[Transfer], link: Link) -> tuple[StagedTransfer, ...]:
        """Each by itself."""
        return shared_equally(transfers, link, self.begin_ms)


def shared_equally(
    transfers: Sequence[Transfer], link: Link, begin_ms: Callable[[Transfer], int]
) -> tuple[StagedTransfer, ...]:
    """Each begins at its own instant, whatever the others do, once it is ready.

    Computed exactly in free time of the link, and rounded up to a whole millisecond at the end of each transfer.
    """
    begins = sorted((link.free_from(max(begin_ms(one), one.ready_ms)), one.id, one) for one in transfers)
    ends = _ends([(link.free_ms(link.now_ms, at_ms), one) for at_ms, _, one in begins])
    staged = []
    for at_ms, _, one in begins:
        # At the end of the last whole millisecond in which it has a share.
        end_ms = link.forward(link.now_ms, ends[one.id])[-1].end_ms
        staged.append(StagedTransfer(one, link.between(at_ms, end_ms)))
    return tuple(staged)


def _ends(begins: Sequence[tuple[int, Transfer]]) -> dict[int, int]:
    """The end of each by its id, on a link that is always free; `begins` ascend.

    `served` is what one that had been under way from the beginning would have got by now: a transfer ends when that
    has grown by its duration.
    """
    ends: dict[int, int] = {}
    under_way: list[tuple[Fraction, int]] = []
    at, served = Fraction(0), Fraction(0)

    def run_until(instant: Fraction | None) -> None:
        nonlocal at, served
        while under_way:
            goal, first = under_way[0]
            end = at + (goal - served) * len(under_way)
            if instant is not None and end > instant:
                break
            heappop(under_way)
            at, served = end, goal
            ends[first] = ceil(end)
        if instant is not None:
            served += (instant - at) / len(under_way) if under_way else 0
            at = instant

    for begin_ms, one in begins:
        run_until(Fraction(begin_ms))
        heappush(under_way, (served + one.duration_ms, one.id))
    run_until(None)
    return ends
