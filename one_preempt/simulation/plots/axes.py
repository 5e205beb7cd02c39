"""Scales with round ticks, and the frame in which values are drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from one_preempt.simulation.plots.drawing import FAINT, LETTER_PX, Drawing

WIDTH, HEIGHT = 640.0, 400.0
LEFT, RIGHT, TOP, BOTTOM = 76.0, 20.0, 34.0, 58.0
_LEGEND_ROW_PX = 18
_SAMPLE_PX = 26
_FEWEST_STEPS = 4
_TIME_UNITS = (("days", 86_400_000), ("hours", 3_600_000), ("minutes", 60_000), ("seconds", 1000))
_FEWEST_UNITS = 3


class Scale(Struct, frozen=True):
    """Values between `low` and `high` as pixels between `from_px` and `to_px`."""

    low: float
    high: float
    from_px: float
    to_px: float

    def at(self, value: float) -> float:
        """Where a value lies."""
        return self.from_px + (value - self.low) / (self.high - self.low) * (self.to_px - self.from_px)


def ticks(low: float, high: float) -> list[float]:
    """Round numbers, at least five, the first not above `low` and the last not below `high`."""
    if high <= low:
        high = low + (abs(low) or 1.0)
    raw = (high - low) / _FEWEST_STEPS
    power = 10.0 ** math.floor(math.log10(raw))
    step = max(each * power for each in (1, 2, 2.5, 5) if each * power <= raw)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def tick_text(value: float) -> str:
    """A tick as it is written beside an axis."""
    return f"{0.0 if abs(value) < 1e-12 else value:,.10g}".replace(",", " ")


def time_unit(longest_ms: float) -> tuple[str, int]:
    """The unit in which times up to `longest_ms` are told, and its milliseconds: the largest that it has three of."""
    return next((unit for unit in _TIME_UNITS if longest_ms >= _FEWEST_UNITS * unit[1]), _TIME_UNITS[-1])


class Sample(Struct, frozen=True):
    """Where the legend shows how the n-th series is drawn: from `from_px` to `to_px`, around the height `y_px`."""

    number: int
    from_px: float
    to_px: float
    y_px: float


class Frame(Struct, frozen=True):
    """Where the values go: the two scales of a drawing with title, grid and names of the axes; and of the series."""

    drawing: Drawing
    x: Scale
    y: Scale
    samples: tuple[Sample, ...]

    @property
    def floor_px(self) -> float:
        """Where the horizontal axis lies."""
        return self.y.from_px


def framed(
    title: str,
    x_title: str,
    y_title: str,
    x_ticks: Sequence[float],
    y_ticks: Sequence[float],
    names: Sequence[str],
) -> Frame:
    """An empty diagram; `names` of series stand below, beside room for a sample of each."""
    rows = _legend_rows(names)
    drawing = Drawing(WIDTH, HEIGHT + _LEGEND_ROW_PX * len(rows), title)
    x = Scale(x_ticks[0], x_ticks[-1], LEFT, WIDTH - RIGHT)
    y = Scale(y_ticks[0], y_ticks[-1], HEIGHT - BOTTOM, TOP)
    for value in y_ticks:
        drawing.line(x.from_px, y.at(value), x.to_px, y.at(value), FAINT)
        drawing.text(LEFT - 6, y.at(value) + 4, tick_text(value), "end")
    drawing.line(x.from_px, y.from_px, x.to_px, y.from_px)
    drawing.text(WIDTH / 2, 20, title, "middle")
    drawing.text((x.from_px + x.to_px) / 2, HEIGHT - BOTTOM + 38, x_title, "middle")
    drawing.text(16, (y.from_px + y.to_px) / 2, y_title, "middle", turned=True)
    samples = []
    for row, entries in enumerate(rows):
        for number, at_px, name in entries:
            y_px = HEIGHT + _LEGEND_ROW_PX * row
            drawing.text(at_px + _SAMPLE_PX + 5, y_px, name)
            samples.append(Sample(number, at_px, at_px + _SAMPLE_PX, y_px - 4))
    return Frame(drawing, x, y, tuple(samples))


def mark_x(frame: Frame, values: Sequence[float]) -> None:
    """Ticks along the horizontal axis."""
    for value in values:
        frame.drawing.line(frame.x.at(value), frame.floor_px, frame.x.at(value), frame.floor_px + 4)
        frame.drawing.text(frame.x.at(value), frame.floor_px + 18, tick_text(value), "middle")


def _legend_rows(names: Sequence[str]) -> list[list[tuple[int, float, str]]]:
    """Series as (number, pixels from the left, name), in rows no wider than the drawing."""
    rows: list[list[tuple[int, float, str]]] = []
    at_px = WIDTH
    for number, name in enumerate(names):
        needed_px = _SAMPLE_PX + 20 + LETTER_PX * len(name)
        if at_px + needed_px > WIDTH - RIGHT:
            rows.append([])
            at_px = LEFT
        rows[-1].append((number, at_px, name))
        at_px += needed_px
    return rows
