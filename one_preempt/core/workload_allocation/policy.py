"""What a workload allocation policy is: one question, one method."""

from __future__ import annotations

from typing import Protocol

from one_preempt.core.workload_allocation.problem import AllocationProblem


class AllocationPolicy(Protocol):
    """How many external requests a second does each cluster get?"""

    @property
    def name(self) -> str:
        """The name on the command line."""

    @property
    def description(self) -> str:
        """One line for people."""

    @property
    def needs_service_times(self) -> bool:
        """Whether the answer depends on the external rate and on how long external requests take.

        Others are asked as well where nothing is known of these; they stand for 1 then.
        """

    def allocate(self, problem: AllocationProblem) -> tuple[float, ...]:
        """Requests a second for each cluster, in the order of the clusters; together they are the external rate.

        Raises `OnePreemptError` where the policy has no answer to this problem.
        """
