"""The workload model of the DAS-2 grid (Li, Groep, Wolters 2004), as JPDC12 configures it.

Sizes: two-stage log-uniform, as in Lublin's model, of which the draws are reused. Durations: log-normal. Gaps between
arrivals: Weibull, the same all day long. The model gives no estimates of users: the requested duration is the actual
one.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from one_preempt.errors import OnePreemptError
from one_preempt.simulation.workload.lublin99 import SizeParameters, draw_sizes
from one_preempt.simulation.workload.workload import LONGEST_S, MachineSet, Workload, WorkloadRequest

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_DRAWN_AT_ONCE = 1024


class DurationParameters(Struct, frozen=True):
    """The logarithm of a duration in seconds is normal, with this mean and standard deviation (JPDC12's a and b)."""

    log_mean: float
    log_deviation: float

    def __post_init__(self) -> None:
        if self.log_deviation < 0:
            raise OnePreemptError(f"durations with a deviation of {self.log_deviation:g}: it is not negative")

    @property
    def mean_s(self) -> float:
        """Of the distribution (JPDC12, Equation 30)."""
        return math.exp(self.log_mean + self.log_deviation**2 / 2)


class GapParameters(Struct, frozen=True):
    """Gaps between arrivals are Weibull, of this scale in seconds and this shape (JPDC12's alpha and beta)."""

    scale_s: float
    shape: float

    def __post_init__(self) -> None:
        if self.scale_s <= 0 or self.shape <= 0:
            raise OnePreemptError(
                f"gaps of scale {self.scale_s:g} s and shape {self.shape:g}: both must be more than 0"
            )

    @property
    def rate_per_s(self) -> float:
        """Arrivals a second: one over the mean gap."""
        return 1 / (self.scale_s * math.gamma(1 + 1 / self.shape))


class Das2(Struct, frozen=True):
    """Requests of one source: the users of one cluster, or those of a grid."""

    sizes: SizeParameters
    durations: DurationParameters
    gaps: GapParameters
    cpu_centi: int = 100
    memory_mib: int = 1024

    @property
    def stated_mean_vms(self) -> float:
        """The mean size as JPDC12 states it (Equations 28 and 29), from which its rates and loads are counted.

        It takes the size at the mean logarithm for the mean size, and rounds powers of two up: what is drawn has
        another mean.
        """
        sizes = self.sizes
        logarithm = (sizes.low_probability * sizes.low + sizes.medium + (1 - sizes.low_probability) * sizes.high) / 2
        others = 1 - sizes.serial_probability - sizes.power_of_two_probability
        return (
            sizes.serial_probability
            + math.exp2(math.ceil(logarithm)) * sizes.power_of_two_probability
            + math.exp2(logarithm) * others
        )

    def draw(self, seed: int, span_s: int) -> Workload:
        """All requests that arrive within `span_s`. The same seed gives the same, a longer span the same and more."""
        if span_s < 1:
            raise OnePreemptError(f"a workload of {span_s} s: at least 1 s is needed")
        # Each quantity has its own stream: the n-th request is the same however many are drawn.
        of_gaps, of_sizes, of_durations = (
            np.random.Generator(np.random.PCG64(stream)) for stream in np.random.SeedSequence(seed).spawn(3)
        )
        arrived = draw_arrivals_s(self.gaps, of_gaps, span_s)
        sizes = draw_sizes(self.sizes, of_sizes, len(arrived))
        durations = draw_durations_s(self.durations, of_durations, len(arrived))
        shapes = {size: (MachineSet(size, self.cpu_centi, self.memory_mib),) for size in np.unique(sizes).tolist()}
        rows = zip(arrived.tolist(), sizes.tolist(), durations.tolist(), strict=True)
        return Workload(
            requests=tuple(
                WorkloadRequest(id, at_s, shapes[size], run_s, run_s) for id, (at_s, size, run_s) in enumerate(rows, 1)
            ),
            name="das2",
            provenance=(f"drawn from das2, seed {seed}",),
        )


def draw_arrivals_s(parameters: GapParameters, generator: np.random.Generator, until_s: int) -> IntArray:
    """The arrivals before `until_s` in whole seconds, ascending; the first comes a gap after 0."""
    instants: list[FloatArray] = []
    reached_s = 0.0
    while reached_s < until_s:
        ends = reached_s + np.cumsum(parameters.scale_s * generator.weibull(parameters.shape, _DRAWN_AT_ONCE))
        instants.append(ends)
        reached_s = float(ends[-1])
    drawn = np.concatenate(instants)
    return drawn[drawn < until_s].astype(np.int64)


def draw_durations_s(parameters: DurationParameters, generator: np.random.Generator, count: int) -> IntArray:
    """Durations in whole seconds, from 1 to the longest that a lease can ask for."""
    drawn = generator.lognormal(parameters.log_mean, parameters.log_deviation, count)
    return np.clip(np.rint(drawn), 1, LONGEST_S).astype(np.int64)
