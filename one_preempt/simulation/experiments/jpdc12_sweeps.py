"""JPDC12 Figures 5 to 8: preemptions, utilization, response times, migrations and rejections over four sweeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct

from one_preempt.simulation.experiments.experiment import ExperimentResult, Row
from one_preempt.simulation.experiments.jpdc12_claims import SweepResults, claims_of
from one_preempt.simulation.experiments.jpdc12_figures import (
    LOCAL_REJECTED,
    MIGRATED,
    REJECTED,
    RESPONSE_S,
    USEFUL,
    VM_PREEMPTIONS,
    simulate,
)
from one_preempt.simulation.experiments.jpdc12_workloads import (
    CHOICES,
    DURATIONS,
    EXTERNAL,
    LOCAL,
    POLICIES,
    SWEEPS,
    TWO_DAYS,
    VMS,
    Extent,
    place_of,
    played_as,
    tasks,
)
from one_preempt.simulation.experiments.replicated import ReplicatedExperiment, ResultTable, TaskResult
from one_preempt.simulation.experiments.sweep_pictures import has_course, lines_of
from one_preempt.simulation.plots.charts import line_chart
from one_preempt.simulation.probes.statistics import mean


class Shown(Struct, frozen=True):
    """How people see a figure: a column, the name and title of its picture, its unit, how many of these one is."""

    column: str
    name: str
    title: str
    unit: str
    scale: float = 1.0


SHOWN = {
    VM_PREEMPTIONS: Shown("VM preemptions", "preemptions", "Preempted VMs", "VMs"),
    USEFUL: Shown("utilization %", "utilization", "Utilization, 1 - overhead / computation", "%", 100.0),
    RESPONSE_S: Shown("AWRT s", "response", "Weighted response time of best-effort leases", "s"),
    MIGRATED: Shown("migrated %", "migrated", "Migratable leases that were migrated", "%", 100.0),
    REJECTED: Shown("rejected %", "rejected", "Rejected non-preemptable external requests", "%", 100.0),
    LOCAL_REJECTED: Shown("local rejected %", "local-rejected", "Rejected local requests", "%", 100.0),
}
ALONG = {
    VMS: "mean VMs of external requests",
    DURATIONS: "mean duration of external requests (s at 1 GIPS)",
    EXTERNAL: "external requests a second",
    LOCAL: "local requests a second",
}


def played_over(extent: Extent, name: str, description: str, choices: Mapping[str, str]) -> ReplicatedExperiment:
    """The four sweeps, with so many workloads that are so long."""
    return ReplicatedExperiment(
        name=name,
        description=description,
        paper="Salehi, Javadi, Buyya 2012, Figures 5 to 8",
        choices=choices,
        tasks=partial(tasks, extent),
        simulate=partial(simulate, extent),
        conclude=partial(conclude, extent, name),
        in_parts=True,
        played_as=played_as,
    )


def conclude(extent: Extent, name: str, results: Sequence[TaskResult]) -> ExperimentResult:
    """A row for each point and policy, and the claims, from what was played under all policies."""
    comparable = _under_all_policies(results)
    if not comparable:
        return ExperimentResult(name, ({"whole points": 0, "simulations played": len(results)},))
    table = ResultTable(comparable)
    by_sweep = [SweepResults(sweep, table, extent) for sweep in SWEEPS]
    rows = tuple(row for point in table.points for row in _rows(table, point))
    claims = tuple(claim for one in by_sweep for claim in claims_of(one))
    return ExperimentResult(name, rows, claims, dict(_pictures(by_sweep)))


def _under_all_policies(results: Sequence[TaskResult]) -> list[TaskResult]:
    """Those of workloads that every policy was given: others would not compare."""
    played = Counter((result.task.point, result.task.replication) for result in results)
    return [one for one in results if played[one.task.point, one.task.replication] == len(POLICIES)]


def _rows(table: ResultTable, point: str) -> Iterator[Row]:
    for policy in POLICIES:
        figures = {
            shown.column: float(f"{shown.scale * mean(table.values(point, policy, figure)):.4g}")
            for figure, shown in SHOWN.items()
        }
        workloads = len(table.values(point, policy, VM_PREEMPTIONS))
        yield {"point": point, "policy": policy, "workloads": workloads, **figures}


def _pictures(by_sweep: Sequence[SweepResults]) -> Iterator[tuple[str, str]]:
    for one in by_sweep:
        places = {point: place_of(point)[1] for point in one.points}
        for figure, shown in SHOWN.items():
            lines = lines_of(one.table, POLICIES, figure, places, shown.scale)
            if has_course(lines):
                yield f"{shown.name}-{one.sweep}", line_chart(shown.title, ALONG[one.sweep], shown.unit, lines)


EXPERIMENT = played_over(
    TWO_DAYS,
    "jpdc12-sweeps",
    "preemptions, utilization and response times in three clusters, by how a gateway splits requests",
    CHOICES,
)
