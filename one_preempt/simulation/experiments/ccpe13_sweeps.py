"""CCPE13 Figures 6 to 8: utilization, preemptions and makespans under MLIP, MOML and MOV over three sweeps.

The figures print no numbers; the claims are what the text says of them. Those that a scouting did not see under any
reading are told and not required.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from one_preempt.simulation.experiments.ccpe13_workloads import (
    BEST_EFFORT,
    CHOICES,
    DEADLINE,
    LOCALS,
    SWEEPS,
    judged,
    nothing_whole,
    of_whole_replications,
    places_of,
    played_as,
    promises_kept,
    simulate,
    tasks,
)
from one_preempt.simulation.experiments.experiment import Claim, ExperimentResult, Row
from one_preempt.simulation.experiments.replicated import ReplicatedExperiment, ResultTable, TaskResult
from one_preempt.simulation.experiments.sweep_pictures import lines_of
from one_preempt.simulation.plots.charts import line_chart
from one_preempt.simulation.probes.statistics import correlation, mean

MLIP, MOML, MOV = "MLIP", "MOML", "MOV"
POLICIES = (MLIP, MOML, MOV)
PREEMPTIONS, UTILIZATION, MAKESPAN = "preemptions", "utilization", "best_effort_makespan_s"


class Shown(Struct, frozen=True):
    """How people see a figure: the title of its picture, its unit, how many of these one is, and a short name."""

    title: str
    unit: str
    scale: float
    name: str


SHOWN = {
    PREEMPTIONS: Shown("Preempted leases", "leases", 1.0, "preemptions"),
    UTILIZATION: Shown("Utilization", "%", 100.0, "utilization"),
    MAKESPAN: Shown("Mean makespan of best-effort leases", "hours", 1 / 3600, "makespan"),
}
# Where an order is to hold at most points: 14 of the 16 of the full experiment.
MOST_POINTS = 14 / 16
NEARLY_LINEAR = 0.9
PEAK_PER_CENT = 20

Means = dict[str, dict[str, dict[str, float]]]
Holds = Callable[[dict[str, float]], bool]


def conclude(results: Sequence[TaskResult]) -> ExperimentResult:
    """A row a point, and the claims."""
    table = of_whole_replications(results, POLICIES)
    if not table.results:
        return nothing_whole("ccpe13-sweeps", len(results))
    means = {
        figure: {
            point: {policy: mean(table.values(point, policy, figure)) for policy in POLICIES} for point in table.points
        }
        for figure in SHOWN
    }
    claims = judged(table, [*_orders(means), *_trends(means), promises_kept(table.results)])
    rows = tuple(_row(point, means) for point in table.points)
    pictures = {
        f"{shown.name}-{sweep}": _picture(table, figure, sweep) for figure, shown in SHOWN.items() for sweep in SWEEPS
    }
    return ExperimentResult("ccpe13-sweeps", rows, claims, pictures)


def _orders(means: Means) -> list[Claim]:
    """Which policy has more, point by point."""
    return [
        _at_most_points(
            "preemptions MLIP <= MOML <= MOV", means[PREEMPTIONS], lambda at: at[MLIP] <= at[MOML] <= at[MOV]
        ),
        _at_most_points("utilization MOV >= MLIP", means[UTILIZATION], lambda at: at[MOV] >= at[MLIP]),
        _at_most_points(
            "utilization MOV >= MOML >= MLIP", means[UTILIZATION], lambda at: at[MOV] >= at[MOML] >= at[MLIP], False
        ),
        _at_most_points(
            "makespan of best-effort leases: MLIP least",
            means[MAKESPAN],
            lambda at: at[MLIP] == min(at.values()),
            False,
        ),
    ]


def _at_most_points(text: str, means: dict[str, dict[str, float]], holds: Holds, required: bool = True) -> Claim:
    count = sum(map(holds, means.values()))
    return Claim(text, "at all points", f"at {count} of {len(means)}", count >= MOST_POINTS * len(means), required)


def _trends(means: Means) -> list[Claim]:
    """How figures go along a sweep, under the policy for which this is least so."""
    peaks = {
        policy: max(_along(means[MAKESPAN], BEST_EFFORT, policy), key=lambda place: place[1])[0] for policy in POLICIES
    }
    told = ", ".join(f"{policy} {place:g} %" for policy, place in peaks.items())
    return [
        _linear("preemptions grow nearly linearly with the best-effort share", means[PREEMPTIONS], BEST_EFFORT, 1),
        _linear("preemptions grow nearly linearly with the local share", means[PREEMPTIONS], LOCALS, 1),
        _linear("utilization falls nearly linearly with the local share", means[UTILIZATION], LOCALS, -1),
        _linear("utilization rises with the deadline-constraint share", means[UTILIZATION], DEADLINE, 1),
        _linear("makespan rises with the local share", means[MAKESPAN], LOCALS, 1),
        Claim(
            f"makespan has its peak at {PEAK_PER_CENT} % best-effort requests", f"{PEAK_PER_CENT} %", told,
            all(place == PEAK_PER_CENT for place in peaks.values()), required=False,
        ),
    ]  # fmt: skip


def _linear(text: str, means: dict[str, dict[str, float]], sweep: str, sign: int) -> Claim:
    found = [sign * correlation(*zip(*_along(means, sweep, policy), strict=True)) for policy in POLICIES]
    told = f"correlation at least {min(found):.2f}" if sign > 0 else f"correlation at most {-min(found):.2f}"
    return Claim(text, "figure", told, min(found) >= NEARLY_LINEAR, required=False)


def _along(means: dict[str, dict[str, float]], sweep: str, policy: str) -> list[tuple[float, float]]:
    return [(place, means[point][policy]) for point, place in places_of(list(means), sweep).items()]


def _row(point: str, means: Means) -> Row:
    cells: dict[str, str | float] = {"point": point}
    for figure, shown in SHOWN.items():
        for policy in POLICIES:
            cells[f"{shown.name} {policy}"] = float(f"{shown.scale * means[figure][point][policy]:.4g}")
    return cells


def _picture(table: ResultTable, figure: str, sweep: str) -> str:
    shown = SHOWN[figure]
    lines = lines_of(table, POLICIES, figure, places_of(table.points, sweep), shown.scale)
    return line_chart(shown.title, f"{sweep} requests (%)", shown.unit, lines)


EXPERIMENT = ReplicatedExperiment(
    name="ccpe13-sweeps",
    description="utilization, preemptions and makespans under MLIP, MOML and MOV over three sweeps of the workload",
    paper="Salehi, Javadi, Buyya 2013, Figures 6 to 8",
    choices=CHOICES,
    tasks=lambda small: tasks(POLICIES, small),
    simulate=simulate,
    conclude=conclude,
    in_parts=True,
    played_as=played_as,
    shares_with=("ccpe13-table1",),
)
