"""When jobs arrive in the model of Lublin and Feitelson: gaps of the rush hours, stretched by the cycle of the day.

A gap is e^g seconds of a clock, g ~ gamma. The day has 48 half hours with weights of mean 1: in a half hour of weight w
the clock runs w times as fast, so that w times as many jobs arrive.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from enum import StrEnum

import numpy as np
import numpy.typing as npt
from msgspec import Struct

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

BUCKETS = 48
SECONDS_PER_BUCKET = 1800
_FIRST_BUCKET_OF_CYCLE = 11  # the density of the day begins at half past five, when least happens
_LONGEST_LOG_GAP = 13.0  # five days
_DRAWN_AT_ONCE = 1024


class ArrivalProcess(StrEnum):
    """How gaps become instants.

    AUTHORS: as the authors' program has it: what is left of a gap's points in a half hour is kept for the next gap.
    GRIDSIM: as GridSim's port has it: every gap begins at the start of the half hour in which the last one ended. Then
        short gaps never leave a half hour, and the day advances with long gaps only.
    """

    AUTHORS = "authors"
    GRIDSIM = "gridsim"


class ArrivalParameters(Struct, frozen=True):
    """`gap_*`: of gamma for the logarithm of the gaps (aarr, barr); `cycle_*`: of gamma for the day (anum, bnum).

    `rush_to_all_ratio` (arar) multiplies the first: gaps were fitted at the rush hours, and are meant for all hours.
    """

    gap_shape: float
    gap_scale: float
    cycle_shape: float
    cycle_scale: float
    rush_to_all_ratio: float


def bucket_weights(parameters: ArrivalParameters) -> FloatArray:
    """Relative rates of arrival, shape (48,), half hours from midnight; their mean is 1.

    The weight of half hour i is the gamma distribution's probability of [i - 1/2, i + 1/2]; its constants cancel.
    """
    nodes, node_weights = np.polynomial.legendre.leggauss(16)
    centres = np.arange(_FIRST_BUCKET_OF_CYCLE, _FIRST_BUCKET_OF_CYCLE + BUCKETS)
    hours = centres[:, np.newaxis] + nodes / 2
    log_density = (parameters.cycle_shape - 1) * np.log(hours) - hours / parameters.cycle_scale
    in_cycle: FloatArray = np.exp(log_density - log_density.max()) @ node_weights
    weights = np.empty(BUCKETS)
    weights[(centres - 1) % BUCKETS] = in_cycle
    normalized: FloatArray = weights / weights.mean()
    return normalized


def arrivals_s(
    parameters: ArrivalParameters,
    process: ArrivalProcess,
    generator: np.random.Generator,
    start_hour: int,
    most: int | None,
    until_s: int | None,
) -> IntArray:
    """The first arrivals in whole seconds, ascending: at most `most`, and none after `until_s`; one must be given."""
    weights = np.roll(bucket_weights(parameters), -start_hour * BUCKETS // 24)
    walk = _on_the_clock if process is ArrivalProcess.AUTHORS else _from_bucket_starts
    found: list[IntArray] = []
    count = 0
    for block_s in walk(weights, _gaps(parameters, generator)):
        within_s = block_s if until_s is None else block_s[block_s <= until_s]
        found.append(within_s)
        count += len(within_s)
        if len(within_s) < len(block_s) or (most is not None and count >= most):
            break
    return np.concatenate(found)[:most]


def _gaps(parameters: ArrivalParameters, generator: np.random.Generator) -> Iterator[FloatArray]:
    """Endless gaps in half hours of the clock, in blocks; those over five days are drawn again."""
    while True:
        shape = parameters.gap_shape * parameters.rush_to_all_ratio
        log_gaps = generator.gamma(shape, parameters.gap_scale, _DRAWN_AT_ONCE)
        yield np.exp(log_gaps[log_gaps <= _LONGEST_LOG_GAP]) / SECONDS_PER_BUCKET


def _on_the_clock(weights: FloatArray, gaps: Iterator[FloatArray]) -> Iterator[IntArray]:
    """Sums of gaps, read off the clock: the authors' walk through the half hours in one step."""
    clock = np.concatenate([[0.0], np.cumsum(weights)])
    passed = 0.0
    for block in gaps:
        points = passed + np.cumsum(block)
        passed = float(points[-1])
        days, today = np.divmod(points, clock[-1])
        buckets = days * BUCKETS + np.interp(today, clock, np.arange(BUCKETS + 1))
        yield (buckets * SECONDS_PER_BUCKET).astype(np.int64)


def _from_bucket_starts(weights: FloatArray, gaps: Iterator[FloatArray]) -> Iterator[IntArray]:
    """The port's walk: the position inside a half hour is forgotten, and instants are cut to seconds one by one."""
    clock = np.concatenate([[0.0], np.cumsum(weights)]).tolist()
    day = clock[-1]
    bucket, now_s = 0, 0
    for block in gaps:
        instants = []
        for gap in block.tolist():
            days, today = divmod(clock[bucket] + gap, day)
            landed = max(0, bisect_left(clock, today) - 1)
            share = (today - clock[landed]) / (clock[landed + 1] - clock[landed])
            now_s += int((days * BUCKETS + landed - bucket + share) * SECONDS_PER_BUCKET)
            bucket = landed
            instants.append(now_s)
        yield np.array(instants, dtype=np.int64)
