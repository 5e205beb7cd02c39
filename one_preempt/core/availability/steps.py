"""Step functions over time in numpy arrays: what a profile and a slot table have in common.

A function has `count` steps. Step k holds from ``times[k]`` (seconds, ascending) to ``times[k + 1]``, the last one to
the end of time; its values are ``values[:, k]``, one a resource. The arrays are longer than `count`: behind the steps
`times` is END_OF_TIME_S and `values` is 0. Neighbouring steps always differ, so that equal functions are equal arrays,
whatever was added and taken away to get there.
"""

from __future__ import annotations

import numpy as np

from one_preempt.core.model.cluster_state import IntArray

# Later than any instant, and far enough from the largest int64 for a duration to be added.
END_OF_TIME_S = 2**61


def add(times: IntArray, values: IntArray, count: int, start_s: int, end_s: int, amount: IntArray | int) -> int:
    """Add `amount` between two instants, in place; returns the new number of steps.

    What lies before the first step is left out. The arrays must have room for two steps more than `count`.
    """
    start_s = max(start_s, int(times[0]))
    if start_s >= end_s:
        return count
    first, count = _cut(times, values, count, start_s)
    behind, count = (count, count) if end_s >= END_OF_TIME_S else _cut(times, values, count, end_s)
    values[:, first:behind] += amount
    count = _join(times, values, count, behind)
    return _join(times, values, count, first)


def add_together(
    times: IntArray, values: IntArray, counts: IntArray, start_s: int, end_s: int, amounts: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Add amounts, shape (N, R), between two instants to N functions with the same first instant.

    `times` has shape (N, K), `values` (R, N, K) and `counts` (N,), K at least two more than the largest count. Returns
    what becomes of them.
    """
    start_s = max(start_s, int(times[0, 0]))
    if start_s >= end_s:
        return times, values, counts
    instants = (start_s,) if end_s >= END_OF_TIME_S else (start_s, end_s)
    for instant_s in instants:
        times, values, counts = _cut_together(times, values, counts, instant_s)
    values = values + amounts.T[:, :, None] * ((times >= start_s) & (times < end_s) & (times < END_OF_TIME_S))
    for instant_s in instants:
        times, values, counts = _join_together(times, values, counts, instant_s)
    return times, values, counts


def forget_together(
    times: IntArray, values: IntArray, counts: IntArray, instant_s: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Drop the steps that end by `instant_s` from N functions, each with one at least; shapes as in `add_together`."""
    gone = (times <= instant_s).sum(axis=1) - 1
    # Behind the steps there is always one column more.
    shift = np.minimum(gone[:, None], times.shape[1] - 1 - np.arange(times.shape[1]))
    times, values = _shifted(times, values, shift)
    times[:, 0] = instant_s
    return times, values, counts - gone


def _cut(times: IntArray, values: IntArray, count: int, instant_s: int) -> tuple[int, int]:
    """Let a step begin at the instant; returns its index and the number of steps."""
    index = int(times[:count].searchsorted(instant_s))
    if index < count and times[index] == instant_s:
        return index, count
    times[index + 1 : count + 1] = times[index:count]
    values[:, index + 1 : count + 1] = values[:, index:count]
    times[index] = instant_s
    values[:, index] = values[:, index - 1]
    return index, count + 1


def _join(times: IntArray, values: IntArray, count: int, index: int) -> int:
    """Drop the step at `index` where it is no step at all; returns the number of steps."""
    if not 0 < index < count or values[:, index].tolist() != values[:, index - 1].tolist():
        return count
    times[index : count - 1] = times[index + 1 : count]
    values[:, index : count - 1] = values[:, index + 1 : count]
    times[count - 1] = END_OF_TIME_S
    values[:, count - 1] = 0
    return count - 1


def _cut_together(
    times: IntArray, values: IntArray, counts: IntArray, instant_s: int
) -> tuple[IntArray, IntArray, IntArray]:
    """`_cut` for many functions: what lies behind the instant moves by one column where a step is missing."""
    indices = (times < instant_s).sum(axis=1)
    missing = np.flatnonzero(times[np.arange(len(times)), indices] != instant_s)
    if not len(missing):
        return times, values, counts
    shift = np.zeros(times.shape, dtype=np.int64)
    shift[missing] = np.arange(times.shape[1]) >= indices[missing, None]
    times, values = _shifted(times, values, np.negative(shift, out=shift))
    times[missing, indices[missing]] = instant_s
    counts = counts.copy()
    counts[missing] += 1
    return times, values, counts


def _join_together(
    times: IntArray, values: IntArray, counts: IntArray, instant_s: int
) -> tuple[IntArray, IntArray, IntArray]:
    """`_join` for many functions, at the step that begins at the instant."""
    indices, every = (times < instant_s).sum(axis=1), np.arange(len(times))
    alike = (values[:, every, indices] == values[:, every, indices - 1]).all(axis=0)
    needless = np.flatnonzero(alike & (indices > 0) & (indices < counts))
    if not len(needless):
        return times, values, counts
    shift = np.zeros(times.shape, dtype=np.int64)
    shift[needless, :-1] = np.arange(times.shape[1] - 1) >= indices[needless, None]
    times, values = _shifted(times, values, shift)
    counts = counts.copy()
    counts[needless] -= 1
    return times, values, counts


def _shifted(times: IntArray, values: IntArray, shift: IntArray) -> tuple[IntArray, IntArray]:
    """Each column of each function taken from `shift` columns further on; `shift` is written over."""
    columns = times.shape[1]
    shift += np.arange(columns)
    shift += np.arange(0, times.size, columns)[:, None]
    return times.take(shift), values.reshape(len(values), -1).take(shift, axis=1)
