from __future__ import annotations

from random import Random

import numpy as np
import pytest

from one_preempt.core.availability import profile as profile_module
from one_preempt.core.availability.profile import AvailabilityProfile
from tests.core.availability.naive import CASES, FOREVER, HORIZON, NaiveHosts

CAPACITY = 6


def test_what_is_free_is_a_step_function() -> None:
    profile = AvailabilityProfile(10, since_s=100)
    profile.reserve(110, 130, 4)
    profile.reserve(120, None, 3)
    times, free = profile.as_steps()
    assert times.tolist() == [100, 110, 120, 130]
    assert free.tolist() == [10, 6, 3, 7]


def test_equal_neighbours_are_one_step() -> None:
    profile = AvailabilityProfile(10)
    profile.reserve(5, 9, 2)
    profile.reserve(9, 12, 2)
    assert profile.as_steps()[0].tolist() == [0, 5, 12]


def test_a_gap_that_is_too_short_is_passed_over() -> None:
    profile = AvailabilityProfile(4)
    profile.reserve(0, 10, 3)
    profile.reserve(15, 20, 3)
    assert profile.earliest_fit(2, 5, 0) == 10
    assert profile.earliest_fit(2, 6, 0) == 20
    assert profile.earliest_fit(2, None, 0) == 20
    assert profile.earliest_fit(1, None, 3) == 3


def test_there_is_no_fit_for_more_than_ever_comes_free() -> None:
    profile = AvailabilityProfile(4)
    profile.reserve(7, None, 2)
    assert profile.earliest_fit(3, 7, 0) == 0
    assert profile.earliest_fit(3, 8, 0) is None
    assert profile.earliest_fit(5, 1, 0) is None


def test_the_latest_fit_ends_in_time() -> None:
    profile = AvailabilityProfile(1)
    profile.reserve(10, 20, 1)
    assert profile.latest_fit(1, 5, 0, 25) == 20
    assert profile.latest_fit(1, 6, 0, 25) == 4
    assert profile.latest_fit(1, 6, 5, 25) is None


def test_many_reservations_outgrow_the_first_arrays() -> None:
    profile = AvailabilityProfile(1)
    for start_s in range(0, 2000, 2):
        profile.reserve(start_s, start_s + 1, 1)
    assert len(profile.as_steps()[0]) == 2000
    assert profile.earliest_fit(1, 2, 0) == 1999


def compare(random: Random) -> None:
    """Changes one after another, undone at times, against the list; then all the questions."""
    profile, naive = AvailabilityProfile(CAPACITY), NaiveHosts([(CAPACITY,)])
    for _ in range(random.randint(0, 12)):
        mark, before = profile.checkpoint(), list(naive.taken)
        for _ in range(random.randint(1, 3)):
            if naive.taken and random.random() < 0.3:
                start, end, _, (amount,) = naive.taken.pop(random.randrange(len(naive.taken)))
                profile.release(start, None if end == FOREVER else end, amount)
            else:
                start, amount = random.randrange(HORIZON - 1), random.randint(1, 4)
                end = FOREVER if random.random() < 0.1 else random.randint(start + 1, HORIZON)
                naive.taken.append((start, end, 0, (amount,)))
                profile.reserve(start, None if end == FOREVER else end, amount)
        if random.random() < 0.2:
            profile.rollback(mark)
            naive.taken = before
    now = random.choice((0, random.randrange(HORIZON)))
    profile.forget_before(now)
    assert [profile.free_at(t) for t in range(now, HORIZON)] == [naive.free(0, t)[0] for t in range(now, HORIZON)]
    assert_same_as_from_scratch(profile, naive, now)
    for _ in range(3):
        ask(random, profile, naive, now)


def assert_same_as_from_scratch(profile: AvailabilityProfile, naive: NaiveHosts, now: int) -> None:
    scratch = AvailabilityProfile(CAPACITY, now)
    for start, end, _, (amount,) in naive.taken:
        scratch.reserve(start, None if end == FOREVER else end, amount)
    for column, other in zip(profile.as_steps(), scratch.as_steps(), strict=True):
        np.testing.assert_array_equal(column, other)


def ask(random: Random, profile: AvailabilityProfile, naive: NaiveHosts, now: int) -> None:
    amount, duration, start = random.randint(1, CAPACITY), random.randint(1, 20), random.randint(now, HORIZON)
    every = [[0]]
    assert profile.lowest(start, start + duration) == naive.lowest(0, start, start + duration)[0]
    naive_fits = bool(naive.places([(amount,)], every, start, start + duration))
    assert profile.fits(amount, start, start + duration) == naive_fits
    assert profile.earliest_fit(amount, duration, start) == naive.earliest([(amount,)], every, duration, start)
    assert profile.earliest_fit(amount, None, start) == naive.earliest([(amount,)], every, FOREVER, start)
    end_by = random.randint(start, HORIZON)
    ending = [t for t in range(start, end_by - duration + 1) if naive.places([(amount,)], every, t, t + duration)]
    assert profile.latest_fit(amount, duration, start, end_by) == max(ending, default=None)
    held = naive.earliest([(amount,)], every, duration, random.randint(start, HORIZON))
    if held is not None:
        better = naive.earliest([(amount,)], every, duration, start)
        profile.reserve(held, held + duration, amount)
        found = profile.earlier_fit(amount, duration, start, held)
        assert found == (better if better is not None and better < held else None)
        profile.release(held, held + duration, amount)


def test_the_profile_is_the_list_of_reservations_counted_minute_by_minute() -> None:
    for case in range(CASES):
        compare(Random(case))


def test_many_steps_looked_at_in_one_go_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile_module, "_FEW", 2)
    for case in range(CASES // 4):
        compare(Random(case))
