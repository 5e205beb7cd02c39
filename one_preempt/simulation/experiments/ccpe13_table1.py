"""CCPE13 Table I: by how much preemption lowers the rejection of local requests, and what it does to external ones.

The statistics are the paper's: t-tests over the points of a sweep (n = 5, 5, 6), each point the mean of its workloads.
Whether the published fall is in per cent or in points is not said, so both are told.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from one_preempt.simulation.experiments.ccpe13_workloads import (
    BEST_EFFORT,
    CHOICES,
    DEADLINE,
    LOCALS,
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
from one_preempt.simulation.probes.statistics import TTest, mean, paired, unpaired

NOP, MOML = "NOP", "MOML"
POLICIES = (NOP, MOML)
LOCAL_RATE, EXTERNAL_RATE = "local_rejection_rate", "external_rejection_rate"
SIGNIFICANT_P, INSIGNIFICANT_P = 0.01, 0.05


class Published(Struct, frozen=True):
    """One row of Table I: the fall with its 95 % interval and p, and the p of the external requests."""

    fall: float
    low: float
    high: float
    p: str
    external_p: float

    def contains(self, fall: float) -> bool:
        """Inside the published interval."""
        return self.low <= fall <= self.high


PUBLISHED = {
    BEST_EFFORT: Published(72.0, 51.1, 92.8, "0.001", 0.6),
    DEADLINE: Published(54.3, 35.0, 73.7, "0.001", 0.3),
    LOCALS: Published(58.2, 40.3, 75.9, "< 0.001", 0.6),
}


class Measured(Struct, frozen=True):
    """One sweep: the fall in per cent and in points, each against 0, and external rates with and without preemption."""

    per_cent: TTest
    points: TTest
    external: TTest


def measure(table: ResultTable, sweep: str) -> Measured:
    """The paper's statistics over the points of a sweep."""
    places = places_of(table.points, sweep)
    rates = {
        (policy, figure): [mean(table.values(point, policy, figure)) for point in places]
        for policy in (NOP, MOML)
        for figure in (LOCAL_RATE, EXTERNAL_RATE)
    }
    without, with_ = rates[NOP, LOCAL_RATE], rates[MOML, LOCAL_RATE]
    # Where nothing was rejected nothing can fall.
    relative = [100 * (1 - after / before) if before else 0.0 for before, after in zip(without, with_, strict=True)]
    return Measured(
        per_cent=paired(relative, [0.0] * len(relative)),
        points=paired([100 * rate for rate in without], [100 * rate for rate in with_]),
        external=unpaired(
            [100 * rate for rate in rates[MOML, EXTERNAL_RATE]], [100 * r for r in rates[NOP, EXTERNAL_RATE]]
        ),
    )


def conclude(results: Sequence[TaskResult]) -> ExperimentResult:
    """A row a sweep and reading, and the claims."""
    table = of_whole_replications(results, POLICIES)
    if not table.results:
        return nothing_whole("ccpe13-table1", len(results))
    measured = {sweep: measure(table, sweep) for sweep in PUBLISHED}
    claims = [claim for sweep in PUBLISHED for claim in _of_sweep(sweep, measured[sweep])]
    claims += [_near_published(measured), promises_kept(table.results)]
    rows = tuple(row for sweep in PUBLISHED for row in _rows(sweep, measured[sweep]))
    pictures = {f"local-rejection-{sweep}": _picture(table, sweep) for sweep in PUBLISHED}
    return ExperimentResult("ccpe13-table1", rows, judged(table, claims), pictures)


def _of_sweep(sweep: str, ours: Measured) -> list[Claim]:
    published = PUBLISHED[sweep]
    falls = ours.points.difference.mean > 0 and ours.points.p < SIGNIFICANT_P
    return [
        Claim(
            f"{sweep}: local rejection falls, p < {SIGNIFICANT_P}",
            f"p {published.p}",
            f"per cent: p = {ours.per_cent.p:.2g}; points: p = {ours.points.p:.2g}",
            falls and ours.per_cent.p < SIGNIFICANT_P,
        ),
        Claim(
            f"{sweep}: external rejection does not change significantly, unpaired p > {INSIGNIFICANT_P}",
            f"p = {published.external_p}",
            f"p = {ours.external.p:.2g}, difference {ours.external.difference.mean:.2f} points",
            ours.external.p > INSIGNIFICANT_P,
        ),
    ]


def _near_published(measured: dict[str, Measured]) -> Claim:
    """At least two of the three means inside the published intervals, in one of the two readings."""
    in_per_cent = sum(PUBLISHED[sweep].contains(ours.per_cent.difference.mean) for sweep, ours in measured.items())
    in_points = sum(PUBLISHED[sweep].contains(ours.points.difference.mean) for sweep, ours in measured.items())
    return Claim(
        "the mean fall lies inside the published interval in at least two sweeps, in one reading",
        "72.0, 54.3, 58.2",
        f"per cent: {in_per_cent} of 3; points: {in_points} of 3",
        max(in_per_cent, in_points) >= 2,
    )


def _rows(sweep: str, ours: Measured) -> list[Row]:
    published = PUBLISHED[sweep]
    return [
        {
            "sweep": sweep,
            "fall in": reading,
            "mean": round(test.difference.mean, 1),
            "from": round(test.difference.low, 1),
            "to": round(test.difference.high, 1),
            "p": float(f"{test.p:.2g}"),
            "published": published.fall,
            "published from": published.low,
            "published to": published.high,
        }
        for reading, test in (("per cent", ours.per_cent), ("points", ours.points))
    ]


def _picture(table: ResultTable, sweep: str) -> str:
    lines = lines_of(table, (NOP, MOML), LOCAL_RATE, places_of(table.points, sweep), 100)
    return line_chart("Rejected local requests", f"{sweep} requests (%)", "rejected (%)", lines)


EXPERIMENT = ReplicatedExperiment(
    name="ccpe13-table1",
    description="how much preemption lowers the rejection of local requests, over three sweeps of the workload",
    paper="Salehi, Javadi, Buyya 2013, Table I and Figure 5",
    choices=CHOICES,
    tasks=lambda small: tasks(POLICIES, small),
    simulate=simulate,
    conclude=conclude,
    in_parts=True,
    played_as=played_as,
    shares_with=("ccpe13-sweeps",),
)
