from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from one_preempt.core.model.lease import PreemptionMethod
from one_preempt.core.model.observed_overhead import ObservedOverhead, OverheadKind
from one_preempt.core.overhead.learned import (
    LARGEST_FACTOR_FASTER,
    LARGEST_FACTOR_SLOWER,
    LearnedRates,
    Learner,
    learn,
    robust_estimate,
)
from one_preempt.core.overhead.method_pricing import LeavingVm, lease_price
from one_preempt.core.overhead.rates import OverheadRates

CONFIGURED = OverheadRates(
    suspend_mib_per_s=100.0, resume_mib_per_s=200.0, copy_mib_per_s=50.0, live_copy_mib_per_s=80.0
)
SLOW, OTHER = 100, 101
MEMORY_MIB = 10_000


def took(
    took_s: int, kind: OverheadKind = OverheadKind.SUSPEND, datastore_id: int = SLOW, memory_mib: int = MEMORY_MIB
) -> ObservedOverhead:
    return ObservedOverhead(kind, 7, datastore_id, memory_mib, took_s, 1_700_000_000)


def stop_price_ms(rates: LearnedRates, memory_mib: int = MEMORY_MIB, datastore_id: int = SLOW) -> int:
    return lease_price([LeavingVm(PreemptionMethod.STOP, memory_mib, datastore_id=datastore_id)], rates).overhead_ms


def test_without_observations_the_rates_are_the_configured_ones() -> None:
    rates = learn([], CONFIGURED)
    assert rates.at(None) is CONFIGURED
    assert rates.at(SLOW) is CONFIGURED


def test_four_observations_are_too_few() -> None:
    assert learn([took(400)] * 4, CONFIGURED).at(SLOW).suspend_mib_per_s == CONFIGURED.suspend_mib_per_s
    assert learn([took(400)] * 5, CONFIGURED).at(SLOW).suspend_mib_per_s < CONFIGURED.suspend_mib_per_s


def test_a_storage_of_which_too_little_is_known_is_like_any_other() -> None:
    # A lease on two storages is one set of the migratable model as long as their rates are the same.
    configured = OverheadRates()
    two = [LeavingVm(PreemptionMethod.MIGRATE, 1000, datastore_id=one) for one in (SLOW, OTHER)]
    assert learn([took(400)] * 4, configured).at(SLOW) is configured
    assert lease_price(two, learn([took(400)] * 4, configured)) == lease_price(two, configured)


def test_few_observations_are_blended_with_what_is_configured() -> None:
    # 10,000 us a MiB are configured, 40,000 were observed: half and half at five, three quarters at fifteen.
    assert learn([took(400)] * 5, CONFIGURED).at(SLOW).suspend_mib_per_s == 1_000_000 / 25_000
    assert learn([took(400)] * 15, CONFIGURED).at(SLOW).suspend_mib_per_s == 1_000_000 / 32_500


def test_storage_of_today_is_learned_from_the_rates_of_the_paper() -> None:
    """16 GiB at 500 MiB/s take 33 s, and 2,576 s by the configured 6.36 MiB/s."""
    configured = OverheadRates(reschedule_ms=0, resume_mib_per_s=1e9)
    learned = [learn([took(33, memory_mib=16_384)] * count, configured) for count in (4, 5, 15, 64)]
    assert [stop_price_ms(rates, 16_384) // 1000 for rates in learned] == [2576, 291, 98, 45]


def test_each_storage_and_each_operation_learns_for_itself() -> None:
    rates = learn([took(400)] * 20 + [took(150, datastore_id=OTHER)] * 20, CONFIGURED)
    assert rates.at(SLOW).suspend_mib_per_s < rates.at(OTHER).suspend_mib_per_s < CONFIGURED.suspend_mib_per_s
    assert rates.at(SLOW).resume_mib_per_s == CONFIGURED.resume_mib_per_s
    assert rates.at(5) is CONFIGURED
    assert rates.at(SLOW).suspend_mib_per_s < rates.at(None).suspend_mib_per_s < rates.at(OTHER).suspend_mib_per_s


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (OverheadKind.SUSPEND, "suspend_mib_per_s"),
        (OverheadKind.RESUME, "resume_mib_per_s"),
        (OverheadKind.MIGRATE, "copy_mib_per_s"),
        (OverheadKind.LIVE_MIGRATE, "live_copy_mib_per_s"),
        (OverheadKind.BOOT, "boot_ms"),
        (OverheadKind.SHUT_DOWN, "shutdown_ms"),
    ],
)
def test_each_operation_refines_its_own_rate_and_no_other(kind: OverheadKind, name: str) -> None:
    learned = learn([took(300, kind)] * 9, CONFIGURED).at(SLOW)
    names = ("suspend_mib_per_s", "resume_mib_per_s", "copy_mib_per_s", "live_copy_mib_per_s", "boot_ms", "shutdown_ms")
    assert [one for one in names if getattr(learned, one) != getattr(CONFIGURED, one)] == [name]
    assert learned.reschedule_ms == CONFIGURED.reschedule_ms


def test_a_cold_copy_that_was_learned_says_nothing_about_live_migrations() -> None:
    configured = OverheadRates(copy_mib_per_s=50.0)
    learned = learn([took(2000, OverheadKind.MIGRATE)] * 9, configured)
    live = [LeavingVm(PreemptionMethod.LIVE_MIGRATE, MEMORY_MIB, datastore_id=SLOW)]
    assert lease_price(live, learned) == lease_price(live, configured)


def test_what_took_no_second_is_fast_and_not_infinitely_so() -> None:
    learned = learn([took(0, memory_mib=100)] * 200, CONFIGURED).at(SLOW)
    assert 100.0 < learned.suspend_mib_per_s <= 200.0


def test_memory_of_nothing_teaches_nothing() -> None:
    assert learn([took(9, memory_mib=0)] * 9, CONFIGURED).at(SLOW) == CONFIGURED


def test_the_order_of_observations_does_not_matter() -> None:
    observed = [took(90), took(100), took(130), took(7000), took(110)]
    assert len({repr(learn(order, CONFIGURED)) for order in permutations(observed)}) == 1


@settings(derandomize=True, deadline=None)
@given(
    true=st.integers(3_000, 100_000),
    noise=st.lists(st.integers(-50, 50), min_size=40, max_size=120),
    arbitrary=st.lists(st.integers(0, 10**12), max_size=30),
)
def test_a_fifth_of_arbitrary_outliers_moves_the_estimate_little(
    true: int, noise: list[int], arbitrary: list[int]
) -> None:
    honest = [true * (1000 + one) // 1000 for one in noise]
    outliers = arbitrary[: len(honest) // 4]
    estimate = robust_estimate(honest + outliers, configured=true)
    assert estimate is not None
    assert abs(estimate - true) <= true * 6 // 100


@settings(derandomize=True, deadline=None)
@given(observed=st.lists(st.integers(0, 100_000), max_size=40), configured=st.integers(1, 100_000))
def test_nothing_is_learned_beyond_the_factor(observed: list[int], configured: int) -> None:
    estimate = robust_estimate(observed, configured)
    assert estimate is None or configured / LARGEST_FACTOR_FASTER <= estimate <= configured * LARGEST_FACTOR_SLOWER


@settings(derandomize=True, deadline=None)
@given(
    observed=st.lists(st.tuples(st.integers(0, 5_000), st.integers(1, 200_000)), max_size=40),
    memories=st.tuples(st.integers(0, 500_000), st.integers(0, 500_000)),
)
def test_more_memory_never_costs_less(observed: list[tuple[int, int]], memories: tuple[int, int]) -> None:
    rates = learn([took(took_s, memory_mib=memory) for took_s, memory in observed], CONFIGURED)
    less, more = sorted(memories)
    assert stop_price_ms(rates, less) <= stop_price_ms(rates, more)


def test_vms_of_a_lease_are_each_priced_by_their_own_storage() -> None:
    rates = learn([took(400)] * 20, CONFIGURED)
    both = [LeavingVm(PreemptionMethod.STOP, MEMORY_MIB, datastore_id=one) for one in (SLOW, OTHER)]
    alone = stop_price_ms(rates, datastore_id=SLOW) + stop_price_ms(rates, datastore_id=OTHER)
    assert lease_price(both, rates).overhead_ms == alone
    assert stop_price_ms(rates, datastore_id=SLOW) > stop_price_ms(rates, datastore_id=OTHER)


@settings(derandomize=True, deadline=None)
@given(
    st.lists(
        st.builds(
            took,
            st.sampled_from([0, 0, 0, 300, 500]),
            st.sampled_from([OverheadKind.BOOT, OverheadKind.BOOT, OverheadKind.SUSPEND]),
            st.sampled_from([SLOW, SLOW, OTHER]),
        ),
        max_size=30,
    ),
    st.integers(1, 12),
    st.integers(1, 3),
)
def test_who_learned_before_learns_what_is_learned_anew(observed: list[ObservedOverhead], kept: int, more: int) -> None:
    """So many are kept of all that were observed until now, and so many more are told at a time."""
    learner = Learner()
    for until in range(0, len(observed) + 1, more):
        told = tuple(observed[max(0, until - kept) : until])
        assert learner.learned(told, CONFIGURED) == learn(told, CONFIGURED)
