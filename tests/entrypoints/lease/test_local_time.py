"""Times of people: zones by name, clocks that are put forward and back, and nothing guessed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from one_preempt.core.model.written_time import utc_text
from one_preempt.entrypoints.cli.lease.local_time import in_both, with_zone
from one_preempt.errors import OnePreemptError

ZONES = ("Europe/Madrid", "America/St_Johns", "Asia/Kathmandu", "Australia/Lord_Howe", "UTC")


@pytest.fixture
def in_madrid(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose clock is that of Madrid."""
    monkeypatch.setenv("TZ", "Europe/Madrid")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2026-12-01 09:00 Europe/Madrid", "2026-12-01T08:00:00Z"),
        ("2026-07-01T09:00:30 Europe/Madrid", "2026-07-01T07:00:30Z"),
        ("2026-07-01 09:00 Asia/Kathmandu", "2026-07-01T03:15:00Z"),
        (" 2026-07-01 09:00  UTC ", "2026-07-01T09:00:00Z"),
        ("2026-10-25 01:59 Europe/Madrid", "2026-10-24T23:59:00Z"),
        ("2026-10-25 03:00 Europe/Madrid", "2026-10-25T02:00:00Z"),
        ("2026-03-29 03:00 Europe/Madrid", "2026-03-29T01:00:00Z"),
    ],
)
def test_a_local_time_is_written_in_utc(text: str, written: str) -> None:
    assert with_zone(text) == written


@pytest.mark.parametrize(
    "text",
    [
        "2026-12-01T09:00:00Z",
        "2026-12-01T09:00:00+01:00",
        "+02:00:00",
        "now",
        "",
        "tomorrow",
        "9:00",
        "0001-01-01 00:00 Asia/Tokyo",
        "9999-12-31 23:00 America/St_Johns",
    ],
)
def test_what_is_no_local_time_is_left_to_others(text: str) -> None:
    assert with_zone(text) == text


@pytest.mark.usefixtures("in_madrid")
def test_without_a_zone_the_clock_of_the_machine_counts() -> None:
    assert with_zone("2026-12-01 09:00") == "2026-12-01T08:00:00Z"
    assert with_zone("2026-07-01 09:00") == "2026-07-01T07:00:00Z"
    assert in_both(1_790_000_000) == "2026-09-21T14:13:20Z (2026-09-21 16:13:20 +0200 here)"
    with pytest.raises(OnePreemptError, match="happens twice"):
        with_zone("2026-10-25 02:30")
    with pytest.raises(OnePreemptError, match="does not exist"):
        with_zone("2026-03-29 02:30")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("2026-02-30 09:00", "there is no such day, or no such hour"),
        ("2026-02-28 24:30 Europe/Madrid", "there is no such day, or no such hour"),
        ("2026-10-25 02:30 Europe/Madrid", "happens twice"),
        ("2026-03-29 02:00 Europe/Madrid", "does not exist"),
        ("2026-04-05 01:45 Australia/Lord_Howe", "happens twice"),
        ("2026-10-25 02:30 Europe/Madird", "no time zone"),
        ("2026-10-25 02:30 Europe", "no time zone"),
        ("2026-10-25 02:30 CESTA", "no time zone"),
    ],
)
def test_what_could_mean_two_things_or_none_is_refused(text: str, told: str) -> None:
    with pytest.raises(OnePreemptError, match=told):
        with_zone(text)


@settings(derandomize=True, max_examples=300)
@given(at_s=st.integers(1_700_000_000, 1_900_000_000), zone=st.sampled_from(ZONES))
def test_an_instant_written_locally_comes_back_or_is_refused_as_ambiguous(at_s: int, zone: str) -> None:
    local = datetime.fromtimestamp(at_s, UTC).astimezone(ZoneInfo(zone))
    twin = local.replace(fold=1 - local.fold)
    try:
        assert with_zone(f"{local:%Y-%m-%d %H:%M:%S} {zone}") == utc_text(at_s)
    except OnePreemptError:
        assert twin.utcoffset() != local.utcoffset()
        assert abs((twin.utcoffset() or timedelta()) - (local.utcoffset() or timedelta())) <= timedelta(hours=1)
