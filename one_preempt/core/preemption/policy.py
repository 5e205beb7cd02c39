"""What a preemption policy is: one question, one method.

A policy file holds an object `POLICY`. It is handed candidate sets as columns and names one of them. The same
method serves where only some sets are known; `objectives` then says when the pick is certainly the best.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from one_preempt.core.preemption.candidate_table import CandidateTable


class Objective(StrEnum):
    """What a policy makes small, as far as there are lower bounds for it."""

    OVERHEAD = "overhead"
    LEASE_COUNT = "lease-count"


class PreemptionPolicy(Protocol):
    """Which candidate set leaves.

    A set that attains the lower bound of every one of the `objectives` is the policy's best whatever the sets are
    that nobody listed; a policy of which that cannot be said has none.
    """

    @property
    def name(self) -> str:
        """The name used in configuration and on the command line."""

    @property
    def description(self) -> str:
        """One line for people."""

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """What proves a pick among sets that are not all."""

    def choose(self, candidates: CandidateTable) -> int | None:
        """The row of the set that leaves, or None to preempt nobody. The table has at least one row."""
