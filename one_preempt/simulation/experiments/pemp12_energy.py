"""PEMP12 section IV: what five energy policies take in 30 days, and how many promised waits they break.

Over rho, delta and theta; on other months; and under other readings of what the paper leaves open.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.simulation.experiments.experiment import Claim, ExperimentResult, Row
from one_preempt.simulation.experiments.pemp12_claims import HIGH_RHO, claims_of
from one_preempt.simulation.experiments.pemp12_rule_bases import AS_SHIPPED, RULE_BASES
from one_preempt.simulation.experiments.pemp12_runs import GESP, LOOK_AHEAD, PEMP, SESP, Runs, Setting
from one_preempt.simulation.experiments.pemp12_tables import pictures_of, rows_of
from one_preempt.simulation.experiments.pemp12_trials import BEGIN_S, Reading, played
from one_preempt.simulation.experiments.pemp12_workloads import (
    HIGHEST_RHO,
    LEAD_S,
    LIGHTER_MONTHS,
    LOG_FILE,
    MONTHS,
    RESERVATIONS_FILE,
    SEED,
    SLICE_FILE,
    Point,
    TraceFolder,
    best_effort,
    both,
    point_named,
    points,
    recorded_reservations,
    reservations,
)
from one_preempt.simulation.experiments.replicated import Figures, ReplicatedExperiment, Task, TaskResult
from one_preempt.simulation.workload.workload import SECONDS_PER_DAY, SECONDS_PER_HOUR

NAME = "pemp12-energy"
FILES, DRAWN, DRAWN_HIGH_RHO = "files", "drawn", "drawn-high-rho"
CHOICES = {
    "nodes": "512 of 117 W, one VM each; all are on until the first request comes, from then those needed",
    "boots": "120 s at 117 W, counted for every policy; shutting down takes no time",
    "jobs": "5108 of 30 days: processors / 8 nodes; cut to the requested time; what never ran is left out",
    "run times": "known in advance",
    "backfilling": "aggressive",
    "suspending": "32 s, and 32 s to resume",
    "rho": "a share of 144 nodes x 30 days",
    "lead": "reservations are known 24 hours ahead",
    "binding": "PEMP, SESP at submission, to woken hosts and those on with the fewest leases; look-ahead later",
    "binding under GESP": "at submission, to woken hosts and those free with the most leases",
    "waiting under GESP": "hosts are woken, and stay on, for reservations alone",
    "violation risk": "by whole run times, and by the time in which requests were not served",
    "utilization": "what is left of what runs and of what waits",
    "rule base": "the project's own (docs/energy/rule-base.md), with risk peaks at 0, 1/10, 1/5 and 2/5",
    "consolidation": "moves reservations, no running request; hosts they cannot leave sleep until they start",
    "periodic question": "every 5 minutes",
    "promise": "all waiting of a request, that after preemptions included, is at most 5 mean run times",
    "energy": "until the end of the 30th day",
    "drawn reservations": f"seed {SEED} on the slice, {', '.join(map(str, MONTHS.values()))} on the other months",
}
# A simulation takes minutes. The first 24 points have every delta with every rho and every theta; the 24 with a high
# rho, of which something is said as well, are others in part. On other months it is asked of our own policy alone
# whether it takes no more than PEMP.
DRAWN_POINTS, MONTH_POINTS = 24, 4
MONTH_POLICIES = (LOOK_AHEAD, PEMP)
SMALL_POINTS = (Point(10, 1, "small"),)
AS_READ = Reading()


class OtherReading(Struct, frozen=True):
    """A line of the sensitivity table; `policies` are those that read otherwise by it, and who is compared to them."""

    name: str
    lead_s: int = LEAD_S
    as_requested: bool = False
    reading: Reading = AS_READ
    policies: tuple[str, ...] = (LOOK_AHEAD, PEMP, SESP)


# Look-ahead binds late whatever is said, looks after its queue by that question alone, and has no rules.
READINGS = (
    OtherReading("as-read"),
    OtherReading("lead-6h", lead_s=6 * SECONDS_PER_HOUR),
    OtherReading("lead-48h", lead_s=2 * SECONDS_PER_DAY),
    OtherReading("bound-at-start", reading=Reading(bound_at_start=True), policies=(PEMP, SESP)),
    OtherReading("packed", reading=Reading(packed=True), policies=(PEMP, SESP)),
    OtherReading("gesp-as-on-a-cloud", reading=Reading(strands=False), policies=(GESP,)),
    OtherReading("not-periodic", reading=Reading(period_s=30 * SECONDS_PER_DAY), policies=(PEMP, SESP)),
    OtherReading("requested-times", as_requested=True),
    OtherReading("suspending-161s", reading=Reading(suspend_s=161)),
    *(
        OtherReading(f"rules-{name}", reading=Reading(rule_base=name), policies=(PEMP, SESP))
        for name in RULE_BASES
        if name != AS_SHIPPED
    ),
)
READING_POINTS = tuple(
    Point(HIGHEST_RHO, delta_h, theta) for delta_h, theta in ((1, "small"), (2, "medium"), (3, "large"), (4, "small"))
)
_READINGS = {one.name: one for one in READINGS}


def settings(traces: TraceFolder | None) -> list[Setting]:
    """What is played: first the files, or what stands for them."""
    everything = tuple(points())
    readings = [Setting(one.name, READING_POINTS, one.policies, reading=True) for one in READINGS]
    if traces is None:
        return [Setting(DRAWN, everything, gauges=False), *readings]
    files = [Setting(FILES, everything, gauges=True)] if traces.has_reservations else []
    months = [
        Setting(f"day-{day}", everything[:MONTH_POINTS], MONTH_POLICIES, in_reach=day in LIGHTER_MONTHS)
        for day in MONTHS
    ]
    high = tuple(point for point in everything if point.rho >= HIGH_RHO)
    drawn = [
        Setting(DRAWN, everything[:DRAWN_POINTS], gauges=True),
        Setting(DRAWN_HIGH_RHO, high, (PEMP, SESP), gauges=True),
    ]
    return [*files, *(months if traces.has_log else []), *drawn, *readings]


def tasks(traces: TraceFolder | None, small: bool) -> list[Task]:
    """Point by point, so that one may stop after any number of points and has all policies of them."""
    wanted = settings(traces)
    if small:
        wanted = [replace(wanted[0], points=SMALL_POINTS)]
    return [
        Task(f"{setting.name} {point.name}", 0, policy, small)
        for setting in wanted
        for point in setting.points
        for policy in setting.policies
    ]


def simulate(traces: TraceFolder | None, task: Task) -> Figures:
    """One policy on one workload."""
    name, point_name = task.point.split(" ")
    point, other = point_named(point_name), _READINGS.get(name, READINGS[0])
    day = int(name.removeprefix("day-")) if name.startswith("day-") else 0
    requests = best_effort(traces, day, small=task.small, as_requested=other.as_requested)
    if traces is not None and traces.has_reservations and (name == FILES or name in _READINGS) and not task.small:
        reserved = recorded_reservations(traces, point, lead_s=other.lead_s)
    else:
        reserved = reservations(point, MONTHS.get(day, SEED), small=task.small, lead_s=other.lead_s)
    return played(both(requests, reserved, BEGIN_S), task.policy, other.reading, task.small)


def played_as(traces: TraceFolder | None, task: Task) -> Task:
    """What is read as the paper is read is no other simulation than that of the reservations themselves.

    Nor is another rule base under a policy that has none, or the same point for another of its claims.
    """
    name, point = task.point.split(" ")
    if name == DRAWN_HIGH_RHO:
        return replace(task, point=f"{DRAWN} {point}")
    other = _READINGS.get(name)
    if other is None:
        return task
    if task.policy != PEMP:
        other = replace(other, reading=replace(other.reading, rule_base=AS_READ.rule_base))
    as_the_others = READINGS[0]
    if replace(other, name=as_the_others.name, policies=as_the_others.policies) != as_the_others:
        return task
    recorded = traces is not None and traces.has_reservations
    return replace(task, point=f"{FILES if recorded else DRAWN} {point}")


def concluded(wanted: Sequence[Setting], results: Sequence[TaskResult]) -> ExperimentResult:
    """All rows, claims and pictures; nothing is judged of the small experiment."""
    rows: list[Row] = []
    claims: list[Claim] = []
    pictures: dict[str, str] = {}
    for setting in wanted:
        runs = Runs(setting, results)
        rows += rows_of(runs)
        claims += claims_of(runs)
        pictures |= pictures_of(runs)
    if not rows:
        return ExperimentResult(NAME, ({"simulations played": 0},))
    if any(result.task.small for result in results):
        claims = [replace(one, holds=None) for one in claims]
    return ExperimentResult(NAME, tuple(rows), tuple(claims), pictures)


def over(folder: Path) -> ReplicatedExperiment:
    """The experiment over the traces in a folder. Raises `OnePreemptError` where the slice is not there."""
    return _experiment(TraceFolder(folder))


def _experiment(traces: TraceFolder | None) -> ReplicatedExperiment:
    def conclude(results: Sequence[TaskResult]) -> ExperimentResult:
        return concluded(settings(traces), results)

    return ReplicatedExperiment(
        name=NAME,
        description="kWh and broken promises under PEMP, SESP, GESP, always-on and look-ahead over rho, delta, theta",
        paper="Salehi, Krishna, Deepak, Buyya 2012, section IV",
        choices=CHOICES | _sources(traces),
        tasks=lambda small: tasks(traces, small),
        simulate=lambda task: simulate(traces, task),
        conclude=conclude,
        in_parts=True,
        played_as=lambda task: played_as(traces, task),
        over=over,
        traces=None if traces is None else traces.path,
    )


def _sources(traces: TraceFolder | None) -> dict[str, str]:
    """Where the workloads are from, by what is in the files and not by where they lie."""
    if traces is None:
        return {"log": f"drawn from Lublin99, seed {SEED}, with the number and the means of the slice's jobs"}
    return {
        name: hashlib.sha256((traces.path / name).read_bytes()).hexdigest()
        for name in (SLICE_FILE, RESERVATIONS_FILE, LOG_FILE)
        if (traces.path / name).is_file()
    }


EXPERIMENT = _experiment(None)
