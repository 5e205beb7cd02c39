from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from one_preempt.core.admission.lease_attribute import MalformedLease, parse_lease_attribute, quoted
from one_preempt.core.model.lease import LeaseTerms, LeaseType

# 2026-12-01T09:00:00Z
DECEMBER_S = 1_796_115_600
HOUR_S = 3600


def parse(**keys: str) -> LeaseTerms | MalformedLease:
    return parse_lease_attribute(({"TYPE": "BE-SUSPENDABLE"} | keys,))


def problem(**keys: str) -> MalformedLease:
    found = parse(**keys)
    assert isinstance(found, MalformedLease)
    return found


def test_every_key_is_read() -> None:
    assert parse(
        NAME="sweep-42",
        SIZE="8",
        DURATION="02:00:00",
        START="2026-12-01T09:00:00Z",
        DEADLINE="2026-12-02T09:00:00Z",
        MAX_SUSPENSIONS="2",
        SHUTDOWN_OK="YES",
    ) == LeaseTerms(
        type=LeaseType.BE_SUSPENDABLE,
        name="sweep-42",
        size=8,
        duration_s=2 * HOUR_S,
        start_at_s=DECEMBER_S,
        deadline_at_s=DECEMBER_S + 24 * HOUR_S,
        max_suspensions=2,
        shutdown_ok=True,
    )


def test_a_type_alone_is_a_lease() -> None:
    assert parse() == LeaseTerms(type=LeaseType.BE_SUSPENDABLE)


@pytest.mark.parametrize("written", list(LeaseType))
def test_all_four_types_are_known(written: LeaseType) -> None:
    assert parse(TYPE=f" {written.lower()} ") == LeaseTerms(type=written)


@pytest.mark.parametrize(
    ("text", "at_s"),
    [
        ("2026-12-01T09:00:00Z", DECEMBER_S),
        ("2026-12-01 09:00Z", DECEMBER_S),
        ("2026-12-01T10:00:00+01:00", DECEMBER_S),
        ("2026-12-01T03:30:00-0530", DECEMBER_S),
        ("1971-01-01T00:00:00Z", 31_536_000),
    ],
)
def test_an_instant_is_read_with_its_zone(text: str, at_s: int) -> None:
    assert parse(START=text) == LeaseTerms(type=LeaseType.BE_SUSPENDABLE, start_at_s=at_s)


def test_a_relative_start_is_an_offset() -> None:
    assert parse(START="+1.00:00:30") == LeaseTerms(type=LeaseType.BE_SUSPENDABLE, start_offset_s=86_430)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("TYPE", "SPOT"),
        ("TYPE", ""),
        ("NAME", ""),
        ("NAME", "-x"),
        ("NAME", "two words"),
        ("NAME", "x" * 65),
        ("NAME", "a\nUSER_PRIORITY=999"),
        ("SIZE", "0"),
        ("SIZE", "-1"),
        ("SIZE", "1.5"),
        ("SIZE", "10001"),
        ("SIZE", "٣"),
        ("SIZE", "9" * 400),
        ("DURATION", "7200"),
        ("DURATION", "02:00"),
        ("DURATION", "00:00:00"),
        ("DURATION", "00:60:00"),
        ("DURATION", "-01:00:00"),
        ("DURATION", "9999.00:00:00"),
        ("START", "tomorrow"),
        ("START", "2026-12-01T09:00:00"),
        ("START", "2026-02-30T09:00:00Z"),
        ("START", "2026-13-01T09:00:00Z"),
        ("START", "2026-12-01T24:00:00Z"),
        ("START", "9999-12-01T09:00:00Z"),
        ("START", "0000-12-01T09:00:00Z"),
        ("START", "+soon"),
        ("START", "+"),
        ("DEADLINE", "+02:00:00"),
        ("MAX_SUSPENSIONS", "-1"),
        ("MAX_SUSPENSIONS", "many"),
        ("SHUTDOWN_OK", "maybe"),
    ],
)
def test_a_value_that_cannot_be_used_is_named_with_the_way_to_write_it(key: str, text: str) -> None:
    found = problem(NAME="fine", **{key: text}) if key != "NAME" else problem(NAME=text)
    assert found.code == f"lease-{key.lower()}"
    assert found.text.startswith(f"{key} {quoted('' if not text.strip() else text)} is ")
    assert "write" in found.text or "letters" in found.text


def test_without_a_type_the_four_are_listed() -> None:
    found = parse_lease_attribute(({"NAME": "x"},))
    assert isinstance(found, MalformedLease)
    assert "DC-NON-PREEMPTABLE" in found.text


def test_unknown_keys_are_named() -> None:
    found = problem(DURATON="02:00:00", **{"<b>": "1"})
    assert found.code == "lease-unknown-key"
    assert "'DURATON'" in found.text
    assert "'?b?'" in found.text


def test_a_key_in_two_spellings_is_a_repetition() -> None:
    assert problem(size="1", SIZE="2").code == "lease-repeated-key"


def test_the_attribute_stands_once_and_in_brackets() -> None:
    twice = parse_lease_attribute(({"TYPE": "BE-SUSPENDABLE"}, {"TYPE": "BE-SUSPENDABLE"}))
    text = parse_lease_attribute(("BE-SUSPENDABLE",))
    assert isinstance(twice, MalformedLease)
    assert isinstance(text, MalformedLease)
    assert (twice.code, text.code) == ("lease-repeated", "lease-not-vector")


def test_a_megabyte_is_refused_unread() -> None:
    assert problem(NAME="x" * 1_000_000).code == "lease-too-long"
    assert problem(**{f"K{number}": "" for number in range(100_000)}).code == "lease-too-long"


def test_several_vms_need_a_name() -> None:
    assert problem(SIZE="2").code == "lease-name"
    assert isinstance(parse(SIZE="2", NAME="pair"), LeaseTerms)


def test_a_deadline_before_the_end_is_a_contradiction() -> None:
    found = problem(START="2026-12-01T09:00:00Z", DURATION="02:00:00", DEADLINE="2026-12-01T10:59:59Z")
    assert found.code == "lease-deadline"


HOSTILE = st.text(max_size=60) | st.sampled_from(["-0", "1e9", "\x00", "]]>", "&lt;", "NaN", "+" * 40])
KEYS = st.sampled_from(
    ["TYPE", "NAME", "SIZE", "DURATION", "START", "DEADLINE", "MAX_SUSPENSIONS", "SHUTDOWN_OK", "type", "X"]
)


@given(st.dictionaries(KEYS | HOSTILE, HOSTILE | st.sampled_from(list(LeaseType)), max_size=6))
def test_whatever_is_written_gives_terms_or_a_short_printable_text(attribute: dict[str, str]) -> None:
    found = parse_lease_attribute((attribute,))
    if isinstance(found, MalformedLease):
        assert found.text.isprintable()
        assert len(found.text) <= 230
        assert not set(found.text) & set("<>&\\")
    else:
        assert 1 <= found.size <= 10_000
