from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from one_preempt.core.overhead.ccpe13 import (
    migratable_overhead_ms,
    resume_part_ms,
    suspend_part_ms,
    suspendable_overhead_ms,
)
from one_preempt.core.overhead.rates import OverheadRates

# 1 MiB takes 2 s to write, 1 s to read, 4 s to copy.
RATES = OverheadRates(suspend_mib_per_s=0.5, resume_mib_per_s=1.0, copy_mib_per_s=0.25, pause_ms=5, reschedule_ms=2300)
memories = st.lists(st.integers(1, 1 << 20), min_size=1, max_size=8)


def test_a_suspendable_lease_writes_and_reads_all_its_memory_one_vm_after_another() -> None:
    # 2 v tp = 20, delta = 2300, suspends 2000 + 6000, resumes 1000 + 3000
    assert suspendable_overhead_ms([1, 3], RATES) == 20 + 2300 + 8000 + 4000
    assert suspend_part_ms([1, 3], RATES) == 10 + 2300 + 8000
    assert resume_part_ms([1, 3], RATES) == 10 + 4000


def test_a_migratable_lease_overlaps_each_suspend_with_the_resume_before() -> None:
    # copies 4000 * 5; ts_1 2000; max(ts_2 6000, tr_1 1000); max(ts_3 2000, tr_2 3000); tr_3 1000; 2 v tp 30; delta
    assert migratable_overhead_ms([1, 3, 1], RATES) == 20_000 + 2000 + 6000 + 3000 + 1000 + 30 + 2300


def test_what_is_copied_may_differ_from_the_memory() -> None:
    assert migratable_overhead_ms([1], RATES, [0]) == 2000 + 1000 + 10 + 2300
    assert migratable_overhead_ms([1], RATES, [10]) == 40_000 + 2000 + 1000 + 10 + 2300


def test_migrating_nothing_is_re_scheduling_alone() -> None:
    assert migratable_overhead_ms([], RATES) == suspendable_overhead_ms([], RATES) == 2300


@given(memories)
def test_overlap_never_makes_a_move_dearer_than_suspend_copy_and_resume_in_turn(vms: list[int]) -> None:
    without_copies = migratable_overhead_ms(vms, RATES, [0] * len(vms))
    assert without_copies <= suspendable_overhead_ms(vms, RATES)
    assert (without_copies == suspendable_overhead_ms(vms, RATES)) == (len(vms) == 1)


@given(memories, st.randoms(use_true_random=False))
def test_the_order_of_vms_makes_no_difference_where_nothing_overlaps(vms: list[int], shuffled: Random) -> None:
    assert suspendable_overhead_ms(shuffled.sample(vms, len(vms)), RATES) == suspendable_overhead_ms(vms, RATES)


@pytest.mark.parametrize(
    ("name", "value"),
    [("suspend_mib_per_s", 0.0), ("copy_mib_per_s", float("nan")), ("resume_mib_per_s", float("inf")), ("boot_ms", -1)],
)
def test_a_rate_that_makes_no_sense_is_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        OverheadRates(**{name: value})  # type: ignore[arg-type]
