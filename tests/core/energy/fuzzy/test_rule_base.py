"""What the rule base must keep, whatever its tuning."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from one_preempt.core.energy.fuzzy.rule_base import DECISION_CENTRES, ENGINE, RISK_PEAKS, RULE_BASE, UTILIZATION_PEAKS

GRID = [Fraction(step, 40) for step in range(41)]
BEYOND = [Fraction(step, 20) for step in range(31)]
PERMILLE = st.integers(0, 1500).map(lambda permille: Fraction(permille, 1000))


def decision(utilization: str, risk: str) -> str:
    found = [one.decision for one in RULE_BASE if (one.utilization, one.risk) == (utilization, risk)]
    assert len(found) == 1
    return found[0]


def test_there_is_one_rule_for_each_of_five_utilizations_and_four_risks() -> None:
    pairs = {(one.utilization, one.risk) for one in RULE_BASE}
    assert len(RULE_BASE) == 20
    assert pairs == {(utilization, risk) for utilization in UTILIZATION_PEAKS for risk in RISK_PEAKS}


def test_every_rule_says_why_in_a_sentence() -> None:
    assert all(one.why.endswith(".") and len(one.why) > 20 for one in RULE_BASE)


@settings(derandomize=True, max_examples=100)
@given(utilization=PERMILLE, risk=PERMILLE, more=PERMILLE)
def test_more_risk_never_means_more_preemption(utilization: Fraction, risk: Fraction, more: Fraction) -> None:
    assert ENGINE.infer(utilization, risk + more) <= ENGINE.infer(utilization, risk)


@settings(derandomize=True, max_examples=100)
@given(utilization=PERMILLE, risk=PERMILLE, more=PERMILLE)
def test_fuller_nodes_never_mean_more_preemption(utilization: Fraction, risk: Fraction, more: Fraction) -> None:
    assert ENGINE.infer(utilization + more, risk) <= ENGINE.infer(utilization, risk)


def test_f_lies_between_minus_one_and_two_and_reaches_both() -> None:
    answers = [ENGINE.infer(utilization, risk) for utilization in GRID for risk in BEYOND]
    assert min(answers) == -1
    assert max(answers) == 2


def test_the_published_rule_is_kept_half_preemption_at_medium_risk_and_high_utilization() -> None:
    medium = (RISK_PEAKS["LR"] + RISK_PEAKS["HR"]) / 2
    assert ENGINE.infer(UTILIZATION_PEAKS["H"], medium) == DECISION_CENTRES["HP"] == Fraction(1, 2)


def test_nobody_is_preempted_at_very_high_risk() -> None:
    assert {decision(utilization, "VHR") for utilization in UTILIZATION_PEAKS} == {"NP"}


def test_nodes_are_given_back_at_very_low_risk_alone_and_not_when_they_are_full() -> None:
    consolidating = {(one.utilization, one.risk) for one in RULE_BASE if DECISION_CENTRES[one.decision] > 1}
    assert consolidating <= {(utilization, "VLR") for utilization in ("VL", "L", "M", "H")}
    assert ENGINE.infer(Fraction(1), Fraction(0)) <= 1


def test_a_hundredth_more_risk_changes_the_answer_by_at_most_a_sixth() -> None:
    steps = [ENGINE.infer(Fraction(0), Fraction(risk, 100)) for risk in range(101)]
    assert max(before - after for before, after in pairwise(steps)) <= Fraction(1, 6)


def test_whatever_the_inputs_the_answer_is_exact() -> None:
    assert ENGINE.infer(Fraction(1, 3), Fraction(10**12)) == -1
