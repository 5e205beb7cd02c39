"""What PEMP12 says of its five policies, and what the project asks of its own, judged on runs.

Sweeps are told as means over all points of a value, with their intervals: the paper draws other points of them without
saying which. Where runs are missing, verdicts are given only as far as those missing could not turn them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from one_preempt.simulation.experiments.experiment import Claim, ExperimentResult, Row
from one_preempt.simulation.experiments.pemp12_workloads import HIGHEST_RHO, RHOS, THETAS, Point, point_named
from one_preempt.simulation.experiments.replicated import TaskResult
from one_preempt.simulation.plots.charts import Line, line_chart
from one_preempt.simulation.probes.statistics import interval, mean, paired

NAME = "pemp12-energy"
ALWAYS_ON, GESP, SESP, PEMP, LOOK_AHEAD = "always-on", "GESP", "SESP", "PEMP", "look-ahead"
POLICIES = (LOOK_AHEAD, PEMP, SESP, GESP, ALWAYS_ON)
PAPERS = (PEMP, SESP, GESP, ALWAYS_ON)
KWH, VIOLATIONS = "kwh", "violations_percent"
PUBLISHED_ALWAYS_ON_KWH, KWH_TOLERANCE = 43_131, 1
MOST_KWH_AT_30, MOST_VIOLATIONS, MOST_ABOVE_SESP = 12_500, 0.2, 1.0
HIGH_RHO = 25
GESP_LEAST, GESP_MOST_VIOLATIONS, PEMP_KEPT = 65 / 72, 70 / 72, 22 / 24
# The t-tests of the paper: SESP less PEMP, kWh, over the points of a sweep.
PUBLISHED_T_TESTS = {"delta": (193.5, 2830.1, "p < 0.001"), "theta": (360.8, 2030.0, "p = 0.04")}
PUBLISHED_SAVING = "about 18 % above 25 %, alike below"

Value = Callable[[Point], float]
SWEEPS: Mapping[str, Value] = {
    "rho": lambda point: float(point.rho),
    "delta": lambda point: float(point.delta_h),
    "theta": lambda point: sum(THETAS[point.theta]) / 2,
}
_SWEEP_TITLES = {"rho": "reservations (% of 144 nodes)", "delta": "mean duration (h)", "theta": "mean size (nodes)"}


@dataclass(frozen=True, slots=True)
class Setting:
    """Points that belong together: one month and one kind of reservations, or one reading of the paper.

    `gauges`: all lines are required of it; else only those of the project's own policy, or, for a `reading`, none.
    """

    name: str
    points: tuple[Point, ...]
    policies: tuple[str, ...] = POLICIES
    gauges: bool = False
    reading: bool = False


@dataclass(slots=True)
class Runs:
    """What came of one setting: by point and policy. Points of which any run is missing are left out."""

    setting: Setting
    results: Sequence[TaskResult]
    by_point: dict[Point, dict[str, Mapping[str, float]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for result in self.results:
            name, point = result.task.point.split(" ")
            if name == self.setting.name:
                figures = {figure: float(value) for figure, value in result.figures.items() if value is not None}
                self.by_point.setdefault(point_named(point), {})[result.task.policy] = figures
        wanted = set(self.setting.policies)
        self.by_point = {point: found for point, found in self.by_point.items() if found.keys() >= wanted}

    def at(self, point: Point, policy: str, figure: str) -> float:
        """One figure."""
        return self.by_point[point][policy][figure]

    def points(self, least_rho: int = 0) -> list[Point]:
        """Those there are, of so much work at least."""
        return [point for point in self.setting.points if point in self.by_point and point.rho >= least_rho]

    def missing(self, least_rho: int = 0) -> int:
        """How many are not there."""
        return sum(point.rho >= least_rho for point in self.setting.points) - len(self.points(least_rho))


def claims_of(runs: Runs) -> Iterator[Claim]:
    """All that is said of the points of one setting."""
    if runs.setting.reading or not runs.by_point:
        return
    gauges = runs.setting.gauges
    if gauges:
        yield _always_on(runs)
    if {GESP, SESP} <= set(runs.setting.policies):
        yield _counted(runs, "GESP takes the least energy of the paper's policies", GESP_LEAST, _gesp_least, gauges)
        yield _counted(runs, "GESP breaks the most promises", GESP_MOST_VIOLATIONS, _gesp_most, gauges)
        yield _counted(
            runs, "PEMP takes less than SESP at rho 25 and 30 %, with at most 1 point more broken promises", PEMP_KEPT,
            _pemp_kept, gauges, HIGH_RHO,
        )  # fmt: skip
        yield _saving(runs)
        yield from (_t_test(runs, sweep) for sweep in PUBLISHED_T_TESTS)
    yield _counted(runs, "look-ahead takes no more energy than PEMP", 1.0, _own_least, True)
    yield _bound(
        runs, f"look-ahead takes at most {MOST_KWH_AT_30:,} kWh at rho 30 %", KWH, MOST_KWH_AT_30, gauges, HIGHEST_RHO
    )
    yield _bound(runs, f"look-ahead breaks at most {MOST_VIOLATIONS} % of the promises", VIOLATIONS, MOST_VIOLATIONS)


def _always_on(runs: Runs) -> Claim:
    taken = [runs.at(point, ALWAYS_ON, KWH) for point in runs.points()]
    holds = all(abs(kwh - PUBLISHED_ALWAYS_ON_KWH) <= KWH_TOLERANCE for kwh in taken)
    told = f"{min(taken):,.1f} to {max(taken):,.1f} kWh"
    return Claim(f"{runs.setting.name}: always on", f"{PUBLISHED_ALWAYS_ON_KWH:,} kWh", told, holds)


def _counted(
    runs: Runs, text: str, share: float, holds_at: Callable[[Runs, Point], bool], required: bool, least_rho: int = 0
) -> Claim:
    """It holds at so great a share of the points."""
    points, missing = runs.points(least_rho), runs.missing(least_rho)
    kept = sum(holds_at(runs, point) for point in points)
    wanted = share * (len(points) + missing)
    holds = True if kept >= wanted - 1e-9 and points else False if kept + missing < wanted - 1e-9 else None
    published = f"at least {share * (len(points) + missing):.0f} of {len(points) + missing}"
    return Claim(f"{runs.setting.name}: {text}", published, f"{kept} of {len(points)}", holds, required)


def _gesp_least(runs: Runs, point: Point) -> bool:
    return all(runs.at(point, GESP, KWH) < runs.at(point, other, KWH) for other in PAPERS if other != GESP)


def _gesp_most(runs: Runs, point: Point) -> bool:
    broken = runs.at(point, GESP, VIOLATIONS)
    return all(broken > runs.at(point, other, VIOLATIONS) for other in PAPERS if other != GESP)


def _pemp_kept(runs: Runs, point: Point) -> bool:
    takes_less = runs.at(point, PEMP, KWH) < runs.at(point, SESP, KWH)
    return takes_less and runs.at(point, PEMP, VIOLATIONS) <= runs.at(point, SESP, VIOLATIONS) + MOST_ABOVE_SESP


def _own_least(runs: Runs, point: Point) -> bool:
    return runs.at(point, LOOK_AHEAD, KWH) <= runs.at(point, PEMP, KWH)


def _bound(runs: Runs, text: str, figure: str, most: float, required: bool = True, least_rho: int = 0) -> Claim:
    found = [runs.at(point, LOOK_AHEAD, figure) for point in runs.points(least_rho)]
    told = f"{max(found):,.2f} at most" if found else "not played"
    holds = None if not found else False if max(found) > most else True if not runs.missing(least_rho) else None
    return Claim(f"{runs.setting.name}: {text}", f"{most:,}", told, holds, required)


def saved_percent(runs: Runs, points: Sequence[Point]) -> float:
    """By how much PEMP takes less than SESP over all of these points."""
    taken = {policy: sum(runs.at(point, policy, KWH) for point in points) for policy in (PEMP, SESP)}
    return 100 * (1 - taken[PEMP] / taken[SESP])


def _saving(runs: Runs) -> Claim:
    by_rho = {rho: [point for point in runs.points() if point.rho == rho] for rho in sorted(RHOS)}
    told = {rho: saved_percent(runs, points) for rho, points in by_rho.items() if points}
    text = ", ".join(f"{saved:.1f} % at {rho} %" for rho, saved in told.items())
    high = [saved for rho, saved in told.items() if rho > HIGH_RHO]
    holds = abs(mean(high) - 18) <= 5 and all(abs(told[rho]) <= 5 for rho in told if rho < 25) if high else None
    # A mean of what is there may be turned by what is not.
    holds = None if runs.missing() else holds
    return Claim(f"{runs.setting.name}: PEMP's saving against SESP", PUBLISHED_SAVING, text, holds, required=False)


def _t_test(runs: Runs, sweep: str) -> Claim:
    """SESP less PEMP, paired over the values of a sweep: each is the mean of all points that have it."""
    low, high, p = PUBLISHED_T_TESTS[sweep]
    text = f"{runs.setting.name}: SESP less PEMP over the sweep of {sweep}, 95 %"
    published = f"{low:g} to {high:g} kWh, {p}"
    means = {
        policy: [mean(values) for _, values in _by_value(runs, SWEEPS[sweep], policy, KWH)] for policy in (SESP, PEMP)
    }
    if len(means[SESP]) < 2:
        return Claim(text, published, "too few points", None, required=False)
    test = paired(means[SESP], means[PEMP])
    ours = test.difference
    holds = None if runs.missing() else low <= ours.mean <= high and test.p < 0.05
    told = f"{ours.low:.1f} to {ours.high:.1f} kWh, p = {test.p:.2g}"
    return Claim(text, published, told, holds, required=False)


def _by_value(runs: Runs, value: Value, policy: str, figure: str) -> list[tuple[float, list[float]]]:
    """All points at each value of a sweep."""
    found: dict[float, list[float]] = {}
    for point in runs.points():
        found.setdefault(value(point), []).append(runs.at(point, policy, figure))
    return sorted(found.items())


def rows_of(runs: Runs) -> Iterator[Row]:
    """A row a value of each sweep; of readings one row over all their points."""
    if not runs.by_point:
        return
    if runs.setting.reading:
        yield _row(runs, "all", "", runs.points())
        return
    for sweep, value in SWEEPS.items():
        for place in sorted({value(point) for point in runs.points()}):
            yield _row(runs, sweep, f"{place:g}", [point for point in runs.points() if value(point) == place])


def _row(runs: Runs, sweep: str, place: str, points: Sequence[Point]) -> Row:
    cells: dict[str, str | int | float | None] = {
        "setting": runs.setting.name, "sweep": sweep, "at": place, "points": len(points),
    }  # fmt: skip
    played = runs.setting.policies
    for policy in POLICIES:
        for figure, unit in ((KWH, "kWh"), (VIOLATIONS, "broken %")):
            there = [runs.at(point, policy, figure) for point in points] if policy in played else []
            cells[f"{policy} {unit}"] = round(mean(there), 2 if figure == VIOLATIONS else 0) if there else None
            if figure == KWH:
                cells[f"{policy} +-"] = round(interval(there).half_width) if len(there) > 1 else None
    both = {PEMP, SESP} <= set(played)
    less = [runs.at(point, SESP, KWH) - runs.at(point, PEMP, KWH) for point in points] if both else []
    cells["SESP less PEMP %"] = round(saved_percent(runs, points), 1) if both else None
    cells["kWh from"] = round(interval(less).low) if len(less) > 1 else None
    cells["kWh to"] = round(interval(less).high) if len(less) > 1 else None
    published = PUBLISHED_T_TESTS.get(sweep)
    cells["published from"] = published[0] if published else None
    cells["published to"] = published[1] if published else None
    return cells


def pictures_of(runs: Runs) -> dict[str, str]:
    """Energy and broken promises along each sweep, with intervals over the points of a value."""
    if runs.setting.reading or not runs.by_point:
        return {}
    shown = {KWH: ("energy", "Energy in 30 days", "kWh"), VIOLATIONS: ("promises", "Broken promises", "%")}
    return {
        f"{short}-{runs.setting.name}-{sweep}": line_chart(
            title, _SWEEP_TITLES[sweep], unit,
            [
                Line(policy, tuple((x, interval(values)) for x, values in _by_value(runs, value, policy, figure)))
                for policy in runs.setting.policies
            ],
        )
        for figure, (short, title, unit) in shown.items()
        for sweep, value in SWEEPS.items()
    }  # fmt: skip


def concluded(settings: Sequence[Setting], results: Sequence[TaskResult]) -> ExperimentResult:
    """All rows, claims and pictures; nothing is judged of the small experiment."""
    small = any(result.task.small for result in results)
    rows: list[Row] = []
    claims: list[Claim] = []
    pictures: dict[str, str] = {}
    for setting in settings:
        runs = Runs(setting, results)
        rows += rows_of(runs)
        claims += claims_of(runs)
        pictures |= pictures_of(runs)
    if small:
        claims = [Claim(one.text, one.published, one.ours, None, one.required) for one in claims]
    return ExperimentResult(NAME, tuple(rows), tuple(claims), pictures)
