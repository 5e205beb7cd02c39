from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings

from one_preempt.core.packing.packing import Packing, number_distinct
from one_preempt.core.preemption.problem import PreemptionProblem
from tests.core.preemption.brute_force import fits, is_valid, problems


def a_request(free: list[tuple[int, ...]], needs: Sequence[tuple[int, ...]]) -> PreemptionProblem:
    return PreemptionProblem(
        free=np.array(free, dtype=np.int64),
        needs=np.array(needs, dtype=np.int64),
        allowed=np.ones((len(needs), len(free)), dtype=np.bool_),
        leases=(),
        delta_ms=0,
    )


def packing_of(problem: PreemptionProblem) -> Packing:
    return Packing(problem.needs, problem.allowed, problem.separate)


@settings(max_examples=300)
@given(problems())
def test_a_placement_is_found_exactly_where_there_is_one(problem: PreemptionProblem) -> None:
    packing = packing_of(problem)
    placement = packing.placement(problem.free)
    assert packing.exact
    assert (placement is not None) == fits(problem, ())
    assert placement is None or is_valid(problem, (), placement)


def test_vms_that_only_fit_in_one_combination_are_packed() -> None:
    problem = a_request([(10, 10), (10, 10)], [(6, 1), (5, 5), (1, 6), (5, 5), (3, 3)])
    placement = packing_of(problem).placement(problem.free)
    assert placement is not None
    assert is_valid(problem, (), placement)


def test_thirteen_vms_that_all_differ_are_packed_exactly_on_one_host_that_holds_them_all() -> None:
    needs = [(i, 14 - i) for i in range(1, 14)]
    whole = a_request([(91, 91)], needs)
    packing = packing_of(whole)
    assert packing.placement(whole.free) == (0,) * 13
    assert packing.placement(whole.free - 1) is None
    assert packing.exact


def test_a_request_of_too_many_different_vms_is_packed_as_if_like_ones_were_equal_and_then_by_first_fit() -> None:
    problem = a_request([(210, 210)], [(i, i) for i in range(1, 21)])
    packing = packing_of(problem)
    assert not packing.exact
    everything_on_it = [(int(packing.fillings_of_hosts(problem.free + extra)[0]), 1) for extra in (0, 40)]
    assert [packing.fits([filling]) for filling in everything_on_it] == [False, True]
    assert packing.placement(problem.free) == (0,) * 20
    assert packing.placement(problem.free - 1) is None


def test_a_host_that_is_overcommitted_in_anything_takes_nothing() -> None:
    problem = a_request([(-1, 5), (5, 5)], [(0, 1)])
    assert packing_of(problem).placement(problem.free) == (1,)


def test_distinct_values_are_numbered_in_ascending_order_however_large_they_are() -> None:
    for scale in (1, 10**9):
        values, numbers = number_distinct(np.array([7, 3, 7, 0]) * scale, 8 * scale)
        assert values.tolist() == [0, 3 * scale, 7 * scale]
        assert numbers.tolist() == [2, 1, 2, 0]
