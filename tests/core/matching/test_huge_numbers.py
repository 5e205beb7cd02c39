"""Numbers in expressions that no amount has are refused by their place, and never reach arithmetic that overflows."""

from __future__ import annotations

import warnings

import pytest

from one_preempt.core.matching.expressions.rank import parse_rank
from one_preempt.core.matching.expressions.requirements import parse_requirement
from one_preempt.core.matching.expressions.tokens import ExpressionError
from tests.core.matching.test_requirements import is_met

HUGE = ["9" * 400, "9" * 400 + ".0", "-" + "1" * 19 + ".5"]


@pytest.mark.parametrize("number", HUGE, ids=["whole", "with a point", "negative"])
@pytest.mark.parametrize("comparison", ["CURRENT_VMS =", "FREE_CPU >", '"CLUSTERS/ID" @>'])
def test_a_requirement_with_a_number_beyond_all_measure_is_refused(comparison: str, number: str) -> None:
    with pytest.raises(ExpressionError, match="more than 18 digits"):
        parse_requirement(f"{comparison} {number}")


@pytest.mark.parametrize("number", HUGE[:2])
def test_a_rank_with_a_number_beyond_all_measure_is_refused(number: str) -> None:
    with pytest.raises(ExpressionError, match="more than 18 digits"):
        parse_rank(f"FREE_CPU * {number}")


@pytest.mark.parametrize("held", ["1e300", "-1e999", "9" * 400, "nan", "inf", "1e", ""])
def test_huge_values_of_an_attribute_are_compared_without_a_warning(held: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for comparison in ("A = 1.5", "A != 1.5", "A > 1.5", "A < 7", "A @> 1.5", "A @> 7"):
            is_met(comparison, {"A": (held,)})
