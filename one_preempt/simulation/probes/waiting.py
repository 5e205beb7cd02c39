"""How long requests waited, and how much longer they took than they had to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct

from one_preempt.simulation.probes.outcome import Outcome

# Below it a run time counts as this long, lest short jobs decide the mean (Feitelson's threshold).
BOUND_MS = 10_000


class Distribution(Struct, frozen=True):
    """Of `count` values; percentiles are the least value that so many per cent do not exceed."""

    count: int
    mean: float
    median: float
    percentile_90: float
    percentile_99: float
    largest: float


def distribution(values: Iterable[float]) -> Distribution | None:
    """None without values. The median of an even number of values is the mean of the two in the middle."""
    ordered = sorted(values)
    count = len(ordered)
    if not count:
        return None
    return Distribution(
        count=count,
        mean=math.fsum(ordered) / count,
        median=(ordered[(count - 1) // 2] + ordered[count // 2]) / 2,
        percentile_90=percentile(ordered, 90),
        percentile_99=percentile(ordered, 99),
        largest=ordered[-1],
    )


def percentile(ordered: Sequence[float], per_cent: int) -> float:
    """The least of the ascending values that `per_cent` of them do not exceed (nearest rank)."""
    return ordered[max(0, -(-len(ordered) * per_cent // 100) - 1)]


def waits_s(found: Iterable[Outcome]) -> list[float]:
    """Seconds between being ready and the first start, of those that started."""
    return [one.waited_ms / 1000 for one in found if one.waited_ms is not None]


def slowdowns(found: Iterable[Outcome]) -> list[float]:
    """Response time over run time, of those that completed and took time."""
    return [
        one.response_ms / (1000 * one.request.actual_duration_s)
        for one in found
        if one.response_ms is not None and one.request.actual_duration_s
    ]


def bounded_slowdowns(found: Iterable[Outcome]) -> list[float]:
    """Response time over run time, which counts as at least `BOUND_MS`; at least 1."""
    return [
        max(1.0, one.response_ms / max(BOUND_MS, 1000 * one.request.actual_duration_s))
        for one in found
        if one.response_ms is not None
    ]


def makespans_s(found: Iterable[Outcome]) -> list[float]:
    """Seconds from being ready to completion (CCPE13, Equation 13, takes the mean of best-effort leases)."""
    return [one.response_ms / 1000 for one in found if one.response_ms is not None]
