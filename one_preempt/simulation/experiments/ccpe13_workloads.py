"""The simulations of CCPE13 section 7: the workloads of its three sweeps, the site, and the scheduler.

`CHOICES` has everything that the paper leaves open. It was fixed before any run that is reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from one_preempt.configuration.settings import OverheadSettings, Settings, TimeSettings, VictimSettings
from one_preempt.core.model.lease import LeaseType
from one_preempt.core.model.modes_and_limits import Verification
from one_preempt.simulation.experiments.experiment import Claim, ExperimentResult
from one_preempt.simulation.experiments.replicated import REFUSED_PLANS, Figures, ResultTable, Task, TaskResult
from one_preempt.simulation.experiments.trial import Trial, play_whole
from one_preempt.simulation.probes.outcome import outcomes
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.cloud_state import StateChange
from one_preempt.simulation.simulated_cloud.durations import INSTANT, Durations
from one_preempt.simulation.simulator.result import Fate, SimulationResult
from one_preempt.simulation.simulator.site import Site, simulation_settings
from one_preempt.simulation.workload.annotate import (
    deadline_constraint_only,
    with_deadlines,
    with_origins,
    with_types,
)
from one_preempt.simulation.workload.lublin99 import TYPELESS, Lublin99
from one_preempt.simulation.workload.scaling import adjusted_to_means, with_span
from one_preempt.simulation.workload.workload import SECONDS_PER_DAY, MachineSet, Workload

NODES = 32
MEMORY_MIB = 1024
REQUESTS, SMALL_REQUESTS = 3000, 40
SPAN_S = 14 * SECONDS_PER_DAY
MEAN_VMS, MEAN_DURATION_S = 4, 7200
LOCAL = 1000
DEADLINE_FACTOR = 2
REPLICATIONS = 30
SUSPEND_MIB_PER_S, RESUME_MIB_PER_S = 6.36, 8.12
PAUSE_S, RESCHEDULE_S = 0.005, 2.3
ACCEPTED_DEADLINES, MISSED_DEADLINES = "accepted_deadlines", "missed_deadlines"
BEST_EFFORT, DEADLINE, LOCALS = "best-effort", "deadline", "local"
SWEEPS = {
    BEST_EFFORT: (10, 20, 30, 40, 50),
    DEADLINE: (10, 20, 30, 40, 50),
    LOCALS: (20, 30, 40, 50, 60, 70),
}
CHOICES = {
    "workload model": "Lublin99 without job types: its mean size on 32 nodes is 4 VMs by itself; the authors' arrivals",
    "load": "3000 requests stretched over exactly two weeks",
    "means": "sizes and durations multiplied to means of 4 VMs and 2 h, held within 1 to 32 VMs",
    "estimates": "requests ask for exactly the time they take",
    "sweep of best-effort requests": "per cent of the external requests, the others deadline-constraint; 1000 local",
    "sweep of deadline-constraint requests": "per cent of the external requests, the others best-effort; 1000 local",
    "sweep of local requests": "per cent of all; half of the external ones best-effort",
    "types": "the two best-effort types half and half, and the two deadline-constraint types",
    "local requests": "start when they come, for their whole duration, or are rejected",
    "deadlines": "arrival + 2 x duration; rejected at arrival where no such reservation is possible",
    "reservations of waiting leases": "a local request may move those of best-effort leases, not accepted deadlines",
    "migratable leases": "preempted only where the rest still fits before the deadline: there is no other provider",
    "overhead": "1.2's h of the whole lease, billed at its resumption, and planned with the same rates",
    "victims": "running leases; candidate sets minimal by inclusion",
    "rejection rate": "rejected of those submitted; terminated cancellables are not rejected",
    "preemptions": "leases that had to leave for a local request",
    "utilization": "sum of v x d over 32 nodes from the beginning of the two weeks to the end of the last lease",
    "replications": "30 workloads a point; all policies and all points of a seed share their draws",
}


class Mix(Struct, frozen=True):
    """Shares of one point of a sweep, 0 to 1: local of all requests, best-effort of the external ones."""

    local: float
    best_effort: float


def tasks(policies: Sequence[str], small: bool) -> list[Task]:
    """Every point of the three sweeps under every policy, replication by replication; small: their ends, once."""
    replications = 1 if small else REPLICATIONS
    return [
        Task(point, replication, policy, small)
        for replication in range(replications)
        for sweep, values in SWEEPS.items()
        for point in points(sweep, (values[0], values[-1]) if small else values)
        for policy in policies
    ]


def of_whole_replications(results: Sequence[TaskResult], policies: Sequence[str]) -> ResultTable:
    """The results of those replications of which all points were played under all policies."""
    small = any(result.task.small for result in results)
    in_one = sum(task.replication == 0 for task in tasks(policies, small))
    played = Counter(result.task.replication for result in results)
    return ResultTable([result for result in results if played[result.task.replication] == in_one])


def nothing_whole(name: str, simulations: int) -> ExperimentResult:
    """What there is to say where no replication is whole yet."""
    return ExperimentResult(name, ({"whole replications": 0, "simulations played": simulations},))


def judged(table: ResultTable, claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """The claims, without verdicts where there are fewer replications than the experiment has."""
    replications = len({result.task.replication for result in table.results})
    if replications == REPLICATIONS:
        return tuple(claims)
    told = f" ({replications} of {REPLICATIONS} replications)"
    return tuple(replace(claim, ours=claim.ours + told, holds=None) for claim in claims)


def points(sweep: str, values: Sequence[int]) -> list[str]:
    """The names of the points of a sweep."""
    return [f"{sweep} {value}" for value in values]


_ALL_POINTS = tuple(point for sweep, values in SWEEPS.items() for point in points(sweep, values))


def place_of(point: str) -> tuple[str, int]:
    """The sweep of a point, and its per cent."""
    sweep, _, value = point.rpartition(" ")
    return sweep, int(value)


def places_of(points: Sequence[str], sweep: str) -> dict[str, float]:
    """Of these points those of one sweep, and where on it they lie."""
    return {point: float(value) for point in points for name, value in [place_of(point)] if name == sweep}


def mix_of(point: str) -> Mix:
    """The shares at a point."""
    sweep, value = place_of(point)
    share = value / 100
    if sweep == LOCALS:
        return Mix(share, 0.5)
    return Mix(LOCAL / REQUESTS, share if sweep == BEST_EFFORT else 1 - share)


def played_as(task: Task) -> Task:
    """The first task with the same mix: half and half is a point of two sweeps."""
    mix = mix_of(task.point)
    return replace(task, point=next(point for point in _ALL_POINTS if mix_of(point) == mix))


def workload(mix: Mix, replication: int, requests: int = REQUESTS) -> Workload:
    """The requests of one point; fewer of them arrive in as much less time."""
    drawn = with_span(Lublin99((TYPELESS,)).for_nodes(NODES).draw(replication, requests), SPAN_S * requests // REQUESTS)
    adjusted = adjusted_to_means(drawn, MEAN_VMS, MEAN_DURATION_S, NODES)
    shares = [
        (LeaseType.BE_CANCELLABLE, mix.best_effort / 2),
        (LeaseType.BE_SUSPENDABLE, mix.best_effort / 2),
        (LeaseType.DC_MIGRATABLE, (1 - mix.best_effort) / 2),
        (LeaseType.DC_NON_PREEMPTABLE, (1 - mix.best_effort) / 2),
    ]
    typed = with_types(adjusted, shares, replication)
    originated = with_origins(typed, round(mix.local * requests), replication)
    return with_deadlines(originated, DEADLINE_FACTOR, deadline_constraint_only)


def trial(requests: Workload, policy: str, nodes: int = NODES) -> Trial:
    """Requests on the site of the paper, or a smaller one, under one policy."""
    site = Site((MachineSet(nodes, 100, MEMORY_MIB),))
    return Trial(requests, site, settings(), policy, Verification.SAMPLED, furnish=_bill_at_resumption)


def simulate(task: Task) -> Figures:
    """One point under one policy."""
    requests = workload(mix_of(task.point), task.replication, SMALL_REQUESTS if task.small else REQUESTS)
    played = play_whole(trial(requests, task.policy))
    told, deadlines = played.figures, kept_deadlines(requests, played.result)
    return {
        "local_rejection_rate": told.groups["local"].acceptance.rejection_rate,
        "external_rejection_rate": told.groups["external"].acceptance.rejection_rate,
        "preemptions": told.everybody.preemptions,
        "utilization": told.utilization,
        "utilization_of_arrivals": told.utilization_of_arrivals,
        "best_effort_makespan_s": told.best_effort_makespan_s,
        ACCEPTED_DEADLINES: len(deadlines),
        MISSED_DEADLINES: deadlines.count(False),
        REFUSED_PLANS: told.refused_plans,
    }


def kept_deadlines(requests: Workload, result: SimulationResult) -> list[bool]:
    """Of each request that was promised its deadline, whether it was done by then."""
    return [
        one.record.ended_at_ms is not None and one.record.ended_at_ms <= 1000 * one.request.deadline_at_s
        for one in outcomes(requests, result)
        if one.request.deadline_at_s is not None and one.fate is not Fate.REJECTED
    ]


def promises_kept(results: Iterable[TaskResult]) -> Claim:
    """The paper takes it for granted that who is preempted still meets his deadline."""
    figures = [result.figures for result in results if ACCEPTED_DEADLINES in result.figures]
    accepted, missed = (sum(one[name] or 0 for one in figures) for name in (ACCEPTED_DEADLINES, MISSED_DEADLINES))
    return Claim(
        "every accepted deadline is kept", "", f"{missed:g} of {accepted:g} missed", not missed, required=False
    )


def settings() -> Settings:
    """Conservative backfilling. Billed at resumption: saving takes no time, and restoring takes that of both."""
    overhead = OverheadSettings(
        suspend_mib_per_s=1e9,
        resume_mib_per_s=1 / (1 / SUSPEND_MIB_PER_S + 1 / RESUME_MIB_PER_S),
        pause_s=PAUSE_S,
        reschedule_s=RESCHEDULE_S,
        boot_s=0,
        shutdown_s=0,
        # They are the model's. What returns is read back beside others here, which would look like faster storage.
        learn=False,
    )
    time = TimeSettings(
        backfilling="conservative", least_run_before_suspension_s=1, preparation_margin_s=0, overrun_grace_s=0
    )
    # One VM fills a node: moving one to another node makes no room.
    victims = VictimSettings(methods={"DC-MIGRATABLE": ["stop"]})
    return msgspec.structs.replace(simulation_settings(), overhead=overhead, time=time, victims=victims)


def _bill_at_resumption(cloud: SimulatedCloud) -> None:
    """VMs of a lease are restored at once, each for as long as all of them take one after the other."""

    def price(change: StateChange) -> None:
        vm_id = change.object_id
        if change.kind == "VM" and vm_id not in cloud.durations_of_vm and vm_id in cloud.vms:
            lease = cloud.vms[vm_id].user_template["LEASE"][0]
            assert not isinstance(lease, str)
            cloud.durations_of_vm[vm_id] = _durations(int(lease["SIZE"]))

    cloud.on_transition(price)


def _durations(virtual_machines: int) -> Durations:
    """Of a VM in a lease of so many."""
    memory_s = MEMORY_MIB / SUSPEND_MIB_PER_S + MEMORY_MIB / RESUME_MIB_PER_S
    return replace(INSTANT, restore_s=virtual_machines * (memory_s + 2 * PAUSE_S) + RESCHEDULE_S)
