"""The chart: every column against a recount second by second, its width, its clock, and what stands at its edges."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from one_preempt.entrypoints.cli.gantt import BLOCKS, PLAIN, Bar, BarKind, Line, gantt

HOUR_S = 3600
NOON_S = int(datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp())
MADRID = ZoneInfo("Europe/Madrid")
HEAD = 3  # title, labels of the ticks, ticks


def text_of(line: Line) -> str:
    return "".join(span.text for span in line)


def chart_of(line: Line) -> str:
    """The row without its label."""
    return "".join(span.text for span in line[1:])


def hours(bars: list[Bar], count: int, width: int = 60, zone: tzinfo = UTC) -> list[Line]:
    return gantt(bars, NOON_S, NOON_S + count * HOUR_S, width, zone, PLAIN)


bars = st.builds(
    Bar,
    label=st.sampled_from(["1 a", "2 bb", "3 größe", "4 表表"]),
    start_s=st.integers(-40, 240),
    end_s=st.none() | st.integers(-40, 240),
    kind=st.sampled_from(BarKind),
)


@settings(derandomize=True, max_examples=300)
@given(
    drawn=st.lists(bars, max_size=6),
    span_s=st.integers(60, 200),
    width=st.integers(20, 60),
    zone=st.sampled_from([UTC, MADRID, ZoneInfo("Asia/Kathmandu")]),
)
def test_every_column_shows_the_highest_kind_of_its_seconds(
    drawn: list[Bar], span_s: int, width: int, zone: tzinfo
) -> None:
    lines = gantt(drawn, 0, span_s, width, zone, PLAIN)
    assert all(cell_len(text_of(line).rstrip()) <= width for line in lines[1:-1])
    labels = list(dict.fromkeys(bar.label for bar in drawn))
    for label, line in zip(labels, lines[HEAD:], strict=False):
        columns = len(chart_of(line))
        seen: list[BarKind | None] = [None] * columns
        for at_s in range(span_s):
            column = at_s * columns // span_s
            for bar in drawn:
                ends_s = span_s if bar.end_s is None else max(bar.end_s, bar.start_s + 1)
                if bar.label == label and bar.start_s <= at_s < ends_s:
                    seen[column] = max(seen[column] or BarKind.WAITING, bar.kind)
        shown = [span.kind for span in line[1:] for _character in span.text]
        # The last column may be the arrow of what comes later.
        assert shown[:-1] == seen[:-1]
        later = any(
            bar.label == label
            and bar.kind is not BarKind.DEADLINE
            and (bar.end_s is None or max(bar.end_s, bar.start_s + 1) > span_s)
            for bar in drawn
        )
        assert (chart_of(line)[-1] == PLAIN.later) == later or seen[-1] is BarKind.DEADLINE


def test_rows_are_as_wide_as_time_is_long() -> None:
    lines = hours([Bar("1 a", NOON_S + HOUR_S, NOON_S + 3 * HOUR_S, BarKind.RUNNING)], 4, width=44)
    assert chart_of(lines[HEAD]) == " " * 10 + "#" * 20 + " " * 10


def test_what_began_before_or_ends_later_has_arrows() -> None:
    lines = hours(
        [
            Bar("1", NOON_S - 1, NOON_S + HOUR_S, BarKind.RUNNING),
            Bar("2", NOON_S + HOUR_S, None, BarKind.WAITING),
            Bar("3", NOON_S + 9 * HOUR_S, NOON_S + 10 * HOUR_S, BarKind.RESERVED),
            Bar("4", NOON_S - 9 * HOUR_S, NOON_S - HOUR_S, BarKind.RUNNING),
        ],
        2,
        width=22,
    )
    assert [chart_of(line) for line in lines[HEAD:7]] == [
        "<#########" + " " * 10,
        " " * 10 + ".........>",
        " " * 19 + ">",
        " " * 20,
    ]


def test_a_short_stay_is_seen_and_a_deadline_stands_over_it() -> None:
    lines = hours(
        [
            Bar("1", NOON_S + HOUR_S, NOON_S + HOUR_S + 1, BarKind.RUNNING),
            Bar("2", NOON_S, NOON_S + 2 * HOUR_S, BarKind.RUNNING),
            Bar("2", NOON_S + HOUR_S, NOON_S + HOUR_S, BarKind.DEADLINE),
            Bar("2", NOON_S + 50 * HOUR_S, NOON_S + 50 * HOUR_S, BarKind.DEADLINE),
        ],
        2,
        width=12,
    )
    assert [chart_of(line) for line in lines[HEAD:5]] == ["     #    ", "#####!####"]


def test_only_what_is_drawn_is_explained() -> None:
    assert text_of(hours([Bar("1", NOON_S, None, BarKind.RUNNING)], 2)[-1]).split() == ["#", "runs"]
    later = Bar("1", NOON_S + 9 * HOUR_S, None, BarKind.DEADLINE)
    assert len(hours([later], 2)) == HEAD + 1
    assert len(hours([], 2)) == HEAD


@pytest.mark.parametrize("width", [1, 8, 20, 30, 200])
def test_a_narrow_terminal_cuts_labels_first(width: int) -> None:
    label = "1234 一二三四五六七八九十 a long name that does not fit"
    lines = hours([Bar(label, NOON_S, None, BarKind.RUNNING)], 24, width=width)
    assert all(cell_len(text_of(line)) <= max(width, 15) for line in lines[1 : HEAD + 1])
    assert "#" in text_of(lines[HEAD])


def ticks(lines: list[Line]) -> list[str]:
    return text_of(lines[1]).split()


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        ("2026-03-29", ["03-29", "01:00", "03:00", "04:00", "05:00"]),
        ("2026-10-25", ["10-25", "01:00", "02:00", "02:00", "03:00", "04:00"]),
        ("2026-11-20", ["11-20", "01:00", "02:00", "03:00", "04:00"]),
    ],
    ids=["an hour is left out", "an hour comes twice", "an ordinary night"],
)
def test_the_axis_follows_the_clock_of_the_zone(day: str, expected: list[str]) -> None:
    midnight_s = int(datetime.fromisoformat(day).replace(tzinfo=MADRID).timestamp())
    lines = gantt([], midnight_s, midnight_s + len(expected) * HOUR_S, 80, MADRID, PLAIN)
    assert ticks(lines)[: len(expected)] == expected
    columns = [column for column, character in enumerate(text_of(lines[2])) if character == PLAIN.tick]
    steps = {later - earlier for earlier, later in pairwise(columns)}
    assert max(steps) - min(steps) <= 1, "an hour is as wide as another, whatever the clock says"


def test_the_title_has_both_offsets_of_a_day_on_which_clocks_change() -> None:
    midnight_s = int(datetime(2026, 10, 25, tzinfo=MADRID).timestamp())
    lines = gantt([], midnight_s, midnight_s + 25 * HOUR_S, 80, MADRID)
    assert text_of(lines[0]) == "2026-10-25 00:00 +0200 to 2026-10-26 00:00 +0100"


def test_zones_of_half_hours_have_ticks_on_their_own_hours() -> None:
    zone = timezone(timedelta(hours=5, minutes=45))
    lines = gantt([], NOON_S, NOON_S + 4 * HOUR_S, 41, zone, PLAIN)
    assert ticks(lines) == ["18:00", "19:00", "20:00", "21:00"]
    assert text_of(lines[2]).index(PLAIN.tick) == 1 + 40 * 15 // 240


@settings(derandomize=True, max_examples=200)
@given(span_hours=st.integers(1, 744), width=st.integers(15, 250), from_s=st.integers(NOON_S, NOON_S + 10_000_000))
def test_labels_of_ticks_never_run_into_each_other(span_hours: int, width: int, from_s: int) -> None:
    lines = gantt([], from_s, from_s + span_hours * HOUR_S, width, MADRID, PLAIN)
    assert all(len(label) == 5 for label in ticks(lines))
    marks = text_of(lines[2])
    assert all(marks[text_of(lines[1]).index(label)] == PLAIN.tick for label in ticks(lines))


def test_text_and_colours_tell_the_same() -> None:
    bar = Bar("1 a", NOON_S, NOON_S + HOUR_S, BarKind.RESERVED)
    lines = gantt([bar], NOON_S, NOON_S + 2 * HOUR_S, 24, UTC, BLOCKS)
    assert [text_of(line).rstrip() for line in lines[HEAD:]] == ["1 a " + "▓" * 10, "▓ reserved"]
