"""What is free on every host over time, all hosts in one block of memory, so that no question loops over them.

Each host has its own few steps: a row of `times`, shape (H, K), and of `free`, shape (R, H, K), laid out as in
`steps`. A question about an interval looks at H x K numbers, however many instants there are in all.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from one_preempt.core.availability import steps
from one_preempt.core.availability.gang_demand import BoolArray, LikeVms
from one_preempt.core.availability.steps import END_OF_TIME_S
from one_preempt.core.model.cluster_state import IntArray

_FIRST_LENGTH = 8
_PLENTY = 2**62


class HostSteps:
    """Free resources of H hosts as step functions. Instants in seconds."""

    def __init__(self, capacity: IntArray, since_s: int) -> None:
        hosts, resources = capacity.shape
        self._times: IntArray = np.full((hosts, _FIRST_LENGTH), END_OF_TIME_S, dtype=np.int64)
        self._free: IntArray = np.zeros((resources, hosts, _FIRST_LENGTH), dtype=np.int64)
        self._times[:, 0] = since_s
        self._free[:, :, 0] = capacity.T
        self._counts = [1] * hosts

    def as_steps(self, row: int) -> tuple[IntArray, IntArray]:
        """The instants of one host and what is free from each on, shapes (steps,) and (steps, R); copies."""
        count = self._counts[row]
        return self._times[row, :count].copy(), self._free[:, row, :count].T.copy()

    def add(self, row: int, start_s: int, end_s: int, amounts: IntArray) -> None:
        """Add amounts, shape (R,), to what is free on one host between two instants."""
        count = self._counts[row]
        if count + 2 >= self._times.shape[1]:
            self._lengthen()
        self._counts[row] = steps.add(
            self._times[row], self._free[:, row], count, start_s, end_s, amounts.reshape(-1, 1)
        )

    def forget_before(self, instant_s: int) -> None:
        """Drop the time before an instant."""
        for row in np.flatnonzero(self._times[:, 1] <= instant_s).tolist():
            self._counts[row] = steps.forget_before(self._times[row], self._free[:, row], self._counts[row], instant_s)
        np.maximum(self._times[:, 0], instant_s, out=self._times[:, 0])

    def lowest(self, start_s: int, end_s: int) -> IntArray:
        """The least that is free of each resource on each host between two instants, shape (H, R)."""
        outside = self._times >= end_s
        outside[:, :-1] |= self._times[:, 1:] <= start_s
        lowest: IntArray = np.where(outside, _PLENTY, self._free).min(axis=2)
        return lowest.T

    def instants(self) -> IntArray:
        """All instants at which something changes on any host, ascending."""
        return np.unique(self._times)

    def overbooked(self) -> bool:
        """Somewhere, some time, more is taken than there is."""
        return bool((self._free < 0).any())

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
            endless = closes >= END_OF_TIME_S
            ends = np.where(endless, END_OF_TIME_S, closes - duration_s + 1)
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

    def _levels(self, like: LikeVms) -> tuple[IntArray, list[tuple[BoolArray, int]]]:
        """The instants of the hosts that matter, shape (rows, K), and for each number l of VMs that occurs where at
        least l fit, shape (rows, K) with the last column False, and how many more l is than the number before.
        """
        used = max(self._counts) + 1
        times, free, allowed = self._times[:, :used], self._free[:, :, :used], like.allowed
        rows = np.flatnonzero(allowed)
        if 2 * len(rows) < len(allowed):
            times, free, allowed = times[rows], free[:, rows], allowed[rows]
        most = min(like.most_per_host, len(like.members))
        if most == 1:
            ok = np.repeat(allowed[:, None], times.shape[1], axis=1)
            for amount, free_of_resource in zip(like.need.tolist(), free, strict=True):
                ok &= free_of_resource >= amount
            ok[:, -1] = False
            return times, [(ok, 1)]
        counts = np.repeat(np.where(allowed, np.int64(most), np.int64(0))[:, None], times.shape[1], axis=1)
        for amount, free_of_resource in zip(like.need.tolist(), free, strict=True):
            fitting = free_of_resource // amount if amount else np.where(free_of_resource >= 0, most, 0)
            np.minimum(counts, fitting, out=counts)
        np.maximum(counts, 0, out=counts)
        counts[:, -1] = 0
        occurring = [0, *(np.flatnonzero(np.bincount(counts.ravel())[1:]) + 1).tolist()]
        return times, [(counts >= level, level - lower) for lower, level in pairwise(occurring)]

    def _lengthen(self) -> None:
        more = max(_FIRST_LENGTH, self._times.shape[1] // 2)
        self._times = np.pad(self._times, ((0, 0), (0, more)), constant_values=END_OF_TIME_S)
        self._free = np.pad(self._free, ((0, 0), (0, 0), (0, more)))


def _stretches(times: IntArray, ok: BoolArray) -> tuple[IntArray, IntArray]:
    """Where stretches of True begin and where they end, in seconds; the last column being False keeps rows apart."""
    changes = np.diff(ok.ravel().view(np.int8), prepend=np.int8(0))
    flat = times.ravel()
    return flat[changes == 1], flat[changes == -1]
