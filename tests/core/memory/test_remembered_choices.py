"""Who is chosen to leave is who would be chosen anew, whatever was asked before."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.memory import remembered_choices
from one_preempt.core.memory.remembered_choices import REQUESTS_KEPT, RememberedChoices
from one_preempt.core.preemption import mlip, moml, mov
from one_preempt.core.preemption.policy import PreemptionPolicy
from one_preempt.core.preemption.problem import DEFAULT_LIMITS, PreemptableLease, PreemptionProblem, SearchLimits
from one_preempt.core.preemption.victim_choice import choose_victims
from tests.core.preemption.brute_force import problems

GREEDY = SearchLimits(enumerated_leases=0)


def a_problem() -> PreemptionProblem:
    """Two VMs, three hosts, and a lease on each of two of them."""
    leases = tuple(
        PreemptableLease(lease_id, 10 * lease_id, 1, np.array([host]), np.array([[2, 2]]))
        for host, lease_id in enumerate((4, 7))
    )
    free = np.array([[0, 0], [0, 1], [2, 1]])
    return PreemptionProblem(free, np.array([[1, 1], [1, 1]]), np.ones((2, 3), dtype=np.bool_), leases, delta_ms=5)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    st.lists(problems(), min_size=1, max_size=2),
    st.lists(
        st.tuples(
            st.integers(1, 2),
            st.integers(0, 1),
            st.integers(0, 1),
            st.sampled_from((mov.POLICY, mlip.POLICY, moml.POLICY)),
            st.sampled_from((DEFAULT_LIMITS, GREEDY)),
        ),
        max_size=8,
    ),
)
def test_the_answer_is_the_one_to_the_question(
    drawn: list[PreemptionProblem], asked: list[tuple[int, int, int, PreemptionPolicy, SearchLimits]]
) -> None:
    known = RememberedChoices()
    for lease_id, number, asked_before, policy, limits in asked:
        problem = drawn[number % len(drawn)]
        assert known.of(lease_id, problem, policy, limits, asked_before) == choose_victims(problem, policy, limits)


def _with_lease(problem: PreemptionProblem, **changes: object) -> PreemptionProblem:
    first, *others = problem.leases
    return replace(problem, leases=(replace(first, **changes), *others))


A = a_problem()
OTHERS = {
    "free": replace(A, free=A.free + 1),
    "needs": replace(A, needs=A.needs + 1),
    "allowed": replace(A, allowed=np.array([[True, True, False]] * 2)),
    "delta": replace(A, delta_ms=6),
    "separate": replace(A, separate=((0, 1),)),
    "a lease less": replace(A, leases=A.leases[:1]),
    "id": _with_lease(A, id=5),
    "overhead": _with_lease(A, overhead_ms=41),
    "vm_count": _with_lease(A, vm_count=2),
    "reschedules": _with_lease(A, reschedules=False),
    "host": _with_lease(A, host_index=np.array([2])),
    "releases": _with_lease(A, releases=np.array([[2, 1]])),
}


@pytest.mark.parametrize("what", OTHERS)
def test_whatever_is_another_makes_it_another_question(what: str) -> None:
    known, one, other = RememberedChoices(), a_problem(), OTHERS[what]
    known.of(1, one, moml.POLICY, DEFAULT_LIMITS)
    with patch.object(remembered_choices, "choose_victims", wraps=choose_victims) as chooses:
        known.of(1, a_problem(), moml.POLICY, DEFAULT_LIMITS)
        assert chooses.call_count == 0
        known.of(1, other, moml.POLICY, DEFAULT_LIMITS)
        assert chooses.call_count == 1


def test_what_is_asked_on_is_known_as_well() -> None:
    known = RememberedChoices()
    chain = [replace(A, leases=A.leases[:kept]) for kept in (2, 1, 0)]
    with patch.object(remembered_choices, "choose_victims", wraps=choose_victims) as chooses:
        for _ in range(3):
            for asked_before, problem in enumerate(chain):
                known.of(1, problem, moml.POLICY, DEFAULT_LIMITS, asked_before)
        assert chooses.call_count == len(chain)


def test_the_requests_that_were_looked_at_last_are_kept() -> None:
    known, one, seldom = RememberedChoices(), a_problem(), REQUESTS_KEPT + 2
    for lease_id in range(seldom):
        known.of(lease_id, one, moml.POLICY, DEFAULT_LIMITS)
        known.of(0, one, moml.POLICY, DEFAULT_LIMITS)
    with patch.object(remembered_choices, "choose_victims", wraps=choose_victims) as chooses:
        known.of(0, one, moml.POLICY, DEFAULT_LIMITS)
        known.of(seldom - 1, one, moml.POLICY, DEFAULT_LIMITS)
        assert chooses.call_count == 0
        known.of(1, one, moml.POLICY, DEFAULT_LIMITS)
        assert chooses.call_count == 1
