"""Where a gang may stay for how long: the windows that cannot be widened.

Who starts within a window may stay on the same hosts until it ends. Of windows that hold one another only the widest
are kept, so they ascend by start and by end, and may overlap: on other hosts one can stay longer, but not start as
early.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from one_preempt.core.distinct import distinct
from one_preempt.core.model.cluster_state import IntArray


class StayWindow(NamedTuple):
    """From `start_s` on there is room until `end_s`, on the same hosts all the time; not earlier, and not longer."""

    start_s: int
    end_s: int


def of_stretches(
    begins: IntArray, closes: IntArray, places: IntArray, wanted: int, shortest_s: int
) -> list[StayWindow]:
    """The windows in which at least `wanted` places are there throughout, each at least `shortest_s` long.

    A stretch offers some places from its begin to its close. From an instant on, a gang may stay until so many of the
    stretches that have begun by then have closed that too few are left: the close of the `wanted`-th place, counted
    from the last to close. Stretches are gone through by their begins, those that close last are kept.
    """
    long_enough = closes - begins >= shortest_s
    begins, closes, places = begins[long_enough], closes[long_enough], places[long_enough]
    order = np.lexsort((-closes, begins))
    begins, closes, places = begins[order], closes[order], places[order]
    needed = _needed(begins, closes, places, wanted)
    stretches = zip(begins[needed].tolist(), closes[needed].tolist(), places[needed].tolist(), strict=True)
    windows: list[StayWindow] = []
    last_to_close: list[tuple[int, int]] = []
    total = 0
    for begin_s, close_s, offered in stretches:
        heappush(last_to_close, (close_s, offered))
        total += offered
        while total - last_to_close[0][1] >= wanted:
            total -= heappop(last_to_close)[1]
        end_s = last_to_close[0][0]
        if total < wanted or end_s - begin_s < shortest_s or (windows and end_s <= windows[-1].end_s):
            continue
        if windows and windows[-1].start_s == begin_s:
            windows.pop()
        windows.append(StayWindow(begin_s, end_s))
    return windows


def _needed(begins: IntArray, closes: IntArray, places: IntArray, wanted: int) -> IntArray:
    """Which stretches to look at: of those that begin first the last to close, of the others those that close later."""
    at_first = int(begins.searchsorted(begins[0], side="right")) if len(begins) else 0
    enough = int(places[:at_first].cumsum().searchsorted(wanted))
    if enough >= at_first:
        return np.arange(len(begins))
    later = at_first + np.flatnonzero(closes[at_first:] > closes[enough])
    return np.concatenate((np.arange(enough + 1), later))


def ends_from(windows: Sequence[StayWindow], starts: IntArray) -> IntArray:
    """Until when one may stay from each start on; no later than the start where there is no room."""
    if not windows:
        return starts
    begins, ends = np.array(windows, dtype=np.int64).T
    window = begins.searchsorted(starts, side="right") - 1
    return np.where(window < 0, starts, ends[window])


def common(windows_by_kind: Sequence[Sequence[StayWindow]], shortest_s: int) -> list[StayWindow]:
    """The windows of several demands as if none took room from another, each at least `shortest_s` long."""
    starts = distinct(np.array([window.start_s for windows in windows_by_kind for window in windows], dtype=np.int64))
    ends: IntArray = np.minimum.reduce([ends_from(windows, starts) for windows in windows_by_kind])
    found: list[StayWindow] = []
    for start_s, end_s in zip(starts.tolist(), ends.tolist(), strict=True):
        if end_s - start_s >= shortest_s and (not found or end_s > found[-1].end_s):
            found.append(StayWindow(start_s, end_s))
    return found
