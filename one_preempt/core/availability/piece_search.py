"""How to split a lease over windows of room so that it ends first.

A piece starts where a window does, or as soon as the piece before it has served the shortest time allowed; starting
later gains nothing, for the piece before it would serve what this one does not. So the starts are few, and what a plan
is worth at one of them is one number: how much the pieces before it have served, each being as long as it may. More
never hurts, as pieces can be cut. The most that k pieces can have served is found from the most for k - 1, for all
starts at once: the last of them either runs right up to the start, or to the end of its window if that comes before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from one_preempt.core.availability.stay_windows import StayWindow, ends_from
from one_preempt.core.availability.steps import END_OF_TIME_S
from one_preempt.core.distinct import distinct
from one_preempt.core.model.cluster_state import IntArray

_IMPOSSIBLE = -(2**62)
# Windows may be many and hardly longer than the shortest piece. Beyond these bounds a piece starts where a window does:
# a plan may then be overlooked in which more shortest pieces than that follow on one another without a pause.
_SHORTEST_IN_A_ROW = 8
_MOST_STARTS = 8_192


class PlannedPiece(NamedTuple):
    """Room between two instants, resume and suspend included, for `useful_s` of the lease."""

    start_s: int
    end_s: int
    useful_s: int


class PieceSearch:
    """Two pieces or more in these windows, which ascend by start and by end; at least one window.

    `remaining_s`, more than any window holds, is to be served, by each piece at least `minimum_piece_s`; but the first
    all pieces begin with `resume_s`, and but the last all end with `suspend_s`.
    """

    def __init__(
        self, windows: Sequence[StayWindow], remaining_s: int, minimum_piece_s: int, resume_s: int, suspend_s: int
    ) -> None:
        self._remaining_s, self._minimum_s = remaining_s, minimum_piece_s
        self._resume_s, self._suspend_s = resume_s, suspend_s
        self._starts = self._possible_starts(windows)
        self._ends = ends_from(windows, self._starts)
        self._lasting = self._ends.searchsorted(self._starts)

    def first_to_end(self) -> list[PlannedPiece] | None:
        """The plan that ends first, of these the one with the fewest pieces; None where there is none."""
        served = np.zeros(len(self._starts), dtype=np.int64)
        most_served, layers = served.copy(), [served]
        best, first_end_s = None, int(self._ends[-1]) + 1
        for pieces in range(1, self._remaining_s // self._minimum_s):
            served = self._served_by_one_more(served, pieces == 1)
            # More pieces for no more time served, or too late for an earlier end, lead nowhere.
            ends_s = self._starts + self._resume_s + self._remaining_s - served
            served[(served <= most_served) | (ends_s >= first_end_s)] = _IMPOSSIBLE
            if served.max() < 0:
                break
            layers.append(served)
            np.maximum(most_served, served, out=most_served)
            np.maximum(ends_s, self._starts + self._resume_s + self._minimum_s, out=ends_s)
            ends_s[(served < 0) | (ends_s > self._ends)] = END_OF_TIME_S
            row = int(ends_s.argmin())
            if ends_s[row] < first_end_s:
                best, first_end_s = (pieces, row), int(ends_s[row])
        return None if best is None else self._plan(layers[: best[0] + 1], best[1])

    def _possible_starts(self, windows: Sequence[StayWindow]) -> IntArray:
        starts: IntArray = np.array([window.start_s for window in windows], dtype=np.int64)
        first_s = self._minimum_s + self._suspend_s
        later_s = first_s + self._resume_s
        late = distinct(_moved_on(windows, starts, first_s), _moved_on(windows, starts, later_s))
        for _ in range(_SHORTEST_IN_A_ROW):
            more = distinct(starts, late)
            if not len(starts) < len(more) <= _MOST_STARTS:
                break
            starts, late = more, _moved_on(windows, late, later_s)
        return starts

    def _served_by_one_more(self, served: IntArray, first: bool) -> IntArray:
        """The most that can be served before each start with one piece more than `served` counts."""
        overhead_s = self._suspend_s + (0 if first else self._resume_s)
        shortest_s = overhead_s + self._minimum_s
        early_enough = self._starts.searchsorted(self._starts - shortest_s, side="right")
        right_up_to = _highest_between(served - self._starts, self._lasting, early_enough) + self._starts - overhead_s
        stays_s = self._ends - self._starts
        to_the_end = np.where(stays_s >= shortest_s, served + stays_s - overhead_s, _IMPOSSIBLE)
        ended_before = np.maximum.accumulate(np.append(_IMPOSSIBLE, to_the_end))[self._lasting]
        more: IntArray = np.maximum(right_up_to, ended_before)
        return more

    def _plan(self, layers: list[IntArray], row: int) -> list[PlannedPiece]:
        """The pieces before the start in that row, which `layers` count one by one, and the last piece from it on."""
        served_s = min(int(layers[-1][row]), self._remaining_s - self._minimum_s)
        too_much_s = int(layers[-1][row]) - served_s
        start_s, left_s = int(self._starts[row]), self._remaining_s - served_s
        plan = [PlannedPiece(start_s, start_s + self._resume_s + left_s, left_s)]
        for pieces in reversed(range(len(layers) - 1)):
            overhead_s = self._suspend_s + (self._resume_s if pieces else 0)
            ends_s = np.minimum(self._ends, start_s)
            useful_s = ends_s - self._starts - overhead_s
            row = int(np.where(useful_s >= self._minimum_s, layers[pieces] + useful_s, _IMPOSSIBLE).argmax())
            cut_s = min(too_much_s, int(useful_s[row]) - self._minimum_s)
            too_much_s -= cut_s
            start_s = int(self._starts[row])
            plan.append(PlannedPiece(start_s, int(ends_s[row]) - cut_s, int(useful_s[row]) - cut_s))
        return plan[::-1]


def _moved_on(windows: Sequence[StayWindow], starts: IntArray, shortest_s: int) -> IntArray:
    """Where a shortest piece from each start ends, if it is let stay so long and one can stay longer from there."""
    limits, moved = ends_from(windows, starts), starts + shortest_s
    return moved[(moved <= limits) & (ends_from(windows, moved) > limits)]


def _highest_between(values: IntArray, first: IntArray, behind: IntArray) -> IntArray:
    """The highest of the values from `first` on, before `behind`, for each pair of positions; impossible if none.

    It is the higher one of two stretches whose length is a power of two, which overlap.
    """
    highest = np.full(len(values), _IMPOSSIBLE, dtype=np.int64)
    counts = behind - first
    length = 1
    while len(values):
        rows = np.flatnonzero((counts >= length) & (counts < 2 * length))
        highest[rows] = np.maximum(values[first[rows]], values[behind[rows] - length])
        values = np.maximum(values[:-length], values[length:])
        length *= 2
    return highest
