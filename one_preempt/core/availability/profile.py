"""The availability profile: how much of one thing is free over time (nodes that are alike, a lane, a share).

Two rows of numbers, the instants and what is free from each on; neighbours always differ, so that equal functions are
equal rows, whatever was added and taken away to get there. Mostly there are some dozens of steps, of which a search
looks at the first few: one by one that takes less time than a single operation of numpy. Many are looked at in one go,
as an array in the same memory.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

import numpy as np

from one_preempt.core.availability.stay_windows import StayWindow
from one_preempt.core.availability.steps import END_OF_TIME_S
from one_preempt.core.model.cluster_state import IntArray

# So many steps are gone through one by one.
_FEW = 128


class AvailabilityProfile:
    """Free amount as a step function over time. Instants and durations in whole seconds; end None = open-ended.

    `capacity` is free from `since_s` on, and nothing is known of the time before. The free amount goes below zero
    where more is taken than there is: what is observed need not have been promised. `number` is another one after each
    change.
    """

    __slots__ = ("_free", "_journal", "_times", "number")

    def __init__(self, capacity: int, since_s: int = 0) -> None:
        self._times = array("q", (since_s,))
        self._free = array("q", (capacity,))
        self._journal: list[tuple[int, int, int]] = []
        self.number = 0

    def copy(self) -> AvailabilityProfile:
        """The same, to be changed for itself; nothing of it can be undone."""
        copied = AvailabilityProfile(0)
        copied._times, copied._free = self._times[:], self._free[:]
        return copied

    # -- looking -----------------------------------------------------------------------------------------

    @property
    def since_s(self) -> int:
        """The first instant that is known."""
        return self._times[0]

    def free_until(self, amount: int, start_s: int, end_s: int | None) -> int | None:
        """How long so much is free from an instant on, at most until `end_s` (None: for ever)."""
        times, free = self._times, self._free
        for step in range(bisect_right(times, start_s), len(times)):
            if end_s is not None and times[step] >= end_s:
                return end_s
            if free[step] < amount:
                return times[step]
        return end_s

    def as_steps(self) -> tuple[IntArray, IntArray]:
        """The instants and what is free from each on; neighbours differ."""
        return np.array(self._times, dtype=np.int64), np.array(self._free, dtype=np.int64)

    def free_at(self, instant_s: int) -> int:
        """What is free at one instant."""
        return self._free[self._step_at(instant_s)]

    def lowest(self, start_s: int, end_s: int | None = None) -> int:
        """The least that is free between two instants."""
        behind = len(self._times) if end_s is None else bisect_left(self._times, end_s)
        first = self._step_at(start_s)
        if behind - first > _FEW:
            return int(_as_array(self._free)[first:behind].min())
        return min(self._free[first:behind])

    def fits(self, amount: int, start_s: int, end_s: int | None = None) -> bool:
        """Is that much free all the time between two instants?"""
        return start_s >= self._times[0] and self.lowest(start_s, end_s) >= amount

    def earliest_fit(self, amount: int, duration_s: int | None, not_before_s: int) -> int | None:
        """The first instant from which `amount` is free for the duration; None where there is none.

        It can only be at `not_before_s` or where a shortage ends: the gaps between shortages are gone through.
        """
        not_before_s = max(not_before_s, self._times[0])
        wanted_s = END_OF_TIME_S if duration_s is None else duration_s
        if len(self._times) > _FEW:
            return self._first_gap_of_many(amount, wanted_s, not_before_s)
        return self._first_gap(amount, wanted_s, not_before_s, len(self._times))

    def earlier_fit(self, amount: int, duration_s: int | None, not_before_s: int, held_from_s: int) -> int | None:
        """The first instant before `held_from_s` from which `amount`, held for the duration from then on, would fit.

        From `held_from_s` on it may overlap itself, so only what is free before counts; nothing has to be released.
        None where there is no such instant. What is held must not be overbooked.
        """
        behind = bisect_left(self._times, held_from_s)
        if amount > max(self._free[:behind], default=0):
            # There is nowhere so much, however short: so it is with most that wait.
            return None
        not_before_s = max(not_before_s, self._times[0])
        wanted_s = END_OF_TIME_S if duration_s is None else duration_s
        begins_s = self._first_gap(amount, wanted_s, not_before_s, behind)
        return begins_s if begins_s is not None and begins_s < held_from_s else None

    def _first_gap(self, amount: int, wanted_s: int, not_before_s: int, behind: int) -> int | None:
        """Where so much is first free for so long, or until the step at `behind`."""
        times, free = self._times, self._free
        begins_s: int | None = None
        for step in range(self._step_at(not_before_s), behind):
            if free[step] >= amount:
                if begins_s is None:
                    begins_s = max(times[step], not_before_s)
            elif begins_s is not None:
                if times[step] - begins_s >= wanted_s:
                    return begins_s
                begins_s = None
        return begins_s

    def _first_gap_of_many(self, amount: int, wanted_s: int, not_before_s: int) -> int | None:
        """The same over all steps in one go."""
        first = self._step_at(not_before_s)
        enough = _as_array(self._free)[first:] >= amount
        # Where gaps begin and end, in turn; the last one has no end if there is enough in the last step.
        edges = _as_array(self._times).take(np.flatnonzero(enough[1:] != enough[:-1]) + (first + 1))
        if enough[0]:
            edges = np.concatenate(([not_before_s], edges))
        begins, closes = edges[::2], edges[1::2]
        long_enough = closes - begins[: len(closes)] >= wanted_s
        gap = int(long_enough.argmax()) if len(closes) else 0
        if len(closes) and long_enough[gap]:
            return int(begins[gap])
        return int(begins[-1]) if len(begins) > len(closes) else None

    def latest_fit(self, amount: int, duration_s: int, not_before_s: int, end_by_s: int) -> int | None:
        """The last instant from which `amount` is free for the duration, done by `end_by_s`; None if there is none."""
        times, free = self._times, self._free
        not_before_s = max(not_before_s, times[0])
        closes_s = end_by_s
        for step in range(bisect_left(times, end_by_s) - 1, self._step_at(not_before_s) - 1, -1):
            if free[step] < amount:
                # The step behind it began the gap.
                if closes_s - (times[step + 1] if step + 1 < len(times) else end_by_s) >= duration_s:
                    return closes_s - duration_s
                closes_s = times[step]
        return closes_s - duration_s if closes_s - not_before_s >= duration_s else None

    def stay_windows(self, amount: int, shortest_s: int, not_before_s: int, before_s: int) -> list[StayWindow]:
        """Where `amount` is free for at least `shortest_s` between two instants, as long as it is free."""
        times, free = self._times, self._free
        not_before_s = max(not_before_s, times[0])
        found: list[StayWindow] = []
        begins_s: int | None = None
        for step in range(self._step_at(not_before_s), bisect_left(times, before_s)):
            if free[step] >= amount:
                if begins_s is None:
                    begins_s = max(times[step], not_before_s)
            elif begins_s is not None:
                if times[step] - begins_s >= shortest_s:
                    found.append(StayWindow(begins_s, times[step]))
                begins_s = None
        if begins_s is not None and before_s - begins_s >= shortest_s:
            found.append(StayWindow(begins_s, before_s))
        return found

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
        times = self._times
        gone = self._step_at(instant_s)
        if gone:
            del times[:gone], self._free[:gone]
        if instant_s > times[0]:
            times[0] = instant_s
        self._journal.clear()
        self.number += 1

    def _add(self, start_s: int, end_s: int, amount: int) -> None:
        self._journal.append((start_s, end_s, amount))
        self.number += 1
        times, free = self._times, self._free
        start_s = max(start_s, times[0])
        if start_s >= end_s or not amount:
            return
        first = bisect_left(times, start_s)
        if first == len(times) or times[first] != start_s:
            times.insert(first, start_s)
            free.insert(first, free[first - 1])
        behind = len(times)
        if end_s < END_OF_TIME_S:
            behind = bisect_left(times, end_s, first)
            if behind == len(times) or times[behind] != end_s:
                times.insert(behind, end_s)
                free.insert(behind, free[behind - 1])
        if behind - first > _FEW:
            _as_array(free)[first:behind] += amount
        else:
            for step in range(first, behind):
                free[step] += amount
        # Steps that are none any more; the later one first, so that the other keeps its place.
        if behind < len(times) and free[behind] == free[behind - 1]:
            del times[behind], free[behind]
        if first and free[first] == free[first - 1]:
            del times[first], free[first]

    def _step_at(self, instant_s: int) -> int:
        """The step that an instant lies in; the first one for what lies before it."""
        if instant_s <= self._times[0]:
            # The present, of which is asked most.
            return 0
        return bisect_right(self._times, instant_s) - 1


def _as_array(values: array[int]) -> IntArray:
    """A view; as long as there is one the number of values cannot change."""
    return np.frombuffer(values, dtype=np.int64)
