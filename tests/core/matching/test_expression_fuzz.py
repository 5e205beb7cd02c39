"""Whatever a user writes as a requirement or rank is read, or refused in one line that names the column.

`make fuzz` tries 100,000 of each.
"""

from __future__ import annotations

import os
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from one_preempt.core.matching.expressions.attributes import HOST_LAYOUT, AttributeTable
from one_preempt.core.matching.expressions.known_expressions import Expressions, UnreadableExpression
from one_preempt.core.matching.expressions.rank import parse_rank
from one_preempt.core.matching.expressions.requirements import parse_requirement
from one_preempt.core.matching.expressions.tokens import MAX_DEPTH, ExpressionError

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "600"))
FUZZED = settings(
    max_examples=EXAMPLES,
    deadline=timedelta(seconds=10),
    derandomize=EXAMPLES <= 600,
    suppress_health_check=list(HealthCheck),
)
# Texts that are slow for a matcher which tries everything, numbers beyond all types, and names that are missing.
HOSTS = AttributeTable(
    HOST_LAYOUT,
    [
        {"NAME": ("a" * 4000 + "b",), "TEMPLATE/RACK": ("A", "B"), "ID": ("1",), "HOST_SHARE/FREE_CPU": ("9" * 40,)},
        {"NAME": ("",), "TEMPLATE/RACK": (), "ID": ("-1",), "HOST_SHARE/FREE_CPU": ("nan",)},
        {"NAME": ("[ü]\n",), "ID": ("x",), "HOST_SHARE/FREE_CPU": ("1e308",)},
    ],
)
WORDS = (
    "ID", "NAME", "RACK", "FREE_CPU", "CURRENT_VMS", "MISSING", '"TEMPLATE/RACK"', '"/HOST/ID"', '"/"', '"', '""',
    '"a*"', '"*a*a*a*a*a*a*a*c"', '"[!a-"', '"[[:alpha:]]*"', '"\\"', '"?"', "=", "!=", "!", ">", "<", "@>", "@", "&",
    "|", "(", ")", "+", "-", "*", "/", "0", "-1", "1.5", "1.", ".5", "9" * 18, "9" * 400, "-0.0", " ", "\n", "\x00",
    "ä", ";", "'",
)  # fmt: skip
expressions = st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join),
    st.lists(st.sampled_from(WORDS), max_size=40).map("".join),
    st.text(max_size=60),
)
comparisons = st.builds(
    lambda name, operator, value, sign: f"{sign}{name} {operator} {value}",
    st.sampled_from(("ID", "NAME", "RACK", "FREE_CPU", "MISSING", "CURRENT_VMS", '"/HOST/ID"')),
    st.sampled_from(("=", "!=", "@>")),
    st.sampled_from(("1", "-1", "A", '"a*"', '"*a*a*a*b"', '"[[:alpha:]]*"', "1.5")),
    st.sampled_from(("", "", "! ")),
)
readable = st.recursive(
    comparisons,
    lambda inner: st.builds(lambda left, op, right: f"({left}) {op} {right}", inner, st.sampled_from("&|"), inner),
    max_leaves=30,
)


def one_line(error: ExpressionError, text: str) -> None:
    """A message that an owner can act on."""
    assert 1 <= error.position <= len(text) + 1
    assert str(error).startswith(f"column {error.position}: ")
    assert len(str(error)) < 200
    assert str(error).isprintable()


@given(st.one_of(expressions, readable))
@FUZZED
def test_any_requirement_is_answered_or_refused(text: str) -> None:
    try:
        mask = parse_requirement(text).mask(HOSTS)
    except ExpressionError as error:
        one_line(error, text)
    else:
        assert mask.dtype == np.bool_
        assert mask.shape == (3,)


@given(readable)
@FUZZED
def test_a_requirement_by_the_grammar_is_read(text: str) -> None:
    parse_requirement(text)


@given(expressions)
@FUZZED
def test_any_rank_is_answered_or_refused(text: str) -> None:
    try:
        scores = parse_rank(text).scores(HOSTS)
    except ExpressionError as error:
        one_line(error, text)
    else:
        assert scores.shape == (3,)


def test_a_message_shows_no_line_break_of_its_owner() -> None:
    with pytest.raises(ExpressionError) as refusal:
        parse_requirement('"a\nb\x00" = 1')

    one_line(refusal.value, '"a\nb\x00" = 1')


@pytest.mark.parametrize("opening", ["(", "!(", "(!", "! ( "])
def test_a_requirement_nested_10000_deep_is_refused_clearly(opening: str) -> None:
    text = opening * 10_000 + "A = 1" + ")" * 10_000

    with pytest.raises(UnreadableExpression) as refusal:
        Expressions().requirement("SCHED_REQUIREMENTS", text)

    allowed = f"more than {MAX_DEPTH} parentheses inside each other"
    assert str(refusal.value).startswith("SCHED_REQUIREMENTS cannot be read: column ")
    assert allowed in str(refusal.value) or "characters; 32768 are allowed" in str(refusal.value)


def test_a_rank_nested_10000_deep_is_refused_clearly() -> None:
    for text in ("(" * 10_000 + "1" + ")" * 10_000, "- " * 10_000 + "1"):
        with pytest.raises(ExpressionError, match="inside each other"):
            parse_rank(text)
