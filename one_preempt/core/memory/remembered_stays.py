"""The hosts of many stays to come in one line of numbers, remembered while they are the same stays."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_

import numpy as np

from one_preempt.core.availability.timeline import Stay
from one_preempt.core.model.cluster_state import IntArray

_NOTHING: IntArray = np.zeros(0, dtype=np.int64)


class RememberedStays:
    """The last stays that were asked about. Only speed depends on it.

    `_rows` are the hosts of all stays, stay after stay, and `_starts_s` when the stay of each of them starts;
    `_firsts` is where each stay that names hosts begins in them.
    """

    def __init__(self) -> None:
        self._stays: Sequence[Stay] = ()
        self._named: Sequence[Stay] = ()
        self._rows, self._starts_s, self._firsts = _NOTHING, _NOTHING, _NOTHING

    def ending_before(self, stays: Sequence[Stay], last_ends_s: IntArray) -> list[Stay]:
        """Those of the stays, one for each lease, whose hosts' last end, shape (H,), is not after their start.

        A stay that names no hosts is none of them.
        """
        if len(stays) != len(self._stays) or not all(map(is_, stays, self._stays)):
            self._lay_out(stays)
        late = last_ends_s.take(self._rows) > self._starts_s
        if not late.any():
            return list(self._named)
        is_late = np.logical_or.reduceat(late, self._firsts).tolist()
        return [stay for stay, one_is_late in zip(self._named, is_late, strict=True) if not one_is_late]

    def _lay_out(self, stays: Sequence[Stay]) -> None:
        self._stays = tuple(stays)
        self._named = [stay for stay in stays if stay.host_rows]
        lengths = [len(stay.host_rows) for stay in self._named]
        self._rows = np.array([row for stay in self._named for row in stay.host_rows], dtype=np.int64)
        self._starts_s = np.array([stay.start_s for stay in self._named], dtype=np.int64).repeat(lengths)
        self._firsts = np.cumsum([0, *lengths[:-1]]) if lengths else _NOTHING
