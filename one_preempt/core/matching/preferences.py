"""Which hosts are preferred: all of them by rank, best first, remembered as far as it lasts."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from one_preempt.core.host_selection.selection import HostSelection
from one_preempt.core.matching.expressions.attributes import AttributeTable
from one_preempt.core.matching.expressions.known_expressions import Expressions, TooExpensive, speaks_of_load
from one_preempt.core.matching.expressions.rank import best_first
from one_preempt.core.matching.host_match import StaticHostMatch
from one_preempt.core.model.cluster_state import IntArray


class _Order(Struct):
    """The scores by row and the rows by score, as after so many changes of hosts."""

    scores: IntArray
    rows: IntArray
    number: int


class Preferences:
    """Orders of hosts by SCHED_RANK; where that is "" by the host selection policy."""

    def __init__(self, host_match: StaticHostMatch, expressions: Expressions, policy: HostSelection) -> None:
        self._host_match = host_match
        self._expressions = expressions
        self._policy = policy
        self._lasting: dict[str, _Order] = {}
        self._by_load: dict[str, IntArray] = {}

    @property
    def kinds(self) -> int:
        """How many ranks are remembered, those included that nobody may have any more."""
        return len(self._lasting)

    def load_has_changed(self) -> None:
        """Forget what speaks of the load of hosts."""
        self._by_load.clear()

    def order(self, sched_rank: str, uid: int) -> IntArray:
        """All rows, best first.

        All are equal where the rank cannot be read, or the expressions of the owner `uid` have taken as long as they
        may in this cycle: that is found again in the next.
        """
        try:
            return self._order(sched_rank, uid)
        except TooExpensive:
            return best_first(np.zeros(len(self._host_match.table), dtype=np.int64))

    def _order(self, sched_rank: str, uid: int) -> IntArray:
        by_load = self._by_load.get(sched_rank)
        if by_load is not None:
            return by_load
        known, turned = self._lasting.get(sched_rank), self._host_match.turned
        rows = None if known is None else turned.since(known.number)
        if known is None or rows is None:
            scores = self._scores(sched_rank, self._host_match.table, uid)
            order = best_first(scores)
            if speaks_of_load(sched_rank) if sched_rank else self._policy.follows_load:
                self._by_load[sched_rank] = order
            else:
                self._lasting[sched_rank] = _Order(scores, order, turned.number)
            return order
        if rows:
            now = self._scores(sched_rank, self._host_match.table_of(rows), uid)
            known.number = turned.number
            if (known.scores[rows] != now).any():
                known.scores[rows] = now
                known.rows = best_first(known.scores)
        return known.rows

    def _scores(self, sched_rank: str, table: AttributeTable, uid: int) -> IntArray:
        if sched_rank:
            return self._expressions.scores("SCHED_RANK", sched_rank, table, uid=uid)
        return self._policy.scores(table, self._expressions)
