"""The question that a host selection policy answers, and the answer by a rank expression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from one_preempt.core.matching.attributes import AttributeTable
from one_preempt.core.matching.expressions import Expressions
from one_preempt.core.model.cluster_state import IntArray


class HostSelection(Protocol):
    """Prefers hosts for VMs that have no SCHED_RANK of their own."""

    @property
    def name(self) -> str:
        """What the configuration calls it."""

    @property
    def expression(self) -> str:
        """The rank expression that it goes by."""

    def scores(self, hosts: AttributeTable, expressions: Expressions) -> IntArray:
        """One number for each host; the highest is taken first, of equal ones the highest id."""


@dataclass(frozen=True, slots=True)
class ByRank:
    """Prefers hosts by a rank expression over their attributes."""

    name: str
    expression: str

    def scores(self, hosts: AttributeTable, expressions: Expressions) -> IntArray:
        """The rank of each host; all equal where the expression cannot be read."""
        return expressions.rank(self.expression).scores(hosts)
