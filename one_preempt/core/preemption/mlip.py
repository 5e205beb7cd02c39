"""MLIP, minimum leases involved (CCPE13 section 6.2; Haizea's way, the baseline of the paper).

Ties: the set that frees the most VMs, as a scan from the largest lease down finds it, then the least ids.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from one_preempt.core.preemption.candidate_table import CandidateTable
from one_preempt.core.preemption.policy import Objective


class MinimumLeasesInvolved(Struct, frozen=True):
    """The set of fewest leases."""

    name: str = "MLIP"
    description: str = "the candidate set with the fewest leases"
    objectives: tuple[Objective, ...] = (Objective.LEASE_COUNT,)

    def choose(self, candidates: CandidateTable) -> int | None:
        """Fewest leases, then most VMs freed; the table's own order ends in the ids."""
        return int(np.lexsort((-candidates.frees_vms, candidates.lease_count))[0])


POLICY = MinimumLeasesInvolved()
