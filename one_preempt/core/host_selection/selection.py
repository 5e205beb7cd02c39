"""The question that a host selection policy answers, and the answer by a rank expression."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from one_preempt.core.matching.expressions.attributes import AttributeTable
from one_preempt.core.matching.expressions.known_expressions import Expressions, speaks_of_load
from one_preempt.core.model.cluster_state import IntArray


class HostSelection(Protocol):
    """Prefers hosts for VMs that have no SCHED_RANK of their own."""

    @property
    def name(self) -> str:
        """What the configuration calls it."""

    @property
    def description(self) -> str:
        """One line for people."""

    @property
    def follows_load(self) -> bool:
        """Might it have other scores when VMs come or go? Where not, they are kept until a host itself is changed."""

    def scores(self, hosts: AttributeTable, expressions: Expressions) -> IntArray:
        """One number for each host by itself; the highest is taken first, of equal ones the highest id."""


class ByRank(Struct, frozen=True):
    """Prefers hosts by a rank expression over their attributes."""

    name: str
    expression: str
    description: str = "the host with the highest rank, by an expression"

    @property
    def follows_load(self) -> bool:
        """Does the expression speak of the load?"""
        return speaks_of_load(self.expression)

    def scores(self, hosts: AttributeTable, expressions: Expressions) -> IntArray:
        """The rank of each host; all equal where the expression cannot be read."""
        return expressions.rank(self.expression).scores(hosts)
