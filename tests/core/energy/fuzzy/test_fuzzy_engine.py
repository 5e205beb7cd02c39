"""The fuzzy engine by itself."""

from __future__ import annotations

from fractions import Fraction

import pytest

from one_preempt.core.energy.fuzzy.engine import FuzzyEngine, Rule, TriangularSet, partition

HALF = Fraction(1, 2)
TWO = partition({"low": Fraction(0), "high": Fraction(1)})


def test_a_triangle_rises_to_its_peak_and_falls() -> None:
    triangle = TriangularSet(Fraction(0), Fraction(1), Fraction(3))
    at = [Fraction(-1), Fraction(0), HALF, Fraction(1), Fraction(2), Fraction(3), Fraction(4)]
    assert [triangle.membership(value) for value in at] == [0, 0, HALF, 1, HALF, 0, 0]


def test_all_that_lies_beyond_a_shoulder_belongs_to_it() -> None:
    assert TWO["low"].membership(Fraction(-7)) == TWO["high"].membership(Fraction(7)) == 1
    assert TWO["low"].membership(Fraction(7)) == TWO["high"].membership(Fraction(-7)) == 0


def test_the_memberships_of_a_partition_add_up_to_one() -> None:
    sets = partition({"a": Fraction(0), "b": Fraction(1, 3), "c": Fraction(3, 4), "d": Fraction(1)})
    for step in range(-5, 30):
        assert sum(one.membership(Fraction(step, 20)) for one in sets.values()) == 1


@pytest.mark.parametrize("peaks", [{}, {"a": HALF, "b": HALF}, {"a": Fraction(1), "b": Fraction(0)}])
def test_peaks_that_do_not_ascend_are_refused(peaks: dict[str, Fraction]) -> None:
    with pytest.raises(ValueError, match="ascend"):
        partition(peaks)


FOUR_RULES = [
    Rule("low", "low", "one"),
    Rule("low", "high", "two"),
    Rule("high", "low", "one"),
    Rule("high", "high", "ten"),
]
CENTRES = {"one": Fraction(1), "two": Fraction(2), "ten": Fraction(10)}


def test_the_answer_is_the_mean_of_the_centres_weighted_by_the_products() -> None:
    engine = FuzzyEngine(TWO, TWO, CENTRES, FOUR_RULES)
    # 3/4 * 1/2 * 1 + 3/4 * 1/2 * 2 + 1/4 * 1/2 * 1 + 1/4 * 1/2 * 10, by hand
    assert engine.infer(Fraction(1, 4), HALF) == Fraction(3 + 6 + 1 + 10, 8)


def test_where_the_memberships_do_not_add_up_to_one_the_mean_still_does() -> None:
    narrow = {
        "low": TriangularSet(Fraction(0), Fraction(0), HALF),
        "high": TriangularSet(HALF, Fraction(1), Fraction(1)),
    }
    engine = FuzzyEngine(narrow, TWO, CENTRES, FOUR_RULES)
    assert engine.infer(Fraction(1, 4), Fraction(0)) == 1


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (FOUR_RULES[1:], r"no rule for \(low, low\)"),
        ([*FOUR_RULES, Rule("low", "low", "ten")], r"two rules for \(low, low\)"),
        ([*FOUR_RULES, Rule("mid", "low", "ten")], r"rules for \(mid, low\), which are no input sets"),
        ([*FOUR_RULES[1:], Rule("low", "low", "six")], "rules lead to six"),
    ],
)
def test_a_rule_base_with_gaps_or_strangers_is_refused(rules: list[Rule], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FuzzyEngine(TWO, TWO, CENTRES, rules)
