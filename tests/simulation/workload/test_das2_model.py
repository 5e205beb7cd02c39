"""The DAS-2 workload model: its moments are those of its distributions, and its draws are the same everywhere."""

from __future__ import annotations

import math

import numpy as np
import pytest
from msgspec.structs import replace

from one_preempt.errors import OnePreemptError
from one_preempt.simulation.workload.das2 import (
    Das2,
    DurationParameters,
    GapParameters,
    draw_arrivals_s,
    draw_durations_s,
)
from one_preempt.simulation.workload.lublin99 import SizeParameters

C64 = Das2(SizeParameters(0.3, 0.6, 0.8, 2.5, 6, 0.9), DurationParameters(5.0, 1.7), GapParameters(7.0, 0.35))
GRID = Das2(SizeParameters(0.2, 0.5, 0.8, 2.75, 6, 0.9), DurationParameters(4.595, 1.7), GapParameters(7.0, 1.1))


def mean_size(p: SizeParameters) -> float:
    """Of the sizes as they are drawn, summed over positions in the two stages."""
    positions = (np.arange(200_000) + 0.5) / 200_000
    total = p.serial_probability
    for weight, low, high in (
        (p.low_probability, p.low, p.medium), (1 - p.low_probability, p.medium, p.high),
    ):  # fmt: skip
        logarithms = low + positions * (high - low)
        powers = (2 ** np.floor(logarithms + 0.5)).mean()
        others = np.minimum(np.floor(2**logarithms + 0.5), 2**p.high).mean()
        share = 1 - p.serial_probability - p.power_of_two_probability
        total += weight * float(p.power_of_two_probability * powers + share * others)
    return total


@pytest.mark.parametrize("model", [C64, GRID], ids=["C64", "grid"])
def test_sizes_have_the_mean_of_their_distribution_and_stay_within_it(model: Das2) -> None:
    sizes = [one.virtual_machines for one in model.draw(1, 1_000_000).requests]
    assert np.mean(sizes) == pytest.approx(mean_size(model.sizes), rel=0.03)
    assert (min(sizes), max(sizes)) == (1, 64)
    assert sizes.count(1) / len(sizes) == pytest.approx(model.sizes.serial_probability, abs=0.01)
    # Some of the others are powers of two by chance.
    powers = sum(size & (size - 1) == 0 for size in sizes) / len(sizes)
    assert powers > model.sizes.serial_probability + model.sizes.power_of_two_probability - 0.01


def test_the_logarithm_of_durations_is_normal() -> None:
    drawn = draw_durations_s(DurationParameters(6.0, 1.2), np.random.default_rng(2), 50_000)
    logarithms = np.log(drawn)
    assert logarithms.mean() == pytest.approx(6.0, abs=0.02)
    assert logarithms.std() == pytest.approx(1.2, abs=0.02)
    assert drawn.mean() == pytest.approx(math.exp(6.0 + 1.2**2 / 2), rel=0.03)
    assert DurationParameters(6.0, 1.2).mean_s == pytest.approx(math.exp(6.72))
    assert drawn.min() >= 1


def test_short_durations_are_a_second() -> None:
    assert draw_durations_s(DurationParameters(-9, 0.1), np.random.default_rng(0), 3).tolist() == [1, 1, 1]


@pytest.mark.parametrize(("scale_s", "shape"), [(7.0, 1.1), (7.0, 0.35), (3.8, 0.5)])
def test_gaps_have_the_moments_of_a_weibull_distribution(scale_s: float, shape: float) -> None:
    parameters = GapParameters(scale_s, shape)
    mean_s = scale_s * math.gamma(1 + 1 / shape)
    instants = draw_arrivals_s(parameters, np.random.default_rng(3), round(60_000 * mean_s))
    assert parameters.rate_per_s == pytest.approx(1 / mean_s)
    assert len(instants) / 60_000 == pytest.approx(1, abs=0.04)
    gaps = np.diff(instants)
    variation = math.sqrt(math.gamma(1 + 2 / shape) / math.gamma(1 + 1 / shape) ** 2 - 1)
    # Whole seconds widen short gaps a little.
    assert gaps.std() / gaps.mean() == pytest.approx(variation, rel=0.08)
    assert (gaps >= 0).all()


def test_the_stated_means_are_those_of_the_papers_equations() -> None:
    # r = (0.9 * 0.8 + 2.5 + 0.1 * 6) / 2 = 1.91: 0.3 + 4 * 0.6 + 2^1.91 * 0.1
    assert C64.stated_mean_vms == pytest.approx(0.3 + 2.4 + 0.1 * 2**1.91)
    assert GRID.durations.mean_s == pytest.approx(419.9, abs=0.1)
    assert GRID.gaps.rate_per_s == pytest.approx(0.148, abs=0.0005)


def test_a_longer_workload_begins_with_the_shorter_one() -> None:
    short, long = GRID.draw(4, 5_000).requests, GRID.draw(4, 20_000).requests
    assert long[: len(short)] == short
    assert len(long) > 3 * len(short)
    assert max(one.submitted_at_s for one in short) < 5_000


def test_other_parameters_of_one_quantity_leave_the_others_as_they_are() -> None:
    longer = replace(GRID, durations=DurationParameters(5.4, 1.7)).draw(5, 5_000).requests
    assert [(one.submitted_at_s, one.virtual_machines) for one in longer] == [
        (one.submitted_at_s, one.virtual_machines) for one in GRID.draw(5, 5_000).requests
    ]


def test_a_seed_means_the_same_on_every_machine() -> None:
    requests = GRID.draw(1, 60).requests
    assert [(r.submitted_at_s, r.virtual_machines, r.actual_duration_s) for r in requests[:4]] == [
        (17, 2, 1149),
        (17, 2, 22),
        (22, 3, 377),
        (29, 2, 505),
    ]


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(OnePreemptError, match="both must be more than 0"):
        GapParameters(7.0, 0)
    with pytest.raises(OnePreemptError, match="it is not negative"):
        DurationParameters(5.0, -1)
    with pytest.raises(OnePreemptError, match="at least 1 s is needed"):
        GRID.draw(1, 0)
