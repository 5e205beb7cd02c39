"""BCF, biggest cluster first (JPDC12 section 5.2.1): shares in proportion to what clusters can compute."""

from __future__ import annotations

import math

from msgspec import Struct

from one_preempt.core.workload_allocation.problem import AllocationProblem


class BiggestClusterFirst(Struct, frozen=True):
    """Shares in proportion to processing elements times speed."""

    name: str = "BCF"
    description: str = "the more to a cluster, the more it can compute"
    needs_service_times: bool = False

    def allocate(self, problem: AllocationProblem) -> tuple[float, ...]:
        """L times the cluster's part of all capability (Equation 27)."""
        whole = math.fsum(cluster.capability for cluster in problem.clusters)
        return tuple(problem.external_rate_per_s * (cluster.capability / whole) for cluster in problem.clusters)


POLICY = BiggestClusterFirst()
