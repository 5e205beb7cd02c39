"""RR, round robin (JPDC12 section 5.2.1): every cluster gets as much as any other."""

from __future__ import annotations

from msgspec import Struct

from one_preempt.core.workload_allocation.problem import AllocationProblem


class RoundRobin(Struct, frozen=True):
    """Equal shares."""

    name: str = "RR"
    description: str = "the same to every cluster"
    needs_service_times: bool = False

    def allocate(self, problem: AllocationProblem) -> tuple[float, ...]:
        """L / N each (Equation 25)."""
        clusters = len(problem.clusters)
        return (problem.external_rate_per_s / clusters,) * clusters


POLICY = RoundRobin()
