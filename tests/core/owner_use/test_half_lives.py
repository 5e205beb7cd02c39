"""What fades by half-lives, in whole numbers, against the closed form in fractions."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from one_preempt.core.owner_use.half_lives import faded, faded_use

AMOUNTS = st.integers(0, 10**13)
TIMES_S = st.integers(0, 40 * 86_400)
HALF_LIVES_S = st.integers(864, 365 * 86_400)
RATES = st.integers(1, 10**7)


@given(AMOUNTS, TIMES_S, HALF_LIVES_S)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_it_fades_as_the_closed_form_says(amount: int, elapsed_s: int, half_life_s: int) -> None:
    expected = amount * 2.0 ** -(elapsed_s / half_life_s)
    assert faded(amount, elapsed_s, half_life_s) == pytest.approx(expected, rel=1e-9, abs=1)


@given(RATES, TIMES_S, HALF_LIVES_S)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_what_is_used_while_it_fades_is_as_the_closed_form_says(rate: int, lasted_s: int, half_life_s: int) -> None:
    expected = rate * half_life_s / math.log(2) * -math.expm1(-math.log(2) * lasted_s / half_life_s)
    assert faded_use(rate, lasted_s, half_life_s) == pytest.approx(expected, rel=1e-6, abs=1)


@given(RATES, st.lists(st.integers(1, 5000), min_size=1, max_size=40), HALF_LIVES_S)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_in_many_parts_it_is_the_same_but_for_the_rounding_of_each(
    rate: int, parts_s: list[int], half_life_s: int
) -> None:
    in_parts = 0
    for part_s in parts_s:
        in_parts = faded(in_parts, part_s, half_life_s) + faded_use(rate, part_s, half_life_s)
    at_once = faded_use(rate, sum(parts_s), half_life_s)
    assert abs(in_parts - at_once) <= len(parts_s) + at_once // 10**6


@given(st.lists(AMOUNTS, min_size=2, max_size=2), TIMES_S, HALF_LIVES_S)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_who_has_used_less_has_never_used_more_later(amounts: list[int], elapsed_s: int, half_life_s: int) -> None:
    less, more = sorted(amounts)
    assert faded(less, elapsed_s, half_life_s) <= faded(more, elapsed_s, half_life_s)


def test_after_whole_half_lives_it_is_exact() -> None:
    assert [faded(1000, 600 * times, 600) for times in range(5)] == [1000, 500, 250, 125, 63]


def test_after_ages_nothing_is_left_and_a_negative_time_is_none() -> None:
    assert faded(10**15, 10**12, 864) == 0
    assert faded(1000, -5, 600) == 1000
    assert faded_use(1000, -5, 600) == 0


def test_what_is_used_for_ever_counts_for_less_than_a_half_life_and_a_half() -> None:
    assert faded_use(100, 10**9, 600) == round(100 * 600 / math.log(2))
