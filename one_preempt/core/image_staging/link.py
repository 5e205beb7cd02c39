"""The link over which images come from their repository, and when it is free."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from one_preempt.core.image_staging.transfer import Span, StagedTransfer


class Link(Struct, frozen=True):
    """One link from `now_ms` on. Build it with `link_from`.

    In the spans that are `taken` others have it; they ascend and do not touch. A transfer that meets such a span pauses
    and goes on after it. Free time is counted in milliseconds of the whole link.
    """

    now_ms: int
    taken: tuple[Span, ...] = ()

    def less(self, staged: Iterable[StagedTransfer]) -> Link:
        """What these transfers leave of it."""
        return link_from(self.now_ms, [*self.taken, *(span for one in staged for span in one.spans)])

    def free_from(self, at_ms: int) -> int:
        """The first instant from `at_ms` on at which it is free."""
        return next(self._gaps(at_ms)).begin_ms

    def forward(self, begin_ms: int, work_ms: int) -> tuple[Span, ...]:
        """The first free time from `begin_ms` on, of that much in sum."""
        found: list[Span] = []
        for gap in self._gaps(begin_ms):
            end_ms = min(gap.end_ms, gap.begin_ms + work_ms)
            found.append(Span(gap.begin_ms, end_ms))
            work_ms -= end_ms - gap.begin_ms
            if work_ms == 0:
                break
        return tuple(found)

    def backward(self, end_ms: int, work_ms: int) -> tuple[Span, ...]:
        """The last free time before `end_ms`, of that much in sum; there must be as much since now."""
        found: list[Span] = []
        for gap in reversed(self.between(self.now_ms, end_ms)):
            begin_ms = max(gap.begin_ms, gap.end_ms - work_ms)
            found.append(Span(begin_ms, gap.end_ms))
            work_ms -= gap.end_ms - begin_ms
            if work_ms == 0:
                break
        return tuple(reversed(found))

    def between(self, begin_ms: int, end_ms: int) -> tuple[Span, ...]:
        """When it is free between two instants."""
        found: list[Span] = []
        for gap in self._gaps(begin_ms):
            if gap.begin_ms >= end_ms:
                break
            found.append(Span(gap.begin_ms, min(gap.end_ms, end_ms)))
        return tuple(found)

    def free_ms(self, begin_ms: int, end_ms: int) -> int:
        """For how long it is free between two instants."""
        return sum(gap.end_ms - gap.begin_ms for gap in self.between(begin_ms, end_ms))

    def _gaps(self, from_ms: int) -> Iterator[Span]:
        """All free spans from then on, the last without an end."""
        at_ms = max(from_ms, self.now_ms)
        for index in range(bisect_right(self.taken, at_ms, key=_end_of), len(self.taken)):
            taken = self.taken[index]
            if taken.begin_ms > at_ms:
                yield Span(at_ms, taken.begin_ms)
            at_ms = taken.end_ms
        yield Span(at_ms, _FOR_EVER_MS)


# Later than anything that is ever planned: as good as no end, and a whole number.
_FOR_EVER_MS = 2**62


def _end_of(span: Span) -> int:
    return span.end_ms


def link_from(now_ms: int, taken: Sequence[Span]) -> Link:
    """The link with these spans taken, in whatever order and overlap they come."""
    merged: list[Span] = []
    for span in sorted(taken):
        if span.end_ms <= max(now_ms, span.begin_ms):
            continue
        if merged and span.begin_ms <= merged[-1].end_ms:
            merged[-1] = Span(merged[-1].begin_ms, max(merged[-1].end_ms, span.end_ms))
        else:
            merged.append(span)
    return Link(now_ms, tuple(merged))
