"""PEMP12's rows and pictures: each sweep as the paper's figures show it, and over all points of a value.

A policy has figures where it was played at all points of a row: means over different points would not compare.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from one_preempt.simulation.experiments.experiment import Row
from one_preempt.simulation.experiments.pemp12_runs import (
    BOOTS,
    KWH,
    PEMP,
    POLICIES,
    SESP,
    SWEEPS,
    UNFINISHED,
    VIOLATIONS,
    Runs,
    saved_percent,
)
from one_preempt.simulation.experiments.pemp12_workloads import Point
from one_preempt.simulation.experiments.sweep_pictures import has_course
from one_preempt.simulation.plots.charts import Line, line_chart
from one_preempt.simulation.probes.statistics import interval, mean

# Column, figure, decimals.
_COLUMNS = (("kWh", KWH, 0), ("broken %", VIOLATIONS, 2), ("boots", BOOTS, 0), ("unfinished node-h", UNFINISHED, 0))
_SHOWN = {KWH: ("energy", "Energy in 30 days", "kWh"), VIOLATIONS: ("promises", "Broken promises", "%")}


def rows_of(runs: Runs) -> Iterator[Row]:
    """For each value of each sweep the paper's point, then the mean over all; of readings one row over their points."""
    if not runs.by_point:
        return
    if runs.setting.reading:
        yield _row(runs, "all", "", runs.points())
        return
    for sweep, chosen in SWEEPS.items():
        for place, points in runs.at_each(sweep):
            shown = [point for point in points if chosen.kept(point)]
            if shown:
                yield _row(runs, sweep, f"{place:g}", shown)
            if len(points) > 1 or not shown:
                yield _row(runs, f"{sweep}, all", f"{place:g}", points)


def _row(runs: Runs, sweep: str, place: str, points: Sequence[Point]) -> Row:
    cells: dict[str, str | int | float | None] = {
        "setting": runs.setting.name, "sweep": sweep, "at": place, "points": len(points),
    }  # fmt: skip
    for policy in POLICIES:
        for name, figure, decimals in _COLUMNS:
            there = _figures(runs, policy, figure, points)
            cells[f"{policy} {name}"] = round(mean(there), decimals) if there else None
            if figure == KWH:
                cells[f"{policy} +-"] = round(interval(there).half_width) if len(there) > 1 else None
    sesp, pemp = (_figures(runs, policy, KWH, points) for policy in (SESP, PEMP))
    less = [one - other for one, other in zip(sesp, pemp, strict=True)] if sesp and pemp else []
    cells["SESP less PEMP %"] = round(saved_percent(runs, points), 1) if less else None
    cells["kWh from"] = round(interval(less).low) if len(less) > 1 else None
    cells["kWh to"] = round(interval(less).high) if len(less) > 1 else None
    return cells


def _figures(runs: Runs, policy: str, figure: str, points: Sequence[Point]) -> list[float]:
    """One figure at each of these points; none where the policy was not played at all of them."""
    if not set(points) <= set(runs.points(policy)):
        return []
    return [runs.at(point, policy, figure) for point in points]


def pictures_of(runs: Runs) -> dict[str, str]:
    """Energy and broken promises along each sweep, as in the paper and as means of all points with their intervals.

    None of a sweep of which a single place was played.
    """
    if runs.setting.reading or not runs.by_point:
        return {}
    pictures = {}
    for figure, (short, title, unit) in _SHOWN.items():
        for sweep, chosen in SWEEPS.items():
            name = f"{short}-{runs.setting.name}-{sweep}"
            papers = _lines(runs, figure, [(chosen.value(point), [point]) for point in runs.along(sweep)])
            if has_course(papers) and runs.shows(sweep):
                pictures[name] = line_chart(title, chosen.title, unit, papers)
            every = _lines(runs, figure, runs.at_each(sweep))
            if has_course(every):
                pictures[f"{name}-all"] = line_chart(f"{title}, all points", chosen.title, unit, every)
    return pictures


def _lines(runs: Runs, figure: str, places: Sequence[tuple[float, Sequence[Point]]]) -> list[Line]:
    """A line a policy, also where it was played nowhere: each has the same colour in all pictures."""
    lines = []
    for policy in runs.setting.policies:
        found = [(x, _figures(runs, policy, figure, points)) for x, points in places]
        lines.append(Line(policy, tuple((x, interval(values)) for x, values in found if values)))
    return lines
