"""MOV, minimum overhead (CCPE13 section 6.1): the set that costs least.

Ties: the lexicographically least sequence of leases sorted by (overhead per VM, id), which begins with the leases
that are cheapest for their size. It is the rule under which Table III of CCPE13 comes out (docs/papers.md, readings).
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from one_preempt.core.preemption.candidate_table import CandidateTable
from one_preempt.core.preemption.policy import Objective


class MinimumOverhead(Struct, frozen=True):
    """The set of least overhead."""

    name: str = "MOV"
    description: str = "the candidate set with the least total overhead"
    objectives: tuple[Objective, ...] = (Objective.OVERHEAD,)

    def choose(self, candidates: CandidateTable) -> int | None:
        """Least overhead, then the cheapest leases for their size."""
        cheapest = np.flatnonzero(candidates.overhead_ms == candidates.overhead_ms.min())
        return candidates.first_in_order(cheapest, candidates.columns_by_overhead_per_vm())


POLICY = MinimumOverhead()
