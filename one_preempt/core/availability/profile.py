"""The availability profile: how much of one thing is free over time (nodes that are alike, a lane, a share).

Two arrays, the instants and what is free from each on. Looking for room is one vectorised scan, taking it one binary
search and one shift of the arrays.
"""

from __future__ import annotations

import numpy as np

from one_preempt.core.availability import steps
from one_preempt.core.availability.stay_windows import StayWindow
from one_preempt.core.availability.steps import END_OF_TIME_S
from one_preempt.core.model.cluster_state import IntArray

_FIRST_LENGTH = 64


class AvailabilityProfile:
    """Free amount as a step function over time. Instants and durations in whole seconds; end None = open-ended.

    `capacity` is free from `since_s` on, and nothing is known of the time before. The free amount goes below zero
    where more is taken than there is: what is observed need not have been promised.
    """

    __slots__ = ("_count", "_free", "_journal", "_times")

    def __init__(self, capacity: int, since_s: int = 0) -> None:
        self._times: IntArray = np.full(_FIRST_LENGTH, END_OF_TIME_S, dtype=np.int64)
        self._free: IntArray = np.zeros((1, _FIRST_LENGTH), dtype=np.int64)
        self._times[0], self._free[0, 0] = since_s, capacity
        self._count = 1
        self._journal: list[tuple[int, int, int]] = []

    # -- looking -----------------------------------------------------------------------------------------

    @property
    def since_s(self) -> int:
        """The first instant that is known."""
        return int(self._times[0])

    def free_until(self, amount: int, start_s: int, end_s: int | None) -> int | None:
        """How long so much is free from an instant on, at most until `end_s` (None: for ever)."""
        times, free = self._times[: self._count], self._free[0, : self._count]
        short = times[(times > start_s) & (free < amount)]
        first_s = int(short[0]) if len(short) else None
        return end_s if first_s is None or (end_s is not None and end_s <= first_s) else first_s

    def as_steps(self) -> tuple[IntArray, IntArray]:
        """The instants and what is free from each on, as copies; neighbours differ."""
        return self._times[: self._count].copy(), self._free[0, : self._count].copy()

    def free_at(self, instant_s: int) -> int:
        """What is free at one instant."""
        return int(self._free[0, self._step_at(instant_s)])

    def lowest(self, start_s: int, end_s: int | None = None) -> int:
        """The least that is free between two instants."""
        behind = self._count if end_s is None else int(self._times[: self._count].searchsorted(end_s))
        return int(self._free[0, self._step_at(start_s) : behind].min())

    def fits(self, amount: int, start_s: int, end_s: int | None = None) -> bool:
        """Is that much free all the time between two instants?"""
        return start_s >= self.since_s and self.lowest(start_s, end_s) >= amount

    def earliest_fit(self, amount: int, duration_s: int | None, not_before_s: int) -> int | None:
        """The first instant from which `amount` is free for the duration; None where there is none.

        It can only be at `not_before_s` or where a shortage ends: the gaps between shortages are gone through.
        """
        not_before_s = max(not_before_s, self.since_s)
        first = self._step_at(not_before_s)
        enough = self._free[0, first : self._count] >= amount
        # Where gaps begin and end, in turn; the last one has no end if there is enough in the last step.
        edges = self._times.take(np.flatnonzero(enough[1:] != enough[:-1]) + (first + 1))
        if enough[0]:
            edges = np.concatenate(([not_before_s], edges))
        begins, closes = edges[::2], edges[1::2]
        wanted_s = END_OF_TIME_S if duration_s is None else duration_s
        long_enough = closes - begins[: len(closes)] >= wanted_s
        gap = int(long_enough.argmax()) if len(closes) else 0
        if len(closes) and long_enough[gap]:
            return int(begins[gap])
        return int(begins[-1]) if len(begins) > len(closes) else None

    def earlier_fit(self, amount: int, duration_s: int | None, not_before_s: int, held_from_s: int) -> int | None:
        """The first instant before `held_from_s` from which `amount`, held for the duration from then on, would fit.

        From `held_from_s` on it may overlap itself, so only what is free before counts; nothing has to be released.
        None where there is no such instant. What is held must not be overbooked.
        """
        not_before_s = max(not_before_s, self.since_s)
        wanted_s = END_OF_TIME_S if duration_s is None else duration_s
        steps_before = slice(self._step_at(not_before_s), int(self._times[: self._count].searchsorted(held_from_s)))
        begins_s: int | None = None
        # There are few steps before the first starts that are promised, and these are looked at most: one by one.
        for at_s, free in zip(self._times[steps_before].tolist(), self._free[0, steps_before].tolist(), strict=True):
            if free >= amount:
                begins_s = max(at_s, not_before_s) if begins_s is None else begins_s
            elif begins_s is not None and at_s - begins_s >= wanted_s:
                return begins_s
            else:
                begins_s = None
        return begins_s if begins_s is not None and begins_s < held_from_s else None

    def latest_fit(self, amount: int, duration_s: int, not_before_s: int, end_by_s: int) -> int | None:
        """The last instant from which `amount` is free for the duration, done by `end_by_s`; None if there is none."""
        not_before_s = max(not_before_s, self.since_s)
        if end_by_s - not_before_s < duration_s:
            return None
        first = self._step_at(not_before_s)
        behind = int(self._times[: self._count].searchsorted(end_by_s))
        short: IntArray = np.flatnonzero(self._free[0, first:behind] < amount) + first
        gap_starts = np.concatenate(([not_before_s], self._times[short + 1]))
        gap_ends = np.concatenate((self._times[short], [end_by_s]))
        long_enough: IntArray = np.flatnonzero(gap_ends - gap_starts >= duration_s)
        return int(gap_ends[long_enough[-1]]) - duration_s if len(long_enough) else None

    def stay_windows(self, amount: int, shortest_s: int, not_before_s: int, before_s: int) -> list[StayWindow]:
        """Where `amount` is free for at least `shortest_s` between two instants, as long as it is free."""
        times = np.append(self._times[: self._count], END_OF_TIME_S).clip(max(not_before_s, self.since_s), before_s)
        enough = np.concatenate(([False], self._free[0, : self._count] >= amount, [False]))
        edges = times[np.flatnonzero(enough[1:] != enough[:-1])]
        windows = (StayWindow(*window) for window in edges.reshape(-1, 2).tolist())
        return [window for window in windows if window.end_s - window.start_s >= shortest_s]

    # -- changing ----------------------------------------------------------------------------------------

    def reserve(self, start_s: int, end_s: int | None, amount: int) -> None:
        """Take `amount` between two instants, free or not."""
        self._add(start_s, END_OF_TIME_S if end_s is None else end_s, -amount)

    def release(self, start_s: int, end_s: int | None, amount: int) -> None:
        """Give `amount` back between two instants."""
        self._add(start_s, END_OF_TIME_S if end_s is None else end_s, amount)

    def checkpoint(self) -> int:
        """A mark to which `rollback` returns, until the next `forget_before`."""
        return len(self._journal)

    def rollback(self, mark: int) -> None:
        """Undo every change since the mark."""
        while len(self._journal) > mark:
            start_s, end_s, amount = self._journal.pop()
            self._add(start_s, end_s, -amount)
            self._journal.pop()

    def forget_before(self, instant_s: int) -> None:
        """Drop the time before an instant. What has passed cannot be undone: marks end here."""
        self._count = steps.forget_before(self._times, self._free, self._count, instant_s)
        self._journal.clear()

    def _add(self, start_s: int, end_s: int, amount: int) -> None:
        if self._count + 2 >= len(self._times):
            self._times = np.concatenate((self._times, np.full_like(self._times, END_OF_TIME_S)))
            self._free = np.concatenate((self._free, np.zeros_like(self._free)), axis=1)
        self._count = steps.add(self._times, self._free, self._count, start_s, end_s, amount)
        self._journal.append((start_s, end_s, amount))

    def _step_at(self, instant_s: int) -> int:
        if instant_s <= self._times[0]:
            # The present, of which is asked most.
            return 0
        return int(self._times[: self._count].searchsorted(instant_s, side="right")) - 1
