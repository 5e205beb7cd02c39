"""PAP, the preemption-aware policy (JPDC12 section 4.1): the least mean response time of external requests.

Preemptions grow with response time, so the paper makes the latter least. With a Lagrange multiplier z the rate of
cluster j is x_j(z) = (1 - rho_j) / theta_j - phi_j(z), from z = psi_j on; Algorithm 1 finds which clusters get any, and
then the z at which all rates add up to L.

Two things differ from what is printed. The loop takes the largest number of clusters for which no rate is negative; as
printed it ends at the first, whether that suffices or not. And x_j is written with the distance of z from psi_j, which
is the same and loses no digits where a rate is small: with a = 1 - rho,

    x_j = (a / theta) w / (s (1 + s)),  s = sqrt(1 + w),  w = 2 a theta (z - psi) / (omega + theta lambda mu / a)
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from one_preempt.core.workload_allocation.problem import AllocationProblem, ClusterLoad
from one_preempt.errors import OnePreemptError

FloatArray = npt.NDArray[np.float64]

_PRECISION = 1e-12
# So near to being full, what is left cannot be told from rounding.
_FULL = 1 - 1e-12


class PreemptionAware(Struct, frozen=True):
    """The shares under which external requests wait least, as far as an M/G/1 queue for each cluster tells."""

    name: str = "PAP"
    description: str = "the shares with the least mean response time beside local requests that preempt"
    needs_service_times: bool = True

    def allocate(self, problem: AllocationProblem) -> tuple[float, ...]:
        """The rates of Algorithm 1. Clusters of equal load are taken in their order.

        Raises `OnePreemptError` where local requests alone fill a cluster, or there is no room for so many external
        ones: then no rates keep the queues finite.
        """
        _check(problem)
        by_load = _ByLoad.of(problem.clusters)
        served = by_load.served(problem.external_rate_per_s)
        rates = served.rates(served.multiplier(problem.external_rate_per_s))
        allocated = np.zeros(len(problem.clusters))
        allocated[served.places] = rates * (problem.external_rate_per_s / rates.sum())
        return tuple(allocated.tolist())


class _ByLoad(Struct, frozen=True, eq=False):
    """Clusters by ascending load psi; `beyond_s` is how far psi lies beyond the least one. All of shape (clusters,)."""

    places: npt.NDArray[np.intp]
    beyond_s: FloatArray
    room_per_s: FloatArray
    steepness_per_s: FloatArray
    least_load_s: float

    @classmethod
    def of(cls, clusters: tuple[ClusterLoad, ...]) -> _ByLoad:
        """All of them."""
        theta = np.array([one.external_service_s for one in clusters])
        omega = np.array([one.external_service_s2 for one in clusters])
        local = np.array([one.local_rate_per_s * one.local_service_s2 for one in clusters])
        idle = np.array([1 - one.local_utilization for one in clusters])
        load = local / (2 * idle**2) + theta / idle
        order = np.argsort(load, kind="stable")
        steepness = 2 * idle * theta / (omega + theta * local / idle)
        least = float(load[order[0]])
        return cls(order, load[order] - least, (idle / theta)[order], steepness[order], least)

    def served(self, external_rate_per_s: float) -> _ByLoad:
        """The largest number of them, by load, of which each gets a rate of 0 or more."""
        # With z at the load of the k-th, those before it get what they get at the least; it is more with each k.
        at_own_load = [float(self._first(k).rates(self.beyond_s[k - 1]).sum()) for k in range(1, len(self.places) + 1)]
        return self._first(int(np.searchsorted(at_own_load, external_rate_per_s, side="right")))

    def _first(self, count: int) -> _ByLoad:
        return _ByLoad(
            self.places[:count], self.beyond_s[:count], self.room_per_s[:count], self.steepness_per_s[:count],
            self.least_load_s,
        )  # fmt: skip

    def rates(self, multiplier_s: float) -> FloatArray:
        """x_j of each, for a z so far beyond the least load."""
        w = self.steepness_per_s * np.maximum(multiplier_s - self.beyond_s, 0.0)
        root = np.sqrt(1 + w)
        rates: FloatArray = self.room_per_s * (w / (root * (1 + root)))
        return rates

    def multiplier(self, external_rate_per_s: float) -> float:
        """How far beyond the least load z lies: found by bisection, up to a relative 1e-12."""
        low = float(self.beyond_s[-1])
        high = 2 * (self.least_load_s + low) - self.least_load_s
        while float(self.rates(high).sum()) < external_rate_per_s:
            high *= 2
        while high - low > _PRECISION * high:
            middle = (low + high) / 2
            if not low < middle < high:
                break
            if float(self.rates(middle).sum()) <= external_rate_per_s:
                low = middle
            else:
                high = middle
        return high


def _check(problem: AllocationProblem) -> None:
    for cluster in problem.clusters:
        if cluster.local_utilization >= 1:
            raise OnePreemptError(
                f"PAP: the local requests of cluster {cluster.name} alone take {cluster.local_utilization:.3g} times"
                " its capacity, and it is undefined from 1 on: leave the cluster out, or use another policy"
            )
    room_per_s = sum(cluster.room_per_s for cluster in problem.clusters)
    if problem.external_rate_per_s >= _FULL * room_per_s:
        raise OnePreemptError(
            f"PAP: {problem.external_rate_per_s:.6g} external requests a second, and local ones leave room for less"
            f" than {room_per_s:.6g}: lower the rate, add a cluster, or use another policy"
        )


POLICY = PreemptionAware()
