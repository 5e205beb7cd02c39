"""Requirement expressions against the grammar, against a plain second evaluator, and against hostile users."""

from __future__ import annotations

import contextlib
import fnmatch
import string
import struct
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from one_preempt.core.matching.expressions import attributes
from one_preempt.core.matching.expressions.attributes import (
    DATASTORE_LAYOUT,
    HOST_LAYOUT,
    Attributes,
    AttributeTable,
    Layout,
)
from one_preempt.core.matching.expressions.glob import compile_glob
from one_preempt.core.matching.expressions.requirements import parse_requirement
from one_preempt.core.matching.expressions.tokens import ExpressionError
from tests.counted_work import lines_run

HOST = {
    "ID": ("7",),
    "NAME": ("node07",),
    "CLUSTER_ID": ("100",),
    "HOST_SHARE/RUNNING_VMS": ("3",),
    "HOST_SHARE/DATASTORES/FREE_DISK": ("20480",),
    "TEMPLATE/NAME": ("another name",),
    "TEMPLATE/RACK": ("B",),
    "TEMPLATE/GPUS": ("2", "4"),
    "TEMPLATE/EMPTY": ("",),
    "TEMPLATE/LOAD": ("0.75",),
    "TEMPLATE/BELOW": ("-3",),
    "MONITORING/CAPACITY/FREE_CPU": ("250",),
    "CLUSTER_TEMPLATE/RACK": ("cluster rack",),
    "CLUSTER_TEMPLATE/LOCATION": ("room 1",),
}


def is_met(text: str, of: Attributes, layout: Layout = HOST_LAYOUT) -> bool:
    """Does one object with these attributes meet a requirement?"""
    return bool(parse_requirement(text).mask(AttributeTable(layout, [of]))[0])


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("", True),
        (" \n\t ", True),
        ('RACK = "B"', True),
        ("RACK = B", True),
        ('RACK = "[AB]"', True),
        ('RACK != "[!B]"', True),
        ('NAME = "node?7"', True),
        ('NAME = "another*"', False),
        ('LOCATION = "room*"', True),
        ("RUNNING_VMS = 3 & FREE_DISK > 20479 & FREE_CPU < 251", True),
        ("RUNNING_VMS > 3", False),
        ("LOAD = 0.75 & LOAD > 0.5 & LOAD < 1.0", True),
        ("LOAD = 0", True),
        ("BELOW < -2 & BELOW > -4", True),
        ("GPUS = 4", False),
        ("GPUS @> 4", True),
        ("GPUS @> 5", False),
        ('RACK @> "cluster*"', True),
        ("RACK > 1", False),
        ("NOSUCH = 1", False),
        ("NOSUCH != 1", False),
        ('NOSUCH != "x"', False),
        ("!(NOSUCH != 1)", True),
        ('EMPTY = ""', False),
        ('EMPTY = "*"', True),
        ('"TEMPLATE/RACK" = "B"', True),
        ('"/HOST/TEMPLATE/RACK" = "B"', True),
        ('"/HOST/CLUSTER_TEMPLATE/RACK" = "B"', False),
        ('"/VM/TEMPLATE/RACK" = "B"', False),
        ("RACK = A & RACK = A | RACK = B", True),
        ("RACK = B | RACK = B & RACK = A", False),
        ("RACK = B | (RACK = B & RACK = A)", True),
        ("! RACK = A & RACK = B", True),
        ("!!RACK = B", True),
        ("! ! ! (RACK = B)", False),
    ],
)
def test_an_expression_means_what_the_grammar_says(text: str, holds: bool) -> None:
    assert is_met(text, HOST) is holds


def test_any_cluster_of_a_datastore_counts() -> None:
    text = '("CLUSTERS/ID" @> 0 | "CLUSTERS/ID" @> 101)'

    assert is_met(text, {"CLUSTERS/ID": ("100", "101")}, DATASTORE_LAYOUT)
    assert not is_met(text, {"CLUSTERS/ID": ("100",)}, DATASTORE_LAYOUT)


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("RACK", 5, "expected =, !=, >, < or @> after 'RACK', found the end"),
        ("RACK =", 7, "expected a value after '=', found the end"),
        ("RACK <= 3", 7, "expected a value after '<', found '='"),
        ('RACK > "B"', 8, "'>' compares numbers"),
        ("RACK = B RACK = C", 10, "expected '&', '|' or the end"),
        ("(RACK = B", 1, "never closed"),
        ("RACK = B)", 9, "never opened"),
        ("RACK = B &", 11, "expected an attribute, '!' or '('"),
        ('RACK = "B', 8, "this quote is never closed"),
        ("RACK = B; DROP", 9, "means nothing here"),
        ('"//RACK" = B', 1, "is no attribute"),
        ('"TEMPLATE[1]" = B', 1, "is no attribute"),
        ("RACK = 9999999999999999999", 8, "more than 18 digits"),
        ("RACK @ 3", 8, "expected '>' after '@'"),
    ],
)
def test_an_error_names_the_column_and_what_was_expected(text: str, position: int, words: str) -> None:
    with pytest.raises(ExpressionError) as raised:
        parse_requirement(text)

    assert raised.value.position == position
    assert words in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000 + "A = 1" + ")" * 10_000,
        "A = 1 & " * 200_000,
        "!" * 1_000_000,
        "A = " + "9" * 5_000,
        'A = "' + "*a" * 400 + '" | ' + 'B = "*" | ' * 300,
        "A = 1 |" * 4_680 + "A = 1",
        'A = "' + "x" * 2_000 + '"',
        "\x00 = 1",
        "A = 1 \u2029 | Ａ = 1",
    ],
)
def test_what_a_hostile_user_writes_is_refused_in_words(text: str) -> None:
    with pytest.raises(ExpressionError) as raised:
        parse_requirement(text)

    assert len(str(raised.value)) < 200


def test_many_negations_cost_no_depth() -> None:
    assert is_met("!" * 10_001 + "RACK = A", HOST)


def test_current_vms_asks_where_a_vm_is() -> None:
    table = AttributeTable(HOST_LAYOUT, [{"ID": ("0",)}, {"ID": ("1",)}, {"ID": ("2",)}])

    def residents(vm_id: int) -> list[int]:
        return {4: [1], 5: [0, 2]}.get(vm_id, [])

    for text, expected in {
        "CURRENT_VMS = 4": [False, True, False],
        "CURRENT_VMS != 5": [False, True, False],
        "CURRENT_VMS = 9": [False, False, False],
        "CURRENT_VMS != 9": [True, True, True],
        "CURRENT_VMS > 3": [False, False, False],
        "!(CURRENT_VMS = 4) & ID > 0": [False, False, True],
    }.items():
        assert parse_requirement(text).mask(table, residents).tolist() == expected


def test_a_host_without_any_attribute_is_no_special_case() -> None:
    table = AttributeTable(HOST_LAYOUT, [{}, {"TEMPLATE/RACK": ("A",)}])

    assert parse_requirement("RACK = A").mask(table).tolist() == [False, True]
    assert parse_requirement("RACK = A").mask(AttributeTable(HOST_LAYOUT, [])).tolist() == []


NAMES = st.sampled_from(["A", "B", "C"])
TEXTS = st.sampled_from(["", "x", "xy", "yx", "7", "7.0", "0.1", "-0.5", " 3x", "+7", "1e1", "9" * 19, "-", "."])

comparisons = st.one_of(
    st.tuples(st.just("number"), NAMES, st.sampled_from(["=", "!=", ">", "<", "@>"]), st.integers(-3, 8)),
    st.tuples(
        st.just("number"),
        NAMES,
        st.sampled_from(["=", "!=", ">", "<", "@>"]),
        st.sampled_from([0.1, -0.5, 7.0, 10.0]),
    ),
    st.tuples(
        st.just("text"),
        NAMES,
        st.sampled_from(["=", "!=", "@>"]),
        st.sampled_from(["x", "x*", "?y", "*x*", "[xy]", "7"]),
    ),
)
trees = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner),
        st.tuples(st.just("group"), inner),
        st.tuples(
            st.just("chain"),
            st.lists(inner, min_size=2, max_size=4),
            st.lists(st.sampled_from("&|"), min_size=3, max_size=3),
        ),
    ),
    max_leaves=10,
)
objects = st.dictionaries(
    NAMES.map("TEMPLATE/{}".format),
    st.lists(st.one_of(TEXTS, st.integers(-3, 8).map(str)), min_size=1, max_size=2).map(tuple),
)


def written(tree: tuple) -> str:  # type: ignore[type-arg]
    """A tree as a user writes it; a chain inside another one needs its parentheses."""
    kind = tree[0]
    if kind == "number":
        return f"{tree[1]} {tree[2]} {tree[3]}"
    if kind == "text":
        return f'{tree[1]}{tree[2]}"{tree[3]}"'
    if kind == "not":
        return "!" + (f"({written(tree[1])})" if tree[1][0] == "chain" else written(tree[1]))
    if kind == "group":
        return f"({written(tree[1])})"
    parts = [f"({written(part)})" if part[0] == "chain" else written(part) for part in tree[1]]
    text = parts[0]
    for operator, part in zip(tree[2], parts[1:], strict=False):
        text += f" {operator} {part}"
    return text


def holds(tree: tuple, attributes: dict[str, tuple[str, ...]]) -> bool:  # type: ignore[type-arg]
    """What the tree means, told without masks, columns or precedence."""
    kind = tree[0]
    if kind == "not":
        return not holds(tree[1], attributes)
    if kind == "group":
        return holds(tree[1], attributes)
    if kind == "chain":
        value = holds(tree[1][0], attributes)
        for operator, part in zip(tree[2], tree[1][1:], strict=False):
            value = (value and holds(part, attributes)) if operator == "&" else (value or holds(part, attributes))
        return value
    _, name, operator, wanted = tree
    return compared(kind, operator, wanted, attributes.get(f"TEMPLATE/{name}", ()))


def compared(kind: str, operator: str, wanted: str | float, values: tuple[str, ...]) -> bool:
    if kind == "text":
        matches = [fnmatch.fnmatchcase(value, str(wanted)) for value in values]
        return bool(matches) and {"=": matches[0], "!=": not matches[0], "@>": any(matches)}[operator]
    limit = wanted if isinstance(wanted, int) else single(float(wanted))
    read = whole_number_in if isinstance(wanted, int) else number_in
    numbers = [number for number in map(read, values) if number is not None]
    if not numbers:
        return False
    first = numbers[0]
    return {
        "=": first == limit,
        "!=": first != limit,
        ">": first > limit,
        "<": first < limit,
        "@>": limit in numbers,
    }[operator]


def single(number: float) -> float:
    """In single precision, as the matchmaker has it."""
    return float(struct.unpack("f", struct.pack("f", number))[0])


def longest(text: str, read: Callable[[str], float]) -> float | None:
    """The number that the longest readable beginning of a text is."""
    for end in range(len(text), 0, -1):
        with contextlib.suppress(ValueError):
            return read(text[:end])
    return None


def whole_number_in(text: str) -> float | None:
    number = longest(text, int)
    return None if number is None or abs(number) >= 10**18 else number


def number_in(text: str) -> float | None:
    number = longest(text, float)
    return None if number is None else single(number)


@given(tree=trees, rows=st.lists(objects, min_size=1, max_size=4))
def test_masks_agree_with_a_plain_evaluator(tree: tuple, rows: list[dict[str, tuple[str, ...]]]) -> None:  # type: ignore[type-arg]
    mask = parse_requirement(written(tree)).mask(AttributeTable(HOST_LAYOUT, rows))

    assert mask.tolist() == [holds(tree, row) for row in rows]


@given(st.text(alphabet=string.printable + "äß€\x00", max_size=60))
def test_any_text_is_read_or_refused_in_one_way(text: str) -> None:
    refused_at = 1
    try:
        meets = is_met(text, HOST)
    except ExpressionError as error:
        meets, refused_at = False, error.position
    assert meets in (True, False)
    assert 1 <= refused_at <= len(text) + 1


def test_thousands_of_comparisons_read_each_value_of_a_host_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def watched(reader: Callable[[str], float | None]) -> Callable[[str], float | None]:
        def reads(text: str) -> float | None:
            read.append(text)
            return reader(text)

        return reads

    monkeypatch.setattr(attributes, "leading_integer", watched(attributes.leading_integer))
    monkeypatch.setattr(attributes, "leading_number", watched(attributes.leading_number))
    table = AttributeTable(HOST_LAYOUT, [{"ID": (str(number), "x")} for number in range(10)])

    for end in ("", ".5"):
        text = " | ".join(f"ID @> {number}{end}" for number in range(5, 500))
        assert np.flatnonzero(parse_requirement(text).mask(table)).tolist() == ([5, 6, 7, 8, 9] if not end else [])

    assert len(read) == 40


several_texts = st.lists(st.lists(st.text("abc7", max_size=4), max_size=4).map(tuple), min_size=1, max_size=6)


@given(rows=several_texts, pattern=st.text("abc7*?[]!-", min_size=1, max_size=6))
def test_texts_of_a_column_match_as_if_each_was_tried_by_itself(rows: list[tuple[str, ...]], pattern: str) -> None:
    table, glob = AttributeTable(HOST_LAYOUT, [{"TEMPLATE/A": texts} for texts in rows]), compile_glob(pattern)

    def mask(operator: str) -> list[bool]:
        return [bool(meets) for meets in parse_requirement(f'A {operator} "{pattern}"').mask(table)]

    assert mask("@>") == [any(map(glob.matches, texts)) for texts in rows]
    assert mask("=") == [bool(texts) and glob.matches(texts[0]) for texts in rows]
    assert mask("!=") == [bool(texts) and not glob.matches(texts[0]) for texts in rows]


def lines_of(text: str, hosts: int) -> int:
    """What it takes on hosts that have 50 texts in common and one of their own, whose texts were looked at before."""
    shared = tuple(f"shared{number}" for number in range(50))
    table = AttributeTable(HOST_LAYOUT, [{"TEMPLATE/A": (*shared, str(number))} for number in range(hosts)])
    parse_requirement("A = x | A @> x").mask(table)
    requirement = parse_requirement(text)
    return lines_run(lambda: requirement.mask(table))


def test_thousands_of_texts_are_found_without_looking_at_the_hosts() -> None:
    for operator in ("@>", "=", "!="):
        text = " | ".join(f'A {operator} "text{number}"' for number in range(500))
        assert lines_of(text, hosts=100) < 1.1 * lines_of(text, hosts=10)


def test_a_pattern_is_tried_once_on_what_hosts_have_in_common() -> None:
    # For each host anew it would be tried 5,100 times.
    assert lines_of('A @> "*[xyz]*[!a]z*"', hosts=100) < 20 * (50 + 100)


def test_a_name_that_nobody_has_is_looked_for_on_all_hosts_once() -> None:
    looked_at: list[object] = []

    class Watched(dict[str, tuple[str, ...]]):
        def __contains__(self, key: object) -> bool:
            looked_at.append(key)
            return super().__contains__(key)

    table = AttributeTable(HOST_LAYOUT, [Watched({"TEMPLATE/RACK": ("A",)}) for _ in range(10)])

    assert not parse_requirement(" | ".join(f"MISSING{number} = 1" for number in range(500))).mask(table).any()
    assert parse_requirement("RACK = A").mask(table).all()
    assert len(looked_at) <= 2 * 10 * len(HOST_LAYOUT.prefixes)
