"""Means with confidence intervals, and t-tests: paired, and unpaired with equal variances."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from one_preempt.simulation.probes.student_t import quantile, two_sided_p

CONFIDENCE = 0.95


class Interval(Struct, frozen=True):
    """A mean of `count` values, and between which bounds the true one lies with a confidence of `CONFIDENCE`."""

    mean: float
    low: float
    high: float
    count: int

    @property
    def half_width(self) -> float:
        """From the mean to a bound."""
        return (self.high - self.low) / 2


class TTest(Struct, frozen=True):
    """`difference` is the first mean minus the second, with its interval; `p` is two-sided."""

    difference: Interval
    t: float
    degrees: float
    p: float


def mean(values: Sequence[float]) -> float:
    """The mean of at least one value."""
    return math.fsum(values) / len(values)


def variance(values: Sequence[float]) -> float:
    """The sample variance (n - 1) of at least two values."""
    centre = mean(values)
    return math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1)


def interval(values: Sequence[float]) -> Interval:
    """The mean of at least one value; the interval of a single one is that value, for nothing is known of it."""
    centre = mean(values)
    if len(values) == 1:
        return Interval(centre, centre, centre, 1)
    return _around(centre, math.sqrt(variance(values) / len(values)), len(values) - 1, len(values))


def paired(first: Sequence[float], second: Sequence[float]) -> TTest:
    """Is the mean of the differences 0? At least two pairs."""
    differences = [one - other for one, other in zip(first, second, strict=True)]
    count = len(differences)
    return _test(mean(differences), math.sqrt(variance(differences) / count), count - 1, count)


def unpaired(first: Sequence[float], second: Sequence[float]) -> TTest:
    """Are the means of two samples of one variance equal? At least two values each."""
    n, m = len(first), len(second)
    degrees = n + m - 2
    pooled = ((n - 1) * variance(first) + (m - 1) * variance(second)) / degrees
    return _test(mean(first) - mean(second), math.sqrt(pooled * (1 / n + 1 / m)), degrees, n + m)


def _test(difference: float, error: float, degrees: float, count: int) -> TTest:
    certain = math.copysign(math.inf, difference) if difference else 0.0
    t = difference / error if error else certain
    around = _around(difference, error, degrees, count)
    return TTest(around, t, degrees, two_sided_p(t, degrees))


def _around(centre: float, error: float, degrees: float, count: int) -> Interval:
    half_width = quantile(CONFIDENCE, degrees) * error
    return Interval(centre, centre - half_width, centre + half_width, count)


def correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Pearson's, -1 to 1; 0 where one of them never varies. At least two pairs."""
    a, b = mean(first), mean(second)
    shared = math.fsum((one - a) * (other - b) for one, other in zip(first, second, strict=True))
    spread = math.sqrt(math.fsum((one - a) ** 2 for one in first) * math.fsum((other - b) ** 2 for other in second))
    return shared / spread if spread else 0.0
