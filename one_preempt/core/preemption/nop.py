"""NOP: nobody is preempted (CCPE13 section 8, the situation without contention resolution).

The request waits or is refused. There to compare with, and to switch preemption off by name.
"""

from __future__ import annotations

from msgspec import Struct

from one_preempt.core.preemption.candidate_table import CandidateTable
from one_preempt.core.preemption.policy import Objective


class NoPreemption(Struct, frozen=True):
    """Picks no set, whatever the sets are."""

    name: str = "NOP"
    description: str = "nobody is preempted: the request waits or is refused"
    objectives: tuple[Objective, ...] = ()

    def choose(self, candidates: CandidateTable) -> int | None:
        """Nobody."""
        return None


POLICY = NoPreemption()
