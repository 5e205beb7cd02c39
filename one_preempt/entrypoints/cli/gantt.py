"""Stays over time as a chart of characters: one row a lease, one column a slice of time.

A pure function from bars to lines: it asks neither clock nor terminal. Columns are equal slices of elapsed time, the
ticks above them whole hours on the reader's clock: a day on which the clocks change has 23 or 25 of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from enum import IntEnum
from itertools import groupby

from msgspec import Struct
from rich.cells import cell_len, set_cell_size

HOUR_S = 3600
QUARTER_S = 900  # no zone is apart from another by less
TICK_WIDTH = 5
TICK_STEPS_HOURS = (1, 2, 3, 4, 6, 12, 24, 48, 96, 168)
NARROWEST_CHART = 8
SHORTEST_LABEL = 6


class BarKind(IntEnum):
    """What a bar means; where bars meet in one column the higher kind is drawn."""

    WAITING = 0
    EXPECTED = 1
    RESERVED = 2
    RUNNING = 3
    DEADLINE = 4
    REFUSED = 5


MEANINGS = {
    BarKind.RUNNING: "runs",
    BarKind.RESERVED: "reserved",
    BarKind.EXPECTED: "expected",
    BarKind.WAITING: "waits",
    BarKind.DEADLINE: "deadline",
    BarKind.REFUSED: "refused",
}


class Characters(Struct, frozen=True):
    """What is drawn with: a character a kind, and the arrows where a bar goes on beyond the edge."""

    fills: dict[BarKind, str]
    earlier: str
    later: str
    tick: str


BLOCKS = Characters(
    {
        BarKind.RUNNING: "█",
        BarKind.RESERVED: "▓",
        BarKind.EXPECTED: "░",
        BarKind.WAITING: "·",
        BarKind.DEADLINE: "▏",
        BarKind.REFUSED: "×",
    },
    "◂",
    "▸",
    "│",
)
PLAIN = Characters(
    {
        BarKind.RUNNING: "#",
        BarKind.RESERVED: "=",
        BarKind.EXPECTED: "-",
        BarKind.WAITING: ".",
        BarKind.DEADLINE: "!",
        BarKind.REFUSED: "x",
    },
    "<",
    ">",
    "|",
)


class Bar(Struct, frozen=True):
    """From `start_s` until `end_s` (None: nobody knows), in seconds since the epoch. Bars of one label share a row."""

    label: str
    start_s: int
    end_s: int | None
    kind: BarKind


class Span(Struct, frozen=True):
    """A piece of a line, and the kind that it is drawn for."""

    text: str
    kind: BarKind | None = None


Line = tuple[Span, ...]


class _Chart(Struct, frozen=True):
    from_s: int
    until_s: int
    columns: int
    zone: tzinfo | None

    def column(self, at_s: int) -> int:
        return (at_s - self.from_s) * self.columns // (self.until_s - self.from_s)

    def local(self, at_s: int) -> datetime:
        return datetime.fromtimestamp(at_s, UTC).astimezone(self.zone)


def gantt(
    bars: Iterable[Bar], from_s: int, until_s: int, width: int, zone: tzinfo | None = None, draw: Characters = BLOCKS
) -> list[Line]:
    """The chart between two instants, at most `width` columns wide where that is not fewer than it needs at least.

    Rows stand in the order in which their labels come first. `zone` None is the zone of this machine.
    """
    rows: dict[str, list[Bar]] = {}
    for bar in bars:
        rows.setdefault(bar.label, []).append(bar)
    label_width = _label_width(rows, width)
    chart = _Chart(from_s, until_s, max(NARROWEST_CHART, width - label_width - 1), zone)
    ticks = _ticks(chart)
    margin = " " * (label_width + 1)
    lines: list[Line] = [(Span(_title(chart)),)]
    lines.append((Span((margin + _tick_labels(ticks, chart)).rstrip()),))
    lines.append((Span((margin + _tick_marks(ticks, chart, draw)).rstrip()),))
    for label, row in rows.items():
        lines.append((Span(set_cell_size(label, label_width) + " "), *_row(row, chart, draw)))
    used = sorted({span.kind for line in lines for span in line if span.kind is not None}, reverse=True)
    legend = [Span(f"{draw.fills[kind]} {MEANINGS[kind]}   ", kind) for kind in used]
    return [*lines, tuple(legend)] if legend else lines


def _label_width(rows: Iterable[str], width: int) -> int:
    longest = max((cell_len(label) for label in rows), default=0)
    return min(longest, max(SHORTEST_LABEL, width // 3))


def _title(chart: _Chart) -> str:
    first, last = (chart.local(at_s) for at_s in (chart.from_s, chart.until_s))
    return f"{first:%Y-%m-%d %H:%M %z} to {last:%Y-%m-%d %H:%M %z}"


def _ticks(chart: _Chart) -> list[tuple[int, str]]:
    """(column, label) of whole hours, as many as have room for their labels."""
    hours_of_label = (TICK_WIDTH + 2) * (chart.until_s - chart.from_s) / chart.columns / HOUR_S
    step = next((step for step in TICK_STEPS_HOURS if step >= hours_of_label), TICK_STEPS_HOURS[-1])
    ticks: list[tuple[int, str]] = []
    for at_s in range(chart.from_s + -chart.from_s % QUARTER_S, chart.until_s, QUARTER_S):
        now = chart.local(at_s)
        hours = now.toordinal() * 24 + now.hour
        column = chart.column(at_s)
        # Where the clocks are put back an hour comes twice, and its labels may have no room beside each other.
        if now.minute == 0 and hours % step == 0 and (not ticks or column > ticks[-1][0] + TICK_WIDTH):
            ticks.append((column, f"{now:%m-%d}" if now.hour == 0 else f"{now:%H:%M}"))
    return ticks


def _tick_labels(ticks: Sequence[tuple[int, str]], chart: _Chart) -> str:
    line = ""
    for column, label in ticks:
        if column + TICK_WIDTH <= chart.columns:
            line = line.ljust(column) + label
    return line


def _tick_marks(ticks: Sequence[tuple[int, str]], chart: _Chart, draw: Characters) -> str:
    columns = {column for column, _label in ticks}
    return "".join(draw.tick if column in columns else " " for column in range(chart.columns))


def _row(bars: Iterable[Bar], chart: _Chart, draw: Characters) -> Iterator[Span]:
    """One row as runs of equal kind; arrows stand where a bar goes on beyond the edge."""
    cells: list[tuple[BarKind | None, str]] = [(None, " ")] * chart.columns
    # Lower kinds first, so that higher ones are drawn over them.
    placed = [(bar.kind, *_columns(bar, chart)) for bar in sorted(bars, key=lambda bar: (bar.kind, bar.start_s))]
    for kind, first, last in placed:
        for column in range(max(first, 0), min(last, chart.columns - 1) + 1):
            cells[column] = (kind, draw.fills[kind])
    for kind, first, last in placed:
        if kind is BarKind.DEADLINE:
            continue
        if first < 0 <= last and cells[0][0] is not BarKind.DEADLINE:
            cells[0] = (cells[0][0], draw.earlier)
        if last >= chart.columns and cells[-1][0] is not BarKind.DEADLINE:
            cells[-1] = (kind, draw.later)
    for run, group in groupby(cells, key=lambda cell: cell[0]):
        yield Span("".join(text for _kind, text in group), run)


def _columns(bar: Bar, chart: _Chart) -> tuple[int, int]:
    """First and last column of a bar, at least one; beyond the edges of the chart where it goes on there."""
    first = chart.column(bar.start_s)
    if bar.end_s is None:
        return first, max(first, chart.columns)
    return first, max(first, chart.column(bar.end_s - 1))
