"""Risk and utilization, Equations 1 to 5 of PEMP12."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from one_preempt.core.energy.load import utilization, violation_risk
from tests.core.energy.questions import HOUR_S, a_question, a_queue, node_counts

FIVE = Fraction(5)
REQUESTS = st.lists(
    st.tuples(st.integers(1, 50), st.integers(0, 100_000), st.integers(1, 100_000)), min_size=1, max_size=6
)


@settings(derandomize=True)
@given(requests=REQUESTS)
def test_the_risk_is_the_mean_wait_over_alpha_mean_durations(requests: list[tuple[int, int, int]]) -> None:
    nodes = sum(n for n, _waited, _duration in requests)
    mean_wait = Fraction(sum(n * waited for n, waited, _duration in requests), nodes)
    mean_duration = Fraction(sum(n * duration for n, _waited, duration in requests), nodes)
    assert violation_risk(a_queue(*requests), FIVE) == mean_wait / (5 * mean_duration)


def test_without_a_queue_there_is_no_risk() -> None:
    assert violation_risk(a_queue(), FIVE) == 0


def test_a_request_of_unknown_length_that_waits_is_a_risk_and_not_an_error() -> None:
    assert violation_risk(a_queue((4, 100, 0)), FIVE) > 1


def test_the_risk_is_one_when_the_promise_is_just_used_up() -> None:
    assert violation_risk(a_queue((4, 5 * HOUR_S, HOUR_S)), FIVE) == 1


def test_utilization_is_the_load_over_the_nodes_time_until_the_latest_end() -> None:
    question = a_question(running=[(10, -50, HOUR_S), (4, 0, 2 * HOUR_S)], nodes=node_counts(on=20))
    assert utilization(question) == Fraction(10 * 1 + 4 * 2, 20 * 2)


def test_what_waits_is_load_too() -> None:
    question = a_question(running=[(4, 0, 2 * HOUR_S)], queue=[(3, 7, 4 * HOUR_S)], nodes=node_counts(on=20))
    assert utilization(question) == Fraction(4 * 2 + 3 * 4, 20 * 2)


def test_more_load_than_the_nodes_can_take_is_full() -> None:
    assert utilization(a_question(queue=[(500, 0, 10 * HOUR_S)])) == 1


def test_what_overruns_its_expected_end_adds_nothing_and_takes_nothing_away() -> None:
    question = a_question(running=[(4, 0, HOUR_S), (9, -HOUR_S, -60)], nodes=node_counts(on=20))
    assert utilization(question) == Fraction(4, 20)


def test_with_nothing_on_or_nothing_running_utilization_is_very_high() -> None:
    assert utilization(a_question(nodes=node_counts(on=0))) == 1
    assert utilization(a_question(running=[])) == 1
    assert utilization(a_question(running=[(3, -HOUR_S, -1)])) == 1
