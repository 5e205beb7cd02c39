"""The question of workload allocation as a value: clusters with their own load, and a stream of external requests.

Each cluster is seen as a queue M/G/1 in which local requests preempt external ones (JPDC12 section 3). Nothing here is
observed: a gateway knows rates and moments, and not what runs now.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from one_preempt.errors import OnePreemptError

_ROUNDING = 1e-9


class ClusterLoad(Struct, frozen=True):
    """One cluster as a gateway knows it.

    Attributes:
        name: For people.
        processing_elements: M_j: how many VMs run at once.
        speed: s_ij: of each of them, in the same unit in all clusters.
        external_service_s: theta_j: mean service time of an external request, were the whole cluster its server.
        external_service_s2: omega_j: the second moment of that.
        local_service_s: tau_j: the same of local requests.
        local_service_s2: mu_j: the second moment of that.
        local_rate_per_s: lambda_j: local requests a second.

    Raises:
        OnePreemptError: No cluster is like this; the message says what is wrong.
    """

    name: str
    processing_elements: int
    speed: float
    external_service_s: float
    external_service_s2: float
    local_service_s: float
    local_service_s2: float
    local_rate_per_s: float

    def __post_init__(self) -> None:
        amounts = (
            self.speed, self.external_service_s, self.external_service_s2, self.local_service_s,
            self.local_service_s2, self.local_rate_per_s,
        )  # fmt: skip
        if not all(map(math.isfinite, amounts)):
            raise OnePreemptError(f"cluster {self.name}: speed, moments and rate must be finite numbers")
        if self.processing_elements < 1 or self.speed <= 0:
            raise OnePreemptError(
                f"cluster {self.name}: {self.processing_elements} processing elements of speed {self.speed:g}:"
                " at least one is needed, and a speed above 0"
            )
        if self.external_service_s <= 0 or self.local_service_s < 0 or self.local_rate_per_s < 0:
            raise OnePreemptError(
                f"cluster {self.name}: service times of {self.external_service_s:g} s (external) and"
                f" {self.local_service_s:g} s (local) at {self.local_rate_per_s:g} local requests a second: the first"
                " must be more than 0, the others not less"
            )
        for kind, mean_s, second_s2 in (
            ("external", self.external_service_s, self.external_service_s2),
            ("local", self.local_service_s, self.local_service_s2),
        ):
            if second_s2 < mean_s**2 * (1 - _ROUNDING):
                raise OnePreemptError(
                    f"cluster {self.name}: {kind} service times have the mean {mean_s:g} s and the second moment"
                    f" {second_s2:g} s2: it cannot be less than the mean squared"
                )

    @property
    def capability(self) -> float:
        """The sum of s_ij: how much it computes a second."""
        return self.processing_elements * self.speed

    @property
    def local_utilization(self) -> float:
        """rho_j: the share of its time that local requests take."""
        return self.local_service_s * self.local_rate_per_s

    @property
    def room_per_s(self) -> float:
        """External requests a second for which local ones leave it time: (1 - rho_j) / theta_j."""
        return (1 - self.local_utilization) / self.external_service_s


class AllocationProblem(Struct, frozen=True):
    """The clusters, and how many external requests a second (Lambda) are to be split over them.

    Raises:
        OnePreemptError: There is no cluster, or no request.
    """

    clusters: tuple[ClusterLoad, ...]
    external_rate_per_s: float

    def __post_init__(self) -> None:
        if not self.clusters:
            raise OnePreemptError("no cluster to allocate external requests to: name at least one")
        if not (math.isfinite(self.external_rate_per_s) and self.external_rate_per_s > 0):
            raise OnePreemptError(f"{self.external_rate_per_s:g} external requests a second: a rate above 0 is needed")


def parallel_service_s(mean_vms: float, mean_work: float, capability: float) -> float:
    """Mean service time of requests of several VMs, were the whole cluster one server (JPDC12, Equations 16 and 17).

    `mean_work` is what one VM computes, in units of `capability` times seconds: a duration in seconds where speeds are
    relative to the processing element on which it was measured.
    """
    return mean_vms * mean_work / capability


def second_moment_s2(mean_s: float, variation: float) -> float:
    """From the mean and the coefficient of variation (JPDC12, Equations 18 and 19)."""
    return (variation * mean_s) ** 2 + mean_s**2


def response_s(cluster: ClusterLoad, rate_per_s: float) -> float:
    """T_j: mean response time of external requests that come at this rate (Equation 4); infinite where it is full."""
    idle = 1 - cluster.local_utilization
    left = idle - cluster.external_service_s * rate_per_s
    if left <= 0:
        return math.inf
    residual_s = rate_per_s * cluster.external_service_s2 + cluster.local_rate_per_s * cluster.local_service_s2
    return (cluster.external_service_s + residual_s / (2 * left)) / idle


def mean_response_s(problem: AllocationProblem, rates_per_s: Sequence[float]) -> float:
    """T: mean response time over all external requests (Equation 3), which PAP makes least."""
    weighted = (
        rate * response_s(cluster, rate) for cluster, rate in zip(problem.clusters, rates_per_s, strict=True) if rate
    )
    return math.fsum(weighted) / problem.external_rate_per_s
