"""What a host draws, in whole milliwatts and millijoules."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from one_preempt.core.energy.energy_integration import energy_mj, kwh
from one_preempt.core.energy.power_model import (
    CONSTANT_117_W,
    HostPower,
    PowerCurve,
    constant_power,
    linear_power,
    most_economical_first,
    power_table,
)

# A SPECpower_ssj2008 table is eleven powers from active idle to full load; these are invented in its manner.
TABLE_W = [55.0, 80.0, 95.5, 108.0, 120.0, 133.0, 148.0, 166.0, 190.0, 221.0, 258.0]


def test_the_host_of_the_paper_draws_the_same_at_any_utilization() -> None:
    assert {CONSTANT_117_W.power_mw(used, 100) for used in range(101)} == {117_000}


def test_always_on_takes_what_the_paper_says() -> None:
    thirty_days_s = 30 * 24 * 3600
    nodes = np.array([512 * CONSTANT_117_W.idle_mw])
    assert round(kwh(energy_mj(np.array([0]), nodes, 0, thirty_days_s))) == 43_131


def test_between_idle_and_peak_the_power_is_a_straight_line() -> None:
    curve = linear_power(100, 250)
    assert [curve.power_mw(used, 400) for used in (0, 100, 200, 400)] == [100_000, 137_500, 175_000, 250_000]
    assert (curve.idle_mw, curve.peak_mw) == (100_000, 250_000)


def test_a_table_is_met_at_its_points_and_interpolated_between() -> None:
    curve = power_table(TABLE_W)
    assert [curve.power_mw(tenth, 10) for tenth in range(11)] == [int(power * 1000) for power in TABLE_W]
    assert curve.power_mw(25, 100) == (95_500 + 108_000) // 2


def test_more_than_full_is_full_and_a_host_of_no_capacity_idles() -> None:
    curve = linear_power(100, 250)
    assert curve.power_mw(900, 400) == 250_000
    assert curve.power_mw(-1, 400) == curve.power_mw(1, 0) == 100_000


@settings(derandomize=True)
@given(
    powers=st.lists(st.integers(0, 500), min_size=11, max_size=11),
    used=st.integers(0, 6400),
    capacity=st.integers(1, 6400),
)
def test_a_table_agrees_with_interpolation_by_fractions(powers: list[int], used: int, capacity: int) -> None:
    load = min(Fraction(used, capacity), Fraction(1)) * 10
    below = min(int(load), 9)
    exact = (powers[below] + (powers[below + 1] - powers[below]) * (load - below)) * 1000
    assert power_table(powers).power_mw(used, capacity) == exact.__floor__()


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (((0, 1),), "from 0 to 100"),
        (((10, 1), (100, 2)), "from 0 to 100"),
        (((0, 1), (50, 2), (50, 3), (100, 4)), "ascend"),
        (((0, -1), (100, 2)), "less than nothing"),
    ],
)
def test_a_curve_that_is_none_is_refused(points: tuple[tuple[int, int], ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PowerCurve(points)


@pytest.mark.parametrize("powers_w", [[117.0], [1.0, 2.0, 3.0, 4.0]])
def test_a_table_whose_steps_are_no_whole_per_cent_is_refused(powers_w: list[float]) -> None:
    with pytest.raises(ValueError, match="give 2 or 11"):
        power_table(powers_w)


def test_a_host_that_idles_at_its_boot_power_breaks_even_after_the_boot() -> None:
    assert HostPower().break_even_s == 120


def test_off_and_on_takes_no_more_than_idling_from_the_break_even_time_on() -> None:
    power = HostPower(
        linear_power(100, 200), boot_s=180, boot_mw=190_000, shutdown_s=40, shutdown_mw=110_000, off_mw=8_000
    )
    break_even_s = power.break_even_s
    assert break_even_s is not None

    def asleep_mj(lasting_s: int) -> int:
        off_s = lasting_s - power.boot_s - power.shutdown_s
        return power.boot_energy_mj + power.shutdown_energy_mj + off_s * power.off_mw

    assert asleep_mj(break_even_s) <= break_even_s * power.curve.idle_mw
    assert asleep_mj(break_even_s - 1) > (break_even_s - 1) * power.curve.idle_mw


def test_a_host_that_draws_as_much_off_as_idle_never_breaks_even() -> None:
    assert HostPower(constant_power(5), off_mw=5_000).break_even_s is None


def test_the_host_that_draws_least_is_woken_first_and_ties_go_by_id() -> None:
    thrifty, hungry = HostPower(linear_power(40, 90)), HostPower(linear_power(60, 300))
    slow = HostPower(linear_power(40, 90), boot_s=600)
    assert most_economical_first([(1, hungry), (4, thrifty), (2, slow), (3, thrifty)]) == (3, 4, 2, 1)


@settings(derandomize=True)
@given(
    steps=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), max_size=8),
    window=st.tuples(st.integers(0, 60), st.integers(0, 60)),
)
def test_energy_is_the_sum_of_the_power_of_every_second(steps: list[tuple[int, int]], window: tuple[int, int]) -> None:
    steps.sort(key=lambda step: step[0])
    from_s, until_s = window
    expected = 0
    for second in range(from_s, until_s):
        holding = [power for since, power in steps if since <= second]
        expected += holding[-1] if holding else 0
    since_s = np.array([since for since, _power in steps], dtype=np.int64)
    power_mw = np.array([power for _since, power in steps], dtype=np.int64)
    assert energy_mj(since_s, power_mw, from_s, until_s) == expected
