from __future__ import annotations

from random import Random
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.packing.packing import Packing, PackingLimits
from one_preempt.core.preemption import mlip, moml, mov, nop, slot_cover
from one_preempt.core.preemption.candidate_set import candidate_sets
from one_preempt.core.preemption.policy import PreemptionPolicy
from one_preempt.core.preemption.problem import (
    DEFAULT_LIMITS,
    Choice,
    NoChoice,
    PreemptableLease,
    PreemptionProblem,
    SearchLimits,
)
from one_preempt.core.preemption.slot_cover import SlotCover
from one_preempt.core.preemption.slot_demand import slot_demands
from one_preempt.core.preemption.victim_choice import choose_victims, helpful_leases
from tests.core.preemption.brute_force import best, is_valid, minimal_sets, problems

POLICIES: tuple[PreemptionPolicy, ...] = (mov.POLICY, mlip.POLICY, moml.POLICY)
GREEDY = SearchLimits(enumerated_leases=0)
thorough = settings(derandomize=True, max_examples=100, deadline=None)


def a_lease(lease_id: int, overhead_ms: int, *vms: tuple[int, int], amount: int = 1) -> PreemptableLease:
    """A lease with one VM for each (host, count) pair's count, each releasing `amount` of everything."""
    hosts = [host for host, count in vms for _ in range(count)]
    return PreemptableLease(
        lease_id, overhead_ms, len(hosts), np.array(hosts, dtype=np.int64), np.full((len(hosts), 1), amount)
    )


def a_problem(free: list[int], needs: list[int], *leases: PreemptableLease) -> PreemptionProblem:
    """One dimension, every VM allowed everywhere, no re-scheduling."""
    return PreemptionProblem(
        free=np.array(free, dtype=np.int64)[:, None],
        needs=np.array(needs, dtype=np.int64)[:, None],
        allowed=np.ones((len(needs), len(free)), dtype=np.bool_),
        leases=leases,
        delta_ms=0,
    )


@thorough
@given(problems())
def test_the_candidate_sets_are_the_minimal_sets_that_brute_force_finds(problem: PreemptionProblem) -> None:
    expected = minimal_sets(problem)
    packing = Packing(problem.needs, problem.allowed, problem.separate)
    found = candidate_sets(problem, packing, helpful_leases(problem, packing))
    assert found.complete
    assert [found.candidate_set(row).lease_ids for row in range(len(found.members))] == [s.ids for s in expected]
    assert found.overhead_ms.tolist() == [s.overhead_ms for s in expected]
    assert found.frees_vms.tolist() == [s.vms for s in expected]


@thorough
@given(
    st.lists(st.sets(st.integers(0, 4), min_size=1), min_size=1, max_size=5),
    st.lists(st.integers(0, 1), min_size=5, max_size=5),
    st.integers(1, 4),
)
def test_hosts_that_are_alike_count_as_often_as_there_are(hosts: list[set[int]], free: list[int], vms: int) -> None:
    leases = [a_lease(number, 10, *((host, 1) for host in sorted(own))) for number, own in enumerate(hosts)]
    problem = a_problem(free, [1] * vms, *leases)
    packing = Packing(problem.needs, problem.allowed, problem.separate)
    found = candidate_sets(problem, packing, problem.leases)
    assert [found.candidate_set(row).lease_ids for row in range(len(found.members))] == [
        s.ids for s in minimal_sets(problem)
    ]


@thorough
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@given(problem=problems())
def test_every_policy_picks_what_brute_force_picks_with_its_ties(
    policy: PreemptionPolicy, problem: PreemptionProblem
) -> None:
    sets = minimal_sets(problem)
    choice = choose_victims(problem, policy)
    if not sets:
        assert isinstance(choice, NoChoice)
        assert choice.reason.code == "not-enough-room"
        return
    assert isinstance(choice, Choice)
    expected = best(problem, sets, policy.name)
    assert (choice.lease_ids, choice.overhead_ms) == (expected.ids, expected.overhead_ms)
    assert is_valid(problem, choice.lease_ids, choice.host_of_request)
    assert choice.optimal
    assert choice.bound_ms == min(s.overhead_ms for s in sets)
    if expected.ids:
        assert choice.candidate_count == len(sets)
        assert expected.ids in [candidate.lease_ids for candidate in choice.considered]


def test_the_bound_comes_with_a_set_that_attains_it() -> None:
    """Where each VM is a slot: of three slots that are missing the cheapest set frees just three, from two leases."""
    leases = (a_lease(1, 50, (0, 2)), a_lease(2, 10, (0, 1)), a_lease(3, 90, (0, 1)), a_lease(4, 70, (0, 1)))
    problem = a_problem([0], [1, 1, 1], *leases)
    (demand, *_) = slot_demands(problem)
    cover = SlotCover(problem, demand, leases).cheapest([lease.overhead_ms for lease in leases])
    assert cover.cost == 60
    assert set(cover.picks) == {(0, 1)}


@thorough
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@given(problem=problems(), enumerated_per_host=st.sampled_from([0, 10]))
def test_a_greedy_pick_is_a_candidate_set_with_a_true_bound_and_an_honest_verdict(
    policy: PreemptionPolicy, problem: PreemptionProblem, enumerated_per_host: int
) -> None:
    sets = {s.ids: s for s in minimal_sets(problem)}
    with patch.object(slot_cover, "ENUMERATED_LEASES_PER_HOST", enumerated_per_host):
        choice = choose_victims(problem, policy, GREEDY)
    assert isinstance(choice, Choice) == bool(sets)
    if not isinstance(choice, Choice):
        return
    assert choice.lease_ids in sets
    assert is_valid(problem, choice.lease_ids, choice.host_of_request)
    assert choice.bound_ms <= min(s.overhead_ms for s in sets.values())
    if choice.optimal:
        expected = best(problem, list(sets.values()), policy.name)
        assert policy.name == "MLIP" or choice.overhead_ms == expected.overhead_ms
        assert policy.name == "MOV" or len(choice.lease_ids) == len(expected.ids)


@thorough
@given(problem=problems(), states=st.sampled_from([2, 4, 6]), host_packings=st.sampled_from([1, 2, 2_000]))
def test_a_packing_that_hits_its_limits_still_places_validly_and_keeps_a_true_bound(
    problem: PreemptionProblem, states: int, host_packings: int
) -> None:
    limits = SearchLimits(packing=PackingLimits(states, host_packings))
    choice = choose_victims(problem, mov.POLICY, limits)
    if isinstance(choice, NoChoice):
        assert choice.reason.code == "not-found" or not minimal_sets(problem)
        return
    assert is_valid(problem, choice.lease_ids, choice.host_of_request)
    least = min(s.overhead_ms for s in minimal_sets(problem))
    assert choice.bound_ms <= least
    assert not choice.optimal or choice.overhead_ms == least


@thorough
@given(problem=problems(), shuffled=st.randoms(use_true_random=False))
def test_the_order_in_which_leases_are_given_makes_no_difference(problem: PreemptionProblem, shuffled: Random) -> None:
    leases = tuple(shuffled.sample(problem.leases, len(problem.leases)))
    for limits in (DEFAULT_LIMITS, GREEDY):
        first = choose_victims(problem, moml.POLICY, limits)
        assert choose_victims(replace(problem, leases=leases), moml.POLICY, limits) == first


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 4)), min_size=1, max_size=9),
    st.integers(1, 8),
)
def test_where_each_vm_is_a_slot_the_bound_is_reached_however_many_leases_there_are(
    overheads_and_sizes: list[tuple[int, int]], wanted: int
) -> None:
    assume(wanted <= sum(size for _, size in overheads_and_sizes))
    leases = [a_lease(i, overhead, (i, size)) for i, (overhead, size) in enumerate(overheads_and_sizes)]
    problem = a_problem([0] * len(leases), [1] * wanted, *leases)
    for policy in (mov.POLICY, mlip.POLICY):
        greedy, exact = choose_victims(problem, policy, GREEDY), choose_victims(problem, policy)
        assert isinstance(greedy, Choice)
        assert isinstance(exact, Choice)
        assert greedy.optimal
        assert policy is mlip.POLICY or greedy.overhead_ms == exact.overhead_ms
        assert policy is mov.POLICY or len(greedy.lease_ids) == len(exact.lease_ids)


def test_a_request_that_fits_needs_no_victims_under_any_policy() -> None:
    problem = a_problem([0, 2], [1, 1], a_lease(7, 5, (0, 2)))
    for policy in (*POLICIES, nop.POLICY):
        assert choose_victims(problem, policy) == Choice((), (1, 1), overhead_ms=0, optimal=True, bound_ms=0)


def test_under_nop_a_request_that_does_not_fit_is_left_waiting() -> None:
    answer = choose_victims(a_problem([0], [1], a_lease(7, 5, (0, 2))), nop.POLICY)
    assert isinstance(answer, NoChoice)
    assert answer.reason.code == "policy-preempts-nobody"


def test_a_lease_on_a_host_where_the_request_may_not_go_is_left_alone() -> None:
    problem = a_problem([0, 0], [1], a_lease(1, 0, (0, 1)), a_lease(2, 9, (1, 1)))
    problem = replace(problem, allowed=np.array([[False, True]]))
    choice = choose_victims(problem, mov.POLICY)
    assert isinstance(choice, Choice)
    assert (choice.lease_ids, choice.candidate_count) == ((2,), 1)


def test_two_small_leases_on_one_host_make_room_that_neither_makes_alone() -> None:
    problem = a_problem([0, 0], [2], a_lease(1, 1, (0, 1)), a_lease(2, 1, (1, 1)), a_lease(3, 1, (1, 1)))
    for limits in (DEFAULT_LIMITS, GREEDY):
        choice = choose_victims(problem, mov.POLICY, limits)
        assert isinstance(choice, Choice)
        assert choice.lease_ids == (2, 3)
        assert choice.host_of_request == (1,)
        assert choice.optimal


def test_delta_is_paid_once_and_not_at_all_by_leases_that_are_terminated() -> None:
    for_good = replace(a_lease(1, 0, (0, 1)), reschedules=False)
    problem = replace(a_problem([0], [1, 1], for_good, a_lease(2, 5, (0, 1)), a_lease(3, 6, (0, 1))), delta_ms=100)
    choice = choose_victims(problem, mov.POLICY)
    assert isinstance(choice, Choice)
    assert [(c.lease_ids, c.overhead_ms) for c in choice.considered] == [((1, 2), 105), ((1, 3), 106), ((2, 3), 111)]
    alone = replace(problem, needs=np.array([[1]]), allowed=np.ones((1, 1), dtype=np.bool_))
    assert isinstance(choice := choose_victims(alone, mov.POLICY, GREEDY), Choice)
    assert (choice.lease_ids, choice.overhead_ms, choice.bound_ms) == ((1,), 0, 0)


def test_a_short_list_of_considered_sets_still_shows_the_chosen_one() -> None:
    leases = [a_lease(i, i, (0, 1)) for i in range(1, 5)]
    problem = a_problem([0], [1], *leases, a_lease(5, 99, (0, 1)), a_lease(6, 98, (0, 2)))
    choice = choose_victims(problem, mlip.POLICY, SearchLimits(reported_sets=2))
    assert isinstance(choice, Choice)
    assert choice.lease_ids == (6,)
    assert [candidate.lease_ids for candidate in choice.considered] == [(1,), (6,)]
    assert choice.candidate_count == 6


@example([3, 1, 2], 2)
@settings(derandomize=True, max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.integers(0, 4))
def test_the_request_fills_earlier_hosts_first(slots: list[int], wanted: int) -> None:
    assume(0 < wanted <= sum(slots))
    choice = choose_victims(a_problem(slots, [1] * wanted), mov.POLICY)
    assert isinstance(choice, Choice)
    first_fit = [host for host, count in enumerate(slots) for _ in range(count)][:wanted]
    assert list(choice.host_of_request) == first_fit


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"needs": np.zeros((1, 2), dtype=np.int64)}, "dimensions"),
        ({"allowed": np.ones((1, 3), dtype=np.bool_)}, "allowed has shape"),
        ({"delta_ms": -1}, "must not be negative"),
        ({"separate": ((0, 4),)}, "separate names"),
        ({"leases": (a_lease(1, 1, (0, 1)), a_lease(1, 1, (0, 1)))}, "same id"),
        ({"leases": (a_lease(1, 1, (9, 1)),)}, "host that does not exist"),
        ({"leases": (a_lease(1, -1, (0, 1)),)}, "lease 1"),
    ],
)
def test_a_problem_that_makes_no_sense_is_refused_by_name(change: dict[str, object], named: str) -> None:
    problem = a_problem([0], [1])
    with pytest.raises(ValueError, match=named):
        replace(problem, **change)


@settings(derandomize=True, max_examples=25, deadline=None)
@given(
    problems(),
    st.lists(st.integers(0, 2), min_size=8, max_size=8),
    st.sampled_from(POLICIES),
    st.sampled_from([DEFAULT_LIMITS, GREEDY]),
)
def test_leases_of_more_worth_stay_while_those_of_less_are_enough(
    problem: PreemptionProblem, worths: list[int], policy: PreemptionPolicy, limits: SearchLimits
) -> None:
    leases = [replace(lease, worth=worths[place % 8]) for place, lease in enumerate(problem.leases)]
    below = [replace(problem, leases=tuple(one for one in leases if one.worth <= most)) for most in range(3)]
    enough = next((one for one in below if minimal_sets(one)), below[-1])
    unvalued = replace(enough, leases=tuple(replace(one, worth=0) for one in enough.leases))
    assert choose_victims(below[-1], policy, limits) == choose_victims(unvalued, policy, limits)
