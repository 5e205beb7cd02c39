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


def parse_deadline(**keys: str) -> LeaseTerms | MalformedLease:
    deadline = {"TYPE": "DC-MIGRATABLE", "DURATION": "02:00:00", "DEADLINE": "2026-12-01T11:00:00Z"}
    return parse_lease_attribute((deadline | keys,))


def problem(**keys: str) -> MalformedLease:
    found = parse(**keys)
    assert isinstance(found, MalformedLease)
    return found


def test_every_key_is_read() -> None:
    assert parse(
        TYPE="DC-MIGRATABLE",
        NAME="sweep-42",
        SIZE="8",
        DURATION="02:00:00",
        START="2026-12-01T09:00:00Z",
        DEADLINE="2026-12-02T09:00:00Z",
        MAX_SUSPENSIONS="2",
        SHUTDOWN_OK="YES",
    ) == LeaseTerms(
        type=LeaseType.DC_MIGRATABLE,
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


# 2026-10-25 in Berlin: at 01:00Z the clocks go back from 03:00 (+02:00) to 02:00 (+01:00).
CLOCKS_GO_BACK_S = 1_792_890_000


@pytest.mark.parametrize(
    ("text", "at_s"),
    [
        ("2026-10-25T02:30:00+02:00", CLOCKS_GO_BACK_S - 1800),
        ("2026-10-25T02:30:00+01:00", CLOCKS_GO_BACK_S + 1800),
        ("2026-10-25T03:00:00+01:00", CLOCKS_GO_BACK_S + HOUR_S),
        ("2026-10-25T01:00:00Z", CLOCKS_GO_BACK_S),
        # The hour that is left out in March exists under either offset all the same.
        ("2026-03-29T02:30:00+01:00", 1_774_747_800),
        ("2026-03-29T03:30:00+02:00", 1_774_747_800),
    ],
)
def test_in_the_hour_that_daylight_saving_repeats_the_written_offset_decides(text: str, at_s: int) -> None:
    assert parse(START=text) == LeaseTerms(type=LeaseType.BE_SUSPENDABLE, start_at_s=at_s)
    assert parse_deadline(DEADLINE=text) == LeaseTerms(
        type=LeaseType.DC_MIGRATABLE, duration_s=2 * HOUR_S, deadline_at_s=at_s
    )


def test_an_hour_is_an_hour_across_the_change_of_the_clocks() -> None:
    across = parse_deadline(
        START="2026-10-25T02:30:00+02:00", DEADLINE="2026-10-25T02:30:00+01:00", DURATION="01:00:00"
    )
    assert isinstance(across, LeaseTerms)
    within = parse_deadline(
        START="2026-10-25T02:30:00+02:00", DEADLINE="2026-10-25T03:29:59+02:00", DURATION="01:00:00"
    )
    assert isinstance(within, MalformedLease)


@pytest.mark.parametrize("zone", ["", "Europe/Berlin", " CET", "CEST", "+1", "+25:00", "+01:60", "z z"])
def test_an_instant_without_a_zone_that_can_be_read_is_refused(zone: str) -> None:
    assert problem(START=f"2026-10-25T02:30:00{zone}").code == "lease-start"
    found = parse_deadline(DEADLINE=f"2026-10-25T02:30:00{zone}")
    assert isinstance(found, MalformedLease)
    assert "a time with its zone" in found.text


@pytest.mark.parametrize("text", ["now", "NOW", " Now "])
def test_now_is_at_once_or_not_at_all(text: str) -> None:
    found = parse(START=text, DURATION="01:00:00")
    assert found == LeaseTerms(type=LeaseType.BE_SUSPENDABLE, duration_s=HOUR_S, at_once=True)
    assert isinstance(found, LeaseTerms)
    assert found.asks_for_time


def test_whose_relative_start_cannot_be_read_is_shown_one_that_is_relative() -> None:
    assert '"+02:00:00"' in problem(START="+2h").text


@pytest.mark.parametrize("text", ["nowadays", "now+01:00:00", "+now", "n0w"])
def test_what_only_looks_like_now_is_refused_and_now_is_named(text: str) -> None:
    assert problem(START=text).text.endswith(', or "now"') or text.startswith("+")


def test_a_start_with_a_deadline_is_the_earliest_one() -> None:
    assert parse_deadline(START="2026-12-01T09:00:00Z") == LeaseTerms(
        type=LeaseType.DC_MIGRATABLE,
        duration_s=2 * HOUR_S,
        start_at_s=DECEMBER_S,
        deadline_at_s=DECEMBER_S + 2 * HOUR_S,
    )


@pytest.mark.parametrize("lease_type", list(LeaseType))
def test_a_start_goes_with_every_type_and_a_deadline_with_those_that_keep_one(lease_type: LeaseType) -> None:
    assert isinstance(parse(TYPE=lease_type, START="2026-12-01T09:00:00Z"), LeaseTerms)
    assert isinstance(parse_deadline(TYPE=lease_type), MalformedLease) is lease_type.best_effort


def test_a_deadline_without_duration_or_with_a_type_that_keeps_none_is_told_how_to_be_written() -> None:
    without = parse_lease_attribute(({"TYPE": "DC-MIGRATABLE", "DEADLINE": "2026-12-01T11:00:00Z"},))
    best_effort = parse_deadline(TYPE="BE-SUSPENDABLE")
    assert isinstance(without, MalformedLease)
    assert without == best_effort
    assert without.code == "lease-deadline"
    assert 'write TYPE = "DC-MIGRATABLE", DURATION = "02:00:00" and DEADLINE' in without.text


def test_a_deadline_goes_not_with_now() -> None:
    found = parse_deadline(START="now")
    assert isinstance(found, MalformedLease)
    assert "leave one of them out" in found.text


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
    assert found.text.startswith("LEASE has the unknown keys 'DURATON', '?b?'; it may have TYPE, ")
    assert problem(DURATON="02:00:00").text.startswith("LEASE has the unknown key 'DURATON'; ")


def test_a_key_in_two_spellings_is_a_repetition() -> None:
    found = problem(size="1", SIZE="2")
    assert (found.code, found.text) == ("lease-repeated-key", "SIZE is written twice in LEASE: keep one")


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
    found = parse_deadline(START="2026-12-01T09:00:00Z", DEADLINE="2026-12-01T10:59:59Z")
    assert isinstance(found, MalformedLease)
    assert found.text == "DEADLINE comes before START plus DURATION: move one of them"


HOSTILE = st.text(max_size=60) | st.sampled_from(["-0", "1e9", "\x00", "]]>", "&lt;", "NaN", "+" * 40])
KEYS = st.sampled_from(
    ["TYPE", "NAME", "SIZE", "DURATION", "START", "DEADLINE", "MAX_SUSPENSIONS", "SHUTDOWN_OK", "type", "X"]
)


# Nearly right: few of what is drawn wildly has all that it needs.
PLAUSIBLE = st.fixed_dictionaries(
    {"TYPE": st.sampled_from(list(LeaseType))},
    optional={
        "NAME": st.text("ab -<é\n", min_size=1, max_size=8),
        "SIZE": st.sampled_from(["0", "1", "3", "10000", "10001"]),
        "DURATION": st.sampled_from(["0", "60", "02:00:00", "99999999999"]),
        "START": st.sampled_from(["NOW", "+00:10:00", "2026-12-01T09:00:00Z", "soon"]),
        "DEADLINE": st.sampled_from(["2026-12-01T12:00:00Z", "later"]),
        "MAX_SUSPENSIONS": st.sampled_from(["0", "2", "-1"]),
    },
)


@given(st.dictionaries(KEYS | HOSTILE, HOSTILE | st.sampled_from(list(LeaseType)), max_size=6) | PLAUSIBLE)
def test_whatever_is_written_gives_terms_within_bounds_or_a_short_printable_text(attribute: dict[str, str]) -> None:
    found = parse_lease_attribute((attribute,))
    if isinstance(found, MalformedLease):
        assert found.text.isprintable()
        assert len(found.text) <= 230
        assert not set(found.text) & set("<>&\\")
    else:
        assert 1 <= found.size <= (10_000 if found.name else 1)
        assert found.name.isprintable()
        assert found.duration_s is None or found.duration_s > 0
        assert found.deadline_at_s is None or (found.duration_s is not None and not found.type.best_effort)
