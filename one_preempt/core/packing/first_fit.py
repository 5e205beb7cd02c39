"""First-fit for thousands of situations at once: quick, and right whenever it says yes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from one_preempt.core.model.cluster_state import IntArray
from one_preempt.core.packing.request_classes import BoolArray, RequestClass


class FirstFit(Struct, frozen=True, eq=False):
    """`fits`, shape (rows,): all VMs are placed. `counts`, shape (rows, classes, hosts): how many of each go where."""

    fits: BoolArray
    counts: IntArray


def first_fit(classes: Sequence[RequestClass], rooms: IntArray) -> FirstFit:
    """Place the request in each row of `rooms`, shape (rows, hosts, R).

    Tried with the largest class first, by all needs together and by each dimension.
    """
    fits = np.zeros(len(rooms), dtype=np.bool_)
    counts = np.zeros((len(rooms), len(classes), rooms.shape[1]), dtype=np.int64)
    sizes = np.array([one.size for one in classes])
    for order in _orders(classes):
        open_rows = np.flatnonzero(~fits)
        if not len(open_rows):
            break
        counts[open_rows] = _placed(classes, order, rooms[open_rows])
        fits = (counts.sum(axis=2) == sizes).all(axis=1)
    return FirstFit(fits, counts)


def _orders(classes: Sequence[RequestClass]) -> list[tuple[int, ...]]:
    totals = [sum(one.need[r] * one.size for one in classes) for r in range(len(classes[0].need))]
    scale = max(1, *totals) ** 2

    def share(number: int, dimensions: Sequence[int]) -> int:
        return -sum(classes[number].need[r] * scale // totals[r] for r in dimensions if totals[r])

    everything, numbers = range(len(totals)), range(len(classes))
    orders = [tuple(sorted(numbers, key=lambda number: share(number, everything)))]
    orders += [tuple(sorted(numbers, key=lambda n: (share(n, [r]), share(n, everything)))) for r in everything]
    return list(dict.fromkeys(orders))


def _placed(classes: Sequence[RequestClass], order: Sequence[int], rooms: IntArray) -> IntArray:
    """Class by class as many as fit, earlier hosts first; `rooms` is used up."""
    counts = np.zeros((len(rooms), len(classes), rooms.shape[1]), dtype=np.int64)
    taken: dict[int, BoolArray] = {}
    for number in order:
        one = classes[number]
        need = np.array(one.need, dtype=np.int64)
        slots = np.where(one.allowed, _how_many(need, rooms, one.size), 0)
        for group in one.groups:
            apart = taken.setdefault(group, np.zeros(rooms.shape[:2], dtype=np.bool_))
            slots = np.where(apart, 0, np.minimum(slots, 1))
        slots_before = slots.cumsum(axis=1) - slots
        count = np.clip(one.size - slots_before, 0, slots)
        for group in one.groups:
            taken[group] |= count > 0
        rooms -= count[:, :, None] * need
        counts[:, number] = count
    return counts


def _how_many(need: IntArray, rooms: IntArray, most: int) -> IntArray:
    needed = need > 0
    count = (rooms[:, :, needed] // need[needed]).min(axis=2, initial=most)
    return np.where((rooms < 0).any(axis=2), 0, np.maximum(count, 0))
