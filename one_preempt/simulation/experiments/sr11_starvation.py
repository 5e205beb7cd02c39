"""SR11 Table 1: suspensions of a long best-effort lease among reservations, and its end, with and without the guard.

The guard: once the lease was suspended as often as it may be, no reservation is accepted that would suspend it again.
"""

from __future__ import annotations

from collections.abc import Sequence

from one_preempt.core.model.time import ms_to_seconds
from one_preempt.simulation.experiments import sr11_leases
from one_preempt.simulation.experiments.experiment import Claim, ExperimentResult, Row
from one_preempt.simulation.experiments.replicated import (
    REFUSED_PLANS,
    Figures,
    ReplicatedExperiment,
    ResultTable,
    Task,
    TaskResult,
)
from one_preempt.simulation.experiments.sweep_pictures import lines_of
from one_preempt.simulation.experiments.trial import Trial, play_whole
from one_preempt.simulation.plots.charts import line_chart
from one_preempt.simulation.probes.statistics import mean

LIMIT = 2
WITHOUT, WITH = "without the guard", f"at most {LIMIT} suspensions"
PUBLISHED_SUSPENSIONS = {10: 2, 20: 5, 30: 7, 40: 11, 50: 16}
_SUSPENSIONS, _END, _REJECTED = "suspensions", "end_s", "rejected"


def simulate(task: Task) -> Figures:
    """The best-effort lease's suspensions and end, and how many reservations were turned down."""
    limit = LIMIT if task.policy == WITH else None
    workload = sr11_leases.workload(int(task.point), task.replication, limit)
    played = play_whole(Trial(workload, sr11_leases.site(), sr11_leases.settings("refuse")))
    best_effort = played.result.records[0]
    assert best_effort.ended_at_ms is not None
    return {
        _SUSPENSIONS: best_effort.suspensions,
        _END: ms_to_seconds(best_effort.ended_at_ms),
        _REJECTED: played.figures.everybody.acceptance.rejected,
        REFUSED_PLANS: played.figures.refused_plans,
    }


def conclude(results: Sequence[TaskResult]) -> ExperimentResult:
    """A row a sample size, and the two claims over all workloads."""
    table = ResultTable(results)
    rows = tuple(_row(table, point) for point in table.points)
    most = max(value for point in table.points for value in table.values(point, WITH, _SUSPENSIONS))
    pairs = [
        pair
        for point in table.points
        for pair in zip(table.values(point, WITH, _END), table.values(point, WITHOUT, _END), strict=True)
    ]
    later = sum(with_s > without_s for with_s, without_s in pairs)
    claims = (
        Claim(f"no more than {LIMIT} suspensions with the guard", "2, 2, 2, 2, 2", f"at most {most:g}", most <= LIMIT),
        Claim(
            "the best-effort lease ends no later with the guard",
            "earlier in 5 of 5",
            f"earlier or at the same time in {len(pairs) - later} of {len(pairs)}",
            later == 0,
        ),
    )
    return ExperimentResult("sr11-starvation", rows, claims, {"suspensions": _picture(table)})


def _row(table: ResultTable, point: str) -> Row:
    return {
        "leases": int(point),
        "suspensions_without": mean(table.values(point, WITHOUT, _SUSPENSIONS)),
        "suspensions_with": mean(table.values(point, WITH, _SUSPENSIONS)),
        "most_suspensions_with": max(table.values(point, WITH, _SUSPENSIONS)),
        "end_h_without": round(mean(table.values(point, WITHOUT, _END)) / 3600, 2),
        "end_h_with": round(mean(table.values(point, WITH, _END)) / 3600, 2),
        "rejected_without": mean(table.values(point, WITHOUT, _REJECTED)),
        "rejected_with": mean(table.values(point, WITH, _REJECTED)),
        "published_suspensions_without": PUBLISHED_SUSPENSIONS[int(point)],
        "published_suspensions_with": LIMIT,
    }


def _picture(table: ResultTable) -> str:
    lines = lines_of(table, (WITHOUT, WITH), _SUSPENSIONS, {point: float(point) for point in table.points})
    return line_chart("Suspensions of the best-effort lease", "leases", "suspensions", lines)


EXPERIMENT = ReplicatedExperiment(
    name="sr11-starvation",
    description="suspensions of a long best-effort lease among reservations, and its end, with and without the guard",
    paper="Shrivastava, Bhilare 2011, Table 1",
    choices=sr11_leases.CHOICES,
    tasks=lambda small: sr11_leases.tasks((WITHOUT, WITH), small),
    simulate=simulate,
    conclude=conclude,
)
