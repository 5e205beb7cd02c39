"""Student's t and the tests built on it, against printed tables and by recounting."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from one_preempt.simulation.probes.statistics import interval, paired, unpaired
from one_preempt.simulation.probes.student_t import incomplete_beta, quantile, two_sided_p

# Two-sided critical values as every table of the distribution prints them.
PRINTED = {
    (0.95, 1): 12.706, (0.95, 2): 4.303, (0.95, 4): 2.776, (0.95, 5): 2.571, (0.95, 10): 2.228, (0.95, 29): 2.045,
    (0.95, 30): 2.042, (0.95, 60): 2.000, (0.95, 120): 1.980, (0.90, 10): 1.812, (0.99, 10): 3.169, (0.99, 1): 63.657,
    (0.999, 5): 6.869, (0.999, 30): 3.646, (0.50, 3): 0.765,
}  # fmt: skip


@pytest.mark.parametrize(("place", "printed"), PRINTED.items())
def test_quantiles_are_those_of_the_tables(place: tuple[float, int], printed: float) -> None:
    assert quantile(*place) == pytest.approx(printed, abs=6e-4)


def test_one_and_two_degrees_of_freedom_follow_their_closed_forms() -> None:
    for t in (0.001, 0.3, 1.0, 2.5, 40.0):
        assert two_sided_p(t, 1) == pytest.approx(1 - 2 * math.atan(t) / math.pi, rel=1e-12)
        assert two_sided_p(t, 2) == pytest.approx(1 - t / math.sqrt(2 + t * t), rel=1e-10, abs=1e-13)


def test_many_degrees_of_freedom_are_the_normal_distribution() -> None:
    assert quantile(0.95, 1e7) == pytest.approx(1.959964, abs=1e-5)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.integers(1, 30), st.integers(1, 30), st.floats(0.01, 0.99))
def test_the_incomplete_beta_of_whole_numbers_is_a_binomial_sum(a: int, b: int, x: float) -> None:
    n = a + b - 1
    summed = math.fsum(math.comb(n, k) * x**k * (1 - x) ** (n - k) for k in range(a, n + 1))
    assert incomplete_beta(a, b, x) == pytest.approx(summed, rel=1e-9, abs=1e-14)


@settings(derandomize=True, max_examples=40, deadline=None)
@given(st.floats(0.05, 0.999), st.floats(1, 200))
def test_the_quantile_is_the_inverse_of_the_probability(confidence: float, degrees: float) -> None:
    assert two_sided_p(quantile(confidence, degrees), degrees) == pytest.approx(1 - confidence, rel=1e-6)


def test_the_interval_of_five_values_is_the_one_of_the_textbook() -> None:
    found = interval([2.0, 4.0, 4.0, 5.0, 10.0])
    # mean 5, s = 3, half width 2.776 * 3 / sqrt(5)
    assert (found.mean, found.count) == (5.0, 5)
    assert found.half_width == pytest.approx(3.725, abs=1e-3)
    assert interval([7.0]).low == interval([7.0]).high == 7.0


def test_a_paired_test_looks_at_differences_alone() -> None:
    first, second = [10.0, 20.0, 30.0, 40.0], [9.0, 18.0, 29.0, 38.0]
    found = paired(first, second)
    # differences 1 2 1 2: mean 1.5, s = 0.57735, t = 1.5 / 0.288675
    assert found.t == pytest.approx(5.19615, abs=1e-5)
    assert (found.degrees, found.difference.mean) == (3, 1.5)
    assert found.p == pytest.approx(0.013847, abs=1e-6)
    assert unpaired(first, second).p > 0.8


def test_an_unpaired_test_pools_the_variances_of_both_samples() -> None:
    first, second = [1.0, 2.0, 3.0, 4.0], [3.0, 4.0, 5.0, 6.0]
    pooled = unpaired(first, second)
    assert pooled.degrees == 6
    assert pooled.t == pytest.approx(-2.19089, abs=1e-5)
    assert pooled.p == pytest.approx(0.070977, abs=1e-4)
    # 3 x 5/3 + 2 x 100 over 5 degrees: 41; t = -7.5 / sqrt(41 x 7/12)
    wide = unpaired(first, [0.0, 10.0, 20.0])
    assert wide.degrees == 5
    assert wide.t == pytest.approx(-1.533596, abs=1e-6)


def test_samples_that_never_vary_are_equal_or_surely_different() -> None:
    assert paired([1.0, 1.0], [1.0, 1.0]).p == 1
    assert paired([2.0, 2.0], [1.0, 1.0]).p == 0
    assert unpaired([2.0, 2.0], [2.0, 2.0]).p == 1
