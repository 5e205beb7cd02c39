"""Bars and lines, with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.simulation.plots.axes import LEFT, RIGHT, WIDTH, Frame, framed, mark_x, ticks
from one_preempt.simulation.plots.drawing import LETTER_PX, colour
from one_preempt.simulation.probes.statistics import Interval

_BAR_SHARE = 0.7
_NAME_ROW_PX, _MOST_NAME_ROWS = 14, 3


class Line(Struct, frozen=True):
    """A series: at each x a mean with its interval."""

    name: str
    points: tuple[tuple[float, Interval], ...]


def bar_chart(title: str, y_title: str, bars: Sequence[tuple[str, Interval]], least: float = -math.inf) -> str:
    """One bar a name, from 0, with its interval where there is one; no value can be below `least`.

    Where there is no room for the names below the bars, numbers stand there, and a legend has the names.
    """
    bars = [(name, replace(each, low=max(each.low, min(least, each.mean)))) for name, each in bars]
    y_ticks = _ticks_over(bound for _, each in bars for bound in (0.0, each.mean, each.low, each.high))
    names = [name for name, _ in bars]
    place_px = (WIDTH - LEFT - RIGHT) / max(1, len(bars))
    rows, every = _name_rows(names, place_px), 1
    legend = [f"{number}: {name}" for number, name in enumerate(names, 1)] if not rows else []
    if legend:
        names, rows = list(map(str, range(1, len(bars) + 1))), 1
        every = math.ceil(LETTER_PX * (len(names[-1]) + 1) / place_px)
    frame = framed(title, "", y_title, [0.0, float(max(1, len(bars)))], y_ticks, legend)
    _show_colours(frame)
    for number, (name, each) in enumerate(bars):
        middle_px = frame.x.at(number + 0.5)
        width_px = place_px * _BAR_SHARE
        _bar(frame, middle_px - width_px / 2, width_px, each.mean, colour(number), f"{name}: {each.mean:.6g}")
        if each.high > each.low:
            frame.drawing.interval(middle_px, frame.y.at(each.low), frame.y.at(each.high))
        if number % every == 0:
            below_px = frame.floor_px + 18 + _NAME_ROW_PX * (number % rows)
            frame.drawing.text(middle_px, below_px, names[number], "middle")
    return frame.drawing.svg()


def _name_rows(names: Sequence[str], place_px: float) -> int:
    """In how many rows, in turns, names stand that are wider than their places; 0: they would cover one another."""
    widths_px = [LETTER_PX * len(name) for name in names]
    rows = math.ceil((max(widths_px, default=0.0) + LETTER_PX) / place_px)
    # The first and the last one reach beyond the axis, and are to stay in the picture.
    ends = ((widths_px[0], LEFT), (widths_px[-1], RIGHT)) if widths_px else ()
    fit = all((width_px - place_px) / 2 <= margin_px for width_px, margin_px in ends)
    return rows if rows <= _MOST_NAME_ROWS and fit else 0


def line_chart(title: str, x_title: str, y_title: str, lines: Sequence[Line]) -> str:
    """One line a series, with intervals; of one without points the legend alone. They differ without colours, too."""
    xs = sorted({x for line in lines for x, _ in line.points})
    y_ticks = _ticks_over(bound for line in lines for _, each in line.points for bound in (each.low, each.high))
    x_ticks = ticks(min(xs, default=0.0), max(xs, default=1.0))
    frame = framed(title, x_title, y_title, x_ticks, y_ticks, [line.name for line in lines])
    mark_x(frame, x_ticks)
    for sample in frame.samples:
        frame.drawing.series_line([(sample.from_px, sample.y_px), (sample.to_px, sample.y_px)], sample.number)
        frame.drawing.series_mark((sample.from_px + sample.to_px) / 2, sample.y_px, sample.number)
    for number, line in enumerate(lines):
        if not line.points:
            continue
        frame.drawing.series_line([(frame.x.at(x), frame.y.at(each.mean)) for x, each in line.points], number)
        for x, each in line.points:
            if each.high > each.low:
                frame.drawing.interval(frame.x.at(x), frame.y.at(each.low), frame.y.at(each.high), colour(number))
            frame.drawing.series_mark(frame.x.at(x), frame.y.at(each.mean), number)
    return frame.drawing.svg()


def _show_colours(frame: Frame) -> None:
    for sample in frame.samples:
        frame.drawing.rectangle(
            sample.from_px, sample.y_px - 5, sample.to_px - sample.from_px, 10, colour(sample.number)
        )


def _bar(frame: Frame, left_px: float, width_px: float, value: float, fill: str, told: str) -> None:
    zero_px, value_px = frame.y.at(0), frame.y.at(value)
    frame.drawing.rectangle(left_px, min(zero_px, value_px), width_px, abs(zero_px - value_px), fill, told)


def _ticks_over(values: Iterable[float]) -> list[float]:
    found = list(values)
    return ticks(min(found, default=0.0), max(found, default=1.0))
