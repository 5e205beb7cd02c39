"""LRF, least rate first (JPDC12 section 5.2.1): the fewer local requests come to a cluster, the more it gets.

The shares of Equation 26 add up to N - 1; they are divided by that. Where no cluster has local requests, or there is
one cluster, all are alike.
"""

from __future__ import annotations

import math

from msgspec import Struct

from one_preempt.core.workload_allocation.problem import AllocationProblem


class LeastRateFirst(Struct, frozen=True):
    """Shares that fall with the local rate."""

    name: str = "LRF"
    description: str = "the more to a cluster, the lower the rate of its local requests"
    needs_service_times: bool = False

    def allocate(self, problem: AllocationProblem) -> tuple[float, ...]:
        """(1 - lambda_j / sum of lambda) L / (N - 1)."""
        clusters = len(problem.clusters)
        local_per_s = math.fsum(cluster.local_rate_per_s for cluster in problem.clusters)
        if clusters == 1 or not local_per_s:
            return (problem.external_rate_per_s / clusters,) * clusters
        each = problem.external_rate_per_s / (clusters - 1)
        return tuple((1 - cluster.local_rate_per_s / local_per_s) * each for cluster in problem.clusters)


POLICY = LeastRateFirst()
