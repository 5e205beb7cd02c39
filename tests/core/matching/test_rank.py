"""Rank expressions: the matchmaker's arithmetic, quirks included, and what it cannot read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from one_preempt.core.matching.expressions.attributes import HOST_LAYOUT, AttributeTable
from one_preempt.core.matching.expressions.rank import LOWEST_RANK, best_first, parse_rank
from one_preempt.core.matching.expressions.tokens import ExpressionError

ROWS = AttributeTable(
    HOST_LAYOUT,
    [
        {"HOST_SHARE/RUNNING_VMS": ("3",), "MONITORING/CAPACITY/FREE_CPU": ("250",), "TEMPLATE/SPEED": ("2.5",)},
        {"HOST_SHARE/RUNNING_VMS": ("0",), "MONITORING/CAPACITY/FREE_CPU": ("100",)},
    ],
)


@pytest.mark.parametrize(
    ("text", "scores"),
    [
        ("", [0, 0]),
        ("RUNNING_VMS", [3, 0]),
        ("- RUNNING_VMS", [-3, 0]),
        ("-RUNNING_VMS * 2 + 1", [-5, 1]),
        ("FREE_CPU - RUNNING_VMS * 100", [-50, 100]),
        ("(FREE_CPU - RUNNING_VMS) * 100", [24_700, 10_000]),
        ("NOSUCH + 7", [7, 7]),
        ("SPEED * 3", [7, 0]),
        ("7 / 2", [3, 3]),
        ("- 7 / 2", [-3, -3]),
        ("8 / - 2 * 4", [-1, -1]),
        ("8 - 4 - 2", [2, 2]),
        ("- - 5", [5, 5]),
        ("FREE_CPU / RUNNING_VMS", [83, LOWEST_RANK]),
        ("0 / NOSUCH", [LOWEST_RANK, LOWEST_RANK]),
        ("FREE_CPU * 1000000000", [LOWEST_RANK, LOWEST_RANK]),
        ('"TEMPLATE/SPEED" * 2', [5, 0]),
    ],
)
def test_a_rank_is_computed_as_the_matchmaker_does(text: str, scores: list[int]) -> None:
    assert parse_rank(text).scores(ROWS).tolist() == scores


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("FREE_CPU -5", 10, "write a blank after a minus"),
        ("FREE_CPU +", 11, "expected an attribute, a number, '-' or '(', found the end"),
        ("(FREE_CPU", 1, "never closed"),
        ("FREE_CPU)", 9, "never opened"),
        ("FREE_CPU & 1", 10, "expected + - * /"),
        ("* 2", 1, "expected an attribute"),
        ("- " * 300 + "1", 401, "more than 200"),
        ("1 + " * 5_000 + "1", 8_197, "more than 4096 terms and operators"),
    ],
)
def test_an_unreadable_rank_names_the_column(text: str, position: int, words: str) -> None:
    with pytest.raises(ExpressionError) as raised:
        parse_rank(text)

    assert raised.value.position == position
    assert words in str(raised.value)


def test_of_equal_rows_the_last_comes_first() -> None:
    assert best_first(parse_rank("RUNNING_VMS - RUNNING_VMS").scores(ROWS)).tolist() == [1, 0]


small = st.integers(0, 20)
trees = st.recursive(
    small.map(str),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(" ".join).map("({})".format),
        inner.map("(- {})".format),
    ),
    max_leaves=6,
)


@given(trees)
def test_whole_numbers_agree_with_python(text: str) -> None:
    value = eval(text)
    if abs(value) < 2**24:
        assert parse_rank(text).scores(ROWS).tolist() == [value, value]


@given(st.lists(st.tuples(st.sampled_from("+-*"), small), max_size=6), small)
def test_precedence_agrees_with_python_without_parentheses(steps: list[tuple[str, int]], first: int) -> None:
    text = str(first) + "".join(f" {operator} {number}" for operator, number in steps)
    value = eval(text)
    if abs(value) < 2**24:
        assert parse_rank(text).scores(ROWS).tolist() == [value, value]


@given(st.text(alphabet="AB_1.9 +-*/()\"'&\n", max_size=30))
def test_any_text_is_read_or_refused_in_one_way(text: str) -> None:
    refused_at = 1
    try:
        scores = parse_rank(text).scores(ROWS).tolist()
    except ExpressionError as error:
        scores, refused_at = [0, 0], error.position
    assert len(scores) == len(ROWS)
    assert 1 <= refused_at <= len(text) + 1
