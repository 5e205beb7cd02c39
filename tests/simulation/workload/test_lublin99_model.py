from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt
import pytest

from one_preempt.errors import OnePreemptError
from one_preempt.simulation.workload.lublin99 import (
    BATCH,
    INTERACTIVE,
    TYPELESS,
    JobClass,
    Lublin99,
    draw_run_times_s,
    draw_sizes,
)
from one_preempt.simulation.workload.lublin99_arrivals import ArrivalProcess, arrivals_s, bucket_weights

FloatArray = npt.NDArray[np.float64]
CLASSES = (INTERACTIVE, BATCH, TYPELESS)
by_name = pytest.mark.parametrize("job_class", CLASSES, ids=lambda each: each.name)


def gamma_cdf(shape: float, scale: float, x: float) -> float:
    """The regularized lower incomplete gamma function, by its power series: nothing the model itself uses."""
    z, term, total, n = x / scale, 1.0 / shape, 1.0 / shape, 0
    while term > total * 1e-16:
        n += 1
        term *= z / (shape + n)
        total += term
    return total * math.exp(shape * math.log(z) - z - math.lgamma(shape)) if z > 0 else 0.0


def kolmogorov_smirnov(sample: Iterable[int], cdf: Callable[[int], float]) -> float:
    """The distance of a sample of whole numbers from a distribution on them, times the root of its size."""
    values, counts = np.unique(np.fromiter(sample, dtype=np.int64), return_counts=True)
    empirical = np.cumsum(counts) / counts.sum()
    expected = np.array([cdf(value) for value in values.tolist()])
    return float(np.abs(empirical - expected).max() * math.sqrt(counts.sum()))


CRITICAL = 1.63  # of the limit distribution at 1 %; smaller still for whole numbers


@by_name
def test_sizes_have_the_probabilities_of_the_two_stage_uniform(job_class: JobClass) -> None:
    sizes = draw_sizes(job_class.sizes, np.random.default_rng(5), 20_000)
    p = job_class.sizes

    def below(logarithm: float) -> float:
        if logarithm <= p.medium:
            return p.low_probability * min(1, max(0, (logarithm - p.low) / (p.medium - p.low)))
        return p.low_probability + (1 - p.low_probability) * min(1, (logarithm - p.medium) / (p.high - p.medium))

    def cdf(size: int) -> float:
        others = 1 - p.serial_probability - p.power_of_two_probability
        rounded = below(math.floor(math.log2(size)) + 0.5)
        return p.serial_probability + p.power_of_two_probability * rounded + others * below(math.log2(size + 0.5))

    assert kolmogorov_smirnov(sizes.tolist(), cdf) < CRITICAL
    assert sizes.min() == 1
    assert sizes.max() <= round(2**p.high)


@by_name
@pytest.mark.parametrize("size", [1, 16, 128])
def test_run_times_have_the_distribution_of_the_cut_mixture(job_class: JobClass, size: int) -> None:
    p = job_class.run_times
    drawn = draw_run_times_s(p, np.random.default_rng(6), np.full(4000, size))
    first = min(1, max(0, p.slope * size + p.intercept))

    def mixture(log_s: float) -> float:
        return first * gamma_cdf(p.first_shape, p.first_scale, log_s) + (1 - first) * gamma_cdf(
            p.second_shape, p.second_scale, log_s
        )

    def cdf(seconds: int) -> float:
        return mixture(min(12.0, math.log(seconds + 1))) / mixture(12.0)

    assert kolmogorov_smirnov(drawn.tolist(), cdf) < CRITICAL
    assert drawn.min() >= 1
    assert drawn.max() <= math.exp(12)


@by_name
def test_the_weights_of_the_day_are_differences_of_the_gamma_distribution(job_class: JobClass) -> None:
    p = job_class.arrivals
    expected = np.zeros(48)
    for i in range(11, 59):
        upper, lower = (gamma_cdf(p.cycle_shape, p.cycle_scale, i + shift) for shift in (0.5, -0.5))
        expected[(i - 1) % 48] = upper - lower
    assert np.allclose(bucket_weights(p), expected / expected.mean(), rtol=1e-9, atol=0)


def plain_walk(job_class: JobClass, process: ArrivalProcess, seed: int, start_hour: int, count: int) -> list[float]:
    """The walk through the half hours as the programs do it, with state between calls or without."""
    weights = bucket_weights(job_class.arrivals).tolist()
    p = job_class.arrivals
    log_gaps = np.random.default_rng(seed).gamma(p.gap_shape * p.rush_to_all_ratio, p.gap_scale, 2 * count)
    bucket, points, remainder, now_s = start_hour * 2, 0.0, 0.0, 0.0
    instants = []
    for log_gap in log_gaps[log_gaps <= 13][:count].tolist():
        points += math.exp(log_gap) / 1800
        gap_s = 0.0
        while points > weights[bucket]:
            points -= weights[bucket]
            bucket = (bucket + 1) % 48
            gap_s += 1800
        share = points / weights[bucket]
        gap_s += 1800 * (share - remainder)
        remainder = share
        if process is ArrivalProcess.GRIDSIM:
            points, remainder, gap_s = 0.0, 0.0, math.floor(gap_s)
        now_s += gap_s
        instants.append(now_s)
    return instants


@by_name
@pytest.mark.parametrize("process", ArrivalProcess)
@pytest.mark.parametrize("start_hour", [0, 9])
def test_arrivals_equal_a_plain_walk_through_the_half_hours(
    job_class: JobClass, process: ArrivalProcess, start_hour: int
) -> None:
    drawn = arrivals_s(job_class.arrivals, process, np.random.default_rng(7), start_hour, 500, None)
    expected = plain_walk(job_class, process, 7, start_hour, 500)
    assert np.abs(drawn - np.array(expected)).max() <= 1  # a second, where floating-point sums straddle one


@by_name
def test_gaps_on_the_clock_have_the_gamma_distribution_and_days_the_cycle(job_class: JobClass) -> None:
    arrivals = job_class.arrivals
    instants = arrivals_s(arrivals, ArrivalProcess.AUTHORS, np.random.default_rng(8), 0, 6000, None)
    weights = bucket_weights(arrivals)
    clock = np.concatenate([[0.0], np.cumsum(weights)]) * 1800
    points = instants // 86_400 * 86_400 + np.interp(instants % 86_400, np.arange(49) * 1800, clock)
    gaps = np.round(np.diff(points)).astype(np.int64)
    shape = arrivals.gap_shape * arrivals.rush_to_all_ratio

    def cdf(gap_s: int) -> float:
        return gamma_cdf(shape, arrivals.gap_scale, math.log(gap_s + 0.5)) / gamma_cdf(shape, arrivals.gap_scale, 13)

    assert kolmogorov_smirnov(gaps[gaps >= 20].tolist(), lambda s: (cdf(s) - cdf(19)) / (1 - cdf(19))) < CRITICAL
    per_quarter = np.bincount(instants % 86_400 // 21_600, minlength=4) / len(instants)
    assert np.allclose(per_quarter, weights.reshape(4, 12).sum(axis=1) / 48, atol=0.04)


def mean_gap_s(job_class: JobClass) -> float:
    """Of e^g where g is gamma and at most 13, integrated by the midpoint rule."""
    shape = job_class.arrivals.gap_shape * job_class.arrivals.rush_to_all_ratio
    logs = (np.arange(200_000) + 0.5) * 13 / 200_000
    density = np.exp((shape - 1) * np.log(logs) - logs / job_class.arrivals.gap_scale)
    return float((density * np.exp(logs)).sum() / density.sum())


@pytest.mark.parametrize(
    ("job_class", "gap_s", "run_s", "size"),
    [(TYPELESS, 912, 4367, 12.2), (BATCH, 3542, 9494, 13.9), (INTERACTIVE, 633, 239, 8.1)],
    ids=["typeless", "batch", "interactive"],
)
def test_means_are_those_of_long_runs_of_the_authors_program(
    job_class: JobClass, gap_s: float, run_s: float, size: float
) -> None:
    assert mean_gap_s(job_class) == pytest.approx(gap_s, rel=0.025)
    requests = Lublin99((job_class,)).draw(1, requests=20_000).requests
    assert np.mean([r.actual_duration_s for r in requests]) == pytest.approx(run_s, rel=0.08)  # heavy tails
    assert np.mean([r.virtual_machines for r in requests]) == pytest.approx(size, rel=0.03)


@by_name
def test_jobs_arrive_at_the_mean_rate_and_in_gridsims_port_a_little_faster(job_class: JobClass) -> None:
    instants = [
        arrivals_s(job_class.arrivals, process, np.random.default_rng(1), 0, 100_000, None)
        for process in ArrivalProcess
    ]
    error_s = float(np.diff(instants[0]).std()) / math.sqrt(100_000)
    assert abs(instants[0][-1] / 100_000 - mean_gap_s(job_class)) < 3 * error_s
    assert 0.9 < instants[1][-1] / instants[0][-1] < 0.99


def test_the_same_seed_gives_the_same_workload_and_another_another() -> None:
    model = Lublin99()
    assert model.draw(3, requests=50) == model.draw(3, requests=50)
    assert model.draw(3, requests=50).requests != model.draw(4, requests=50).requests


def test_a_seed_means_the_same_on_every_machine() -> None:
    requests = Lublin99().draw(1, requests=4).requests
    assert [(r.submitted_at_s, r.virtual_machines, r.actual_duration_s, r.queue) for r in requests] == [
        (30, 4, 24685, 1),
        (100, 32, 7701, 0),
        (100, 1, 41, 1),
        (680, 1, 456, 1),
    ]


def test_a_longer_workload_begins_with_the_shorter_one() -> None:
    model = Lublin99()
    assert model.draw(3, requests=3000).requests[:200] == model.draw(3, requests=200).requests


def test_a_span_ends_the_workload_where_the_number_does_not() -> None:
    model = Lublin99()
    week = model.draw(3, span_s=7 * 86_400)
    assert week.span_s <= 7 * 86_400
    assert week.requests == model.draw(3, requests=len(week)).requests
    assert model.draw(3, requests=len(week) + 1).span_s > 7 * 86_400
    assert len(model.draw(3, requests=10, span_s=7 * 86_400)) == 10


def test_both_classes_arrive_independently_and_are_told_by_their_queue() -> None:
    both = Lublin99().draw(3, span_s=7 * 86_400).requests
    alone = Lublin99((INTERACTIVE,)).draw(3, span_s=7 * 86_400).requests
    assert {request.queue for request in both} == {0, 1}
    interactive = [request for request in both if request.queue == 0]
    assert [(r.submitted_at_s, r.vm_sets, r.actual_duration_s) for r in interactive] == [
        (r.submitted_at_s, r.vm_sets, r.actual_duration_s) for r in alone
    ]


@pytest.mark.parametrize("nodes", [1, 2, 32, 100, 512])
def test_no_job_is_larger_than_the_machine(nodes: int) -> None:
    sizes = [r.virtual_machines for r in Lublin99().for_nodes(nodes).draw(1, requests=2000).requests]
    assert min(sizes) == 1
    assert nodes / 2 < max(sizes) <= nodes


def test_a_model_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(OnePreemptError, match="for ever"):
        Lublin99().draw(1)
    with pytest.raises(OnePreemptError, match="below 24"):
        Lublin99(start_hour=24)
    with pytest.raises(OnePreemptError, match="0 classes"):
        Lublin99(classes=())
