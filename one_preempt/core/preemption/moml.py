"""MOML, minimum overhead and minimum leases (CCPE13 section 6.3): the paper's trade-off between the two.

Among the sets whose overhead is at most the median over all minimal candidate sets (the paper's threshold alpha;
alpha to 0 gives MOV, to infinity MLIP) the one with the fewest leases. Ties: the least overhead, then the least ids.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from one_preempt.core.preemption.candidate_table import CandidateTable
from one_preempt.core.preemption.policy import Objective


class MinimumOverheadMinimumLeases(Struct, frozen=True):
    """The set of fewest leases in the cheaper half.

    A set that has both the least overhead and the fewest leases of all is in the cheaper half and first there,
    wherever the median lies: so both bounds together prove a pick.
    """

    name: str = "MOML"
    description: str = "among the sets that cost at most the median, the one with the fewest leases"
    objectives: tuple[Objective, ...] = (Objective.OVERHEAD, Objective.LEASE_COUNT)

    def choose(self, candidates: CandidateTable) -> int | None:
        """Fewest leases among the sets at most at the median, then the least overhead, then the ids."""
        affordable = np.flatnonzero(candidates.overhead_ms <= candidates.median_overhead_ms)
        order = np.lexsort((candidates.overhead_ms[affordable], candidates.lease_count[affordable]))
        return int(affordable[order[0]])


POLICY = MinimumOverheadMinimumLeases()
