"""What is free on every host over time, all hosts in one block of memory, so that no question loops over them.

Each host has its own few steps: a row of `times`, shape (H, K), and of `free`, shape (R, H, K), laid out as in
`steps`. A question about an interval looks at the steps that there are, host after host in one line of numbers, however
many instants there are in all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from itertools import pairwise

import numpy as np
from msgspec import Struct

from one_preempt.core.availability import stay_windows, steps
from one_preempt.core.availability.gang_demand import BoolArray, LikeVms
from one_preempt.core.availability.stay_windows import StayWindow
from one_preempt.core.availability.steps import END_OF_TIME_S
from one_preempt.core.distinct import distinct
from one_preempt.core.model.cluster_state import IntArray

_FIRST_LENGTH = 8
_PLENTY = 2**62
# Fewer than one host in so many are looked at with all their columns, used or not: that spares laying out the line.
_FEW = 16


class _Line(Struct, frozen=True):
    """The steps of all hosts in a line, each host's followed by one that begins at the end of time.

    `cells` are positions in a raveled (H, K) array, `rows` the host of each, `firsts` where each host begins.
    """

    cells: IntArray
    rows: IntArray
    firsts: IntArray


class HostSteps:
    """Free resources of H hosts as step functions. Instants in seconds."""

    def __init__(self, capacity: IntArray, since_s: int) -> None:
        hosts, resources = capacity.shape
        self._times: IntArray = np.full((hosts, _FIRST_LENGTH), END_OF_TIME_S, dtype=np.int64)
        self._free: IntArray = np.zeros((resources, hosts, _FIRST_LENGTH), dtype=np.int64)
        self._times[:, 0] = since_s
        self._free[:, :, 0] = capacity.T
        self._counts: IntArray = np.ones(hosts, dtype=np.int64)
        self._known_line: _Line | None = None
        self._known_overbooked: Mapping[int, int] | None = None
        # So many changes were made, and the number of the last one on each host. Time that passes is none.
        self.number = 0
        self._changed_at: IntArray = np.zeros(hosts, dtype=np.int64)

    def copy(self) -> HostSteps:
        """The same steps, to be changed without changing these."""
        other = copy(self)
        other._times, other._free, other._counts = self._times.copy(), self._free.copy(), self._counts.copy()
        other._changed_at = self._changed_at.copy()
        return other

    # -- looking -----------------------------------------------------------------------------------------

    def as_steps(self, row: int) -> tuple[IntArray, IntArray]:
        """The instants of one host and what is free from each on, shapes (steps,) and (steps, R); copies."""
        count = int(self._counts[row])
        return self._times[row, :count].copy(), self._free[:, row, :count].T.copy()

    def instants(self) -> IntArray:
        """All instants at which something changes on any host, ascending."""
        return distinct(self._times.take(self._line().cells))

    def overbooked(self) -> Mapping[int, int]:
        """The hosts on which at some time more is taken than there is, by row, and from when on that is over."""
        if self._known_overbooked is None:
            short: BoolArray = self._free < 0
            # Mostly there is none, which is found many times sooner than where.
            is_none = not np.count_nonzero(short)
            self._known_overbooked = {} if is_none else self._overbooked_until(short)
        return self._known_overbooked

    def _overbooked_until(self, short: BoolArray) -> dict[int, int]:
        """By row of the hosts that are `short`, shape (R, H, K), of a resource in some step: when the last one ends."""
        any_short = np.logical_or.reduce(short)
        rows = np.flatnonzero(any_short.any(axis=1))
        behind_last = any_short.shape[1] - any_short[rows, ::-1].argmax(axis=1)
        # Behind the last step there is always one that begins at the end of time.
        return dict(zip(rows.tolist(), self._times[rows, behind_last].tolist(), strict=True))

    def is_unchanged(self, number: int, rows: Sequence[int]) -> bool:
        """None of these hosts was changed since so many changes had been made."""
        return number == self.number or int(self._changed_at[list(rows)].max(initial=0)) <= number

    def lowest(self, start_s: int, end_s: int) -> IntArray:
        """The least that is free of each resource on each host between two instants, shape (H, R)."""
        line = self._line()
        times = self._times.take(line.cells)
        outside = times >= end_s
        outside[:-1] |= (times[1:] <= start_s) & (line.rows[1:] == line.rows[:-1])
        free = np.where(outside, _PLENTY, self._free_of(line.cells))
        lowest: IntArray = np.minimum.reduceat(free, line.firsts, axis=1)
        return lowest.T

    def lowest_on(self, rows: Sequence[int], start_s: int, end_s: int) -> IntArray:
        """The same on a few hosts, shape (rows, R)."""
        those = list(rows)
        times = self._times[those]
        outside = times >= end_s
        outside[:, :-1] |= times[:, 1:] <= start_s
        lowest: IntArray = np.minimum.reduce(np.where(outside, _PLENTY, self._free[:, those]), axis=2)
        return lowest.T

    def enough(
        self, like: LikeVms, duration_s: int, not_before_s: int, before_s: int = END_OF_TIME_S
    ) -> tuple[IntArray, BoolArray]:
        """From when on all of `like` fit together for the duration, as far as they are concerned alone.

        Returns instants, ascending from `not_before_s` to `before_s`, and for each whether they fit when starting there
        or later, before the next instant. A host offers l places to a start t when at least l of the VMs fit on it in
        every step that [t, t + duration) touches: for each l, its starts are the stretches with at least l, shortened
        by the duration. The places of all hosts are added up in one sweep over where these begin and end.
        """
        at_once = 0
        instants, changes = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        times, levels = self._levels(like)
        for ok, places in levels:
            begins, closes = _stretches(times, ok)
            ends = np.where(closes >= END_OF_TIME_S, END_OF_TIME_S, closes - duration_s + 1)
            np.maximum(begins, not_before_s, out=begins)
            offered = (begins < before_s) & (begins < ends)
            later, ends = begins[offered & (begins > not_before_s)], ends[offered]
            at_once += places * (len(ends) - len(later))
            ends = ends[ends < before_s]
            instants += [later, ends]
            changes += [np.full(len(later), places), np.full(len(ends), -places)]
        instant, change = np.concatenate(instants), np.concatenate(changes)
        order = instant.argsort(kind="stable")
        instant = np.concatenate(([not_before_s], instant[order]))
        total = at_once + np.concatenate(([0], change[order].cumsum()))
        last_of_instant = np.append(instant[1:] != instant[:-1], True)
        return instant[last_of_instant], (total >= len(like.members))[last_of_instant]

    def stay_windows(self, like: LikeVms, shortest_s: int, not_before_s: int, before_s: int) -> list[StayWindow]:
        """Where all of `like` may stay together between two instants, as far as they are concerned alone."""
        times, levels = self._levels(like)
        none = np.zeros(0, dtype=np.int64)
        begins, closes, places = [none], [none], [none]
        for ok, more_places in levels:
            for found, instants in zip((begins, closes), _stretches(times, ok), strict=True):
                found.append(instants.clip(not_before_s, before_s))
            places.append(np.full(len(begins[-1]), more_places))
        stretches = np.concatenate(begins), np.concatenate(closes), np.concatenate(places)
        return stay_windows.of_stretches(*stretches, len(like.members), shortest_s)

    def _levels(self, like: LikeVms) -> tuple[IntArray, list[tuple[BoolArray, int]]]:
        """The line of instants on the hosts that are allowed, and for each number l of VMs that occurs where at least
        l fit, and how many more l is than the number before. At the end of time nothing fits, which keeps hosts apart.
        """
        cells = self._cells(like.allowed)
        times, free = self._times.take(cells), self._free_of(cells)
        exists = times < END_OF_TIME_S
        most = min(like.most_per_host, len(like.members))
        if most == 1:
            for amount, free_of_resource in zip(like.need.tolist(), free, strict=True):
                exists &= free_of_resource >= amount
            return times, [(exists, 1)]
        counts = exists * np.int64(most)
        for amount, free_of_resource in zip(like.need.tolist(), free, strict=True):
            fitting = free_of_resource // amount if amount else np.where(free_of_resource >= 0, most, 0)
            np.minimum(counts, fitting, out=counts)
        np.maximum(counts, 0, out=counts)
        if like.fewest_per_host > 1:
            counts[counts < like.fewest_per_host] = 0
        occurring = [0, *(np.flatnonzero(np.bincount(counts)[1:]) + 1).tolist()]
        return times, [(counts >= level, level - lower) for lower, level in pairwise(occurring)]

    def _free_of(self, cells: IntArray) -> IntArray:
        return self._free.reshape(len(self._free), -1).take(cells, axis=1)

    def _cells(self, allowed: BoolArray) -> IntArray:
        """Positions of the steps of these hosts, host after host, each host's followed by an end of time."""
        length = self._times.shape[1]
        rows = np.flatnonzero(allowed)
        if len(rows) < len(allowed) // _FEW:
            cells: IntArray = rows[:, None] * length + np.arange(length)
            return cells.ravel()
        line = self._line()
        return line.cells if len(rows) == len(allowed) else line.cells[allowed[line.rows]]

    def _line(self) -> _Line:
        if self._known_line is None:
            lengths = self._counts + 1
            behind = lengths.cumsum()
            firsts, rows = behind - lengths, np.arange(len(lengths)).repeat(lengths)
            columns = np.arange(lengths.sum()) - firsts.repeat(lengths)
            self._known_line = _Line(rows * self._times.shape[1] + columns, rows, firsts)
        return self._known_line

    # -- changing ----------------------------------------------------------------------------------------

    def add(self, row: int, start_s: int, end_s: int, amounts: IntArray) -> None:
        """Add amounts, shape (R,), to what is free on one host between two instants."""
        count = int(self._counts[row])
        self._known_overbooked = None
        self.number += 1
        self._changed_at[row] = self.number
        if count + 2 >= self._times.shape[1]:
            self._lengthen()
        times, free = self._times[row], self._free[:, row]
        self._recount(row, steps.add(times, free, count, start_s, end_s, amounts.reshape(-1, 1)))

    def add_together(self, rows: IntArray, start_s: int, end_s: int, amounts: IntArray) -> None:
        """Add amounts, shape (N, R), to what is free on N different hosts between the same two instants."""
        if int(self._counts[rows].max()) + 2 >= self._times.shape[1]:
            self._lengthen()
        added = steps.add_together(self._times[rows], self._free[:, rows], self._counts[rows], start_s, end_s, amounts)
        self._times[rows], self._free[:, rows], self._counts[rows] = added
        self._known_line = self._known_overbooked = None
        self.number += 1
        self._changed_at[rows] = self.number

    def forget_before(self, instant_s: int) -> None:
        """Drop the time before an instant."""
        if self._known_overbooked:
            # Of what is overbooked some may be over; where nothing is, nothing becomes so.
            self._known_overbooked = None
        rows = (self._times[:, 1] <= instant_s).nonzero()[0]
        if len(rows):
            left = steps.forget_together(self._times[rows], self._free[:, rows], self._counts[rows], instant_s)
            self._times[rows], self._free[:, rows], self._counts[rows] = left
            self._known_line = None
        np.maximum(self._times[:, 0], instant_s, out=self._times[:, 0])

    def _recount(self, row: int, count: int) -> None:
        if count != self._counts[row]:
            self._counts[row] = count
            self._known_line = None

    def _lengthen(self) -> None:
        more = max(_FIRST_LENGTH, self._times.shape[1] // 2)
        self._times = np.pad(self._times, ((0, 0), (0, more)), constant_values=END_OF_TIME_S)
        self._free = np.pad(self._free, ((0, 0), (0, 0), (0, more)))
        self._known_line = None


def _stretches(times: IntArray, ok: BoolArray) -> tuple[IntArray, IntArray]:
    """Where stretches of True begin and where they end, in seconds; the last is False."""
    edges: IntArray = np.flatnonzero(ok[1:] != ok[:-1]) + 1
    if ok[:1].any():
        edges = np.concatenate(([0], edges))
    instants = times.take(edges)
    return instants[::2], instants[1::2]
