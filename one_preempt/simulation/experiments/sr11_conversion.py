"""SR11 Table 2: how many reservations are rejected, and that none is where they may become best-effort leases."""

from __future__ import annotations

from collections.abc import Sequence

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

REFUSE, QUEUE = "rejected", "converted to best effort"
PUBLISHED_REJECTED = {10: 6, 20: 8, 30: 12, 40: 16, 50: 20}
_SETTING = {REFUSE: "refuse", QUEUE: "queue"}
_REJECTED, _COMPLETED = "rejected", "completed"


def simulate(task: Task) -> Figures:
    """How many leases were rejected and how many completed."""
    workload = sr11_leases.workload(int(task.point), task.replication, None)
    played = play_whole(Trial(workload, sr11_leases.site(), sr11_leases.settings(_SETTING[task.policy])))
    told = played.figures.everybody.acceptance
    return {_REJECTED: told.rejected, _COMPLETED: told.completed, REFUSED_PLANS: played.figures.refused_plans}


def conclude(results: Sequence[TaskResult]) -> ExperimentResult:
    """A row a sample size, and the two claims over all workloads."""
    table = ResultTable(results)
    rejected = {
        policy: [value for point in table.points for value in table.values(point, policy, _REJECTED)]
        for policy in (REFUSE, QUEUE)
    }
    completed = all(value == int(point) for point in table.points for value in table.values(point, QUEUE, _COMPLETED))
    claims = (
        Claim(
            "without conversion reservations are rejected",
            "6, 8, 12, 16, 20",
            ", ".join(f"{mean(table.values(point, REFUSE, _REJECTED)):g}" for point in table.points),
            sum(rejected[REFUSE]) > 0,
        ),
        Claim(
            "with conversion none is", "0, 0, 0, 0, 0", f"at most {max(rejected[QUEUE]):g}", max(rejected[QUEUE]) == 0
        ),
        Claim("all leases are served with conversion", "", "all" if completed else "not all", completed),
    )
    rows = tuple(_row(table, point) for point in table.points)
    return ExperimentResult("sr11-conversion", rows, claims, {"rejected": _picture(table)})


def _row(table: ResultTable, point: str) -> Row:
    return {
        "leases": int(point),
        "rejected_without": mean(table.values(point, REFUSE, _REJECTED)),
        "rejected_with": mean(table.values(point, QUEUE, _REJECTED)),
        "published_rejected_without": PUBLISHED_REJECTED[int(point)],
        "published_rejected_with": 0,
    }


def _picture(table: ResultTable) -> str:
    lines = lines_of(table, (REFUSE, QUEUE), _REJECTED, {point: float(point) for point in table.points})
    return line_chart("Rejected reservations", "leases", "rejected", lines)


EXPERIMENT = ReplicatedExperiment(
    name="sr11-conversion",
    description="how many reservations are rejected, and how many when they may become best-effort leases instead",
    paper="Shrivastava, Bhilare 2011, Table 2",
    choices=sr11_leases.CHOICES,
    tasks=lambda small: sr11_leases.tasks((REFUSE, QUEUE), small),
    simulate=simulate,
    conclude=conclude,
)
