"""The simulations of JPDC12 section 5: three clusters, the requests of their users, and those that a gateway splits.

Neither allocation nor dispatch looks at the clusters' state. So the requests are split first, each cluster plays its
part with the production cycle, and the figures are put together. `CHOICES` has everything that the paper leaves open.
It was fixed before any run that is reported.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from one_preempt.configuration.settings import OverheadSettings, Settings, TimeSettings, VictimSettings
from one_preempt.core.dispatch.policy import DispatchPolicy, routing
from one_preempt.core.dispatch.rnd import POLICY as RND
from one_preempt.core.dispatch.round_robin import POLICY as IN_TURNS
from one_preempt.core.dispatch.rtdp import POLICY as RTDP
from one_preempt.core.model.lease import LeaseType
from one_preempt.core.model.modes_and_limits import Verification
from one_preempt.core.workload_allocation.bcf import POLICY as BCF
from one_preempt.core.workload_allocation.lrf import POLICY as LRF
from one_preempt.core.workload_allocation.pap import POLICY as PAP
from one_preempt.core.workload_allocation.policy import AllocationPolicy
from one_preempt.core.workload_allocation.problem import (
    AllocationProblem,
    ClusterLoad,
    parallel_service_s,
    second_moment_s2,
)
from one_preempt.core.workload_allocation.rr import POLICY as RR
from one_preempt.simulation.experiments.jpdc12_dispatcher import Dispatcher
from one_preempt.simulation.experiments.replicated import Task
from one_preempt.simulation.experiments.trial import Trial
from one_preempt.simulation.simulated_cloud.durations import INSTANT
from one_preempt.simulation.simulator.site import Site, simulation_settings
from one_preempt.simulation.workload.annotate import with_origins, with_types
from one_preempt.simulation.workload.das2 import Das2, DurationParameters, GapParameters
from one_preempt.simulation.workload.lublin99 import SizeParameters
from one_preempt.simulation.workload.scaling import with_durations_scaled
from one_preempt.simulation.workload.workload import (
    SECONDS_PER_DAY,
    MachineSet,
    StartKind,
    Workload,
    WorkloadRequest,
)

MEMORY_MIB = 1024
SMALL_SPAN_S = 600
# Putting a lease to rest and bringing it back: 160 s and 126 s, however many VMs it has.
OVERHEAD_S = 286
DEADLINE_FACTOR = 2
EXTERNAL_VARIATION, LOCAL_VARIATION = 0.5, 0.1
# Up to this part of the room that local requests leave, PAP is asked for the rate as it is.
MOST_OF_ROOM = 0.95
TYPE_SHARES = [
    (LeaseType.BE_CANCELLABLE, 0.25),
    (LeaseType.BE_SUSPENDABLE, 0.25),
    (LeaseType.DC_MIGRATABLE, 0.25),
    (LeaseType.DC_NON_PREEMPTABLE, 0.25),
]
CHOICES = {
    "local arrivals": "scales 7, 6 and 4.5 s, shape 0.35: 0.106/s in sum; as printed elsewhere, local requests alone"
    " are 4 to 8 times the capacity",
    "unit of durations": "seconds on a processor of 1 GIPS: in a cluster they are divided by its GIPS",
    "mean sizes that PAP is told": "as Equations 28 to 30 state them, though the sizes that are drawn have other means:"
    " from those drawn, the local load of the largest cluster would be 1.05",
    "external requests beyond the room": "PAP is undefined there: its shares are those of 95 % of the room",
    "sweep of VMs": "m of 2.5 to 3.5: means of 4.5 to 6.3 VMs as drawn; 420 s, 0.148/s (scale 7 s, shape 1.1)",
    "sweep of durations": "a of 3.0 to 5.4; m = 2.75 (5 VMs as drawn), 0.148/s",
    "sweep of the external rate": "scales of 7.0 down to 3.8 s, shape 0.5; 5 VMs, 420 s",
    "sweep of the local rate": "the three local rates times 0.4 to 1.08: above 1.09 PAP is undefined; 5 VMs, 420 s,"
    " 0.148/s",
    "estimates of durations": "requests ask for exactly the time they take",
    "local and external non-preemptable requests": "start when they come, or are rejected",
    "deadlines of migratable leases": "arrival + 2 x (duration + 286 s); rejected at arrival where no such reservation"
    " is possible",
    "overhead of a lease": "286 s on its VMs at its resumption, whatever its size; cancelling costs nothing",
    "migration": "a lease that is migrated comes back in its own cluster, in time for its deadline: moves between"
    " clusters are not played",
    "whom clusters preempt": "MOV: cancellable leases cost nothing and leave first; suspendable and migratable ones"
    " cost the same",
    "VM preemptions": "VMs of leases that had to leave for a local request, each time they did",
    "response times of best-effort leases": "of those that completed",
    "drawn workloads": "10 a point, where the paper has 100; all policies and all points of a seed share their draws",
}


class Extent(Struct, frozen=True):
    """How much is played: for how long requests come, how many workloads a point; whether any claim is required."""

    span_s: int
    replications: int
    required: bool = False


TWO_DAYS = Extent(2 * SECONDS_PER_DAY, 10, required=True)


class Cluster(Struct, frozen=True):
    """A cluster with its own users; its speed is in GIPS, that of each processing element."""

    name: str
    nodes: int
    speed: float
    local: Das2


def _local(medium: float, high: float, log_mean: float, scale_s: float) -> Das2:
    return Das2(
        SizeParameters(0.3, 0.6, 0.8, medium, high, 0.9),
        DurationParameters(log_mean, 1.7),
        GapParameters(scale_s, 0.35),
    )


CLUSTERS = (
    Cluster("C64", 64, 2.0, _local(2.5, 6, 5.0, 7.0)),
    Cluster("C128", 128, 3.0, _local(3.5, 7, 5.35, 6.0)),
    Cluster("C256", 256, 2.1, _local(4.5, 8, 5.5, 4.5)),
)
_MEDIUM, _LOG_MEAN, _GAPS = 2.75, 4.595, GapParameters(7.0, 1.1)


class Point(Struct, frozen=True):
    """One point of a sweep: the external requests, and by what the local rates are multiplied."""

    external: Das2
    local_factor: float = 1.0


def _external(medium: float = _MEDIUM, log_mean: float = _LOG_MEAN, gaps: GapParameters = _GAPS) -> Das2:
    return Das2(SizeParameters(0.2, 0.5, 0.8, medium, 6, 0.9), DurationParameters(log_mean, 1.7), gaps)


VMS, DURATIONS, EXTERNAL, LOCAL = "vms", "durations", "external-rate", "local-rate"
# Of each sweep the values by which people know its points: mean VMs as drawn, mean durations in s, requests a second.
SWEEPS: dict[str, dict[float, Point]] = {
    VMS: {
        vms: Point(_external(medium=medium))
        for vms, medium in ((4.5, 2.5), (5.0, 2.75), (5.4, 3.0), (5.9, 3.25), (6.3, 3.5))
    },
    DURATIONS: {
        mean_s: Point(_external(log_mean=log_mean))
        for mean_s, log_mean in ((85, 3.0), (155, 3.6), (283, 4.2), (420, _LOG_MEAN), (629, 5.0), (939, 5.4))
    },
    EXTERNAL: {
        rate: Point(_external(gaps=GapParameters(scale_s, 0.5)))
        for rate, scale_s in ((0.071, 7.0), (0.081, 6.2), (0.093, 5.4), (0.109, 4.6), (0.132, 3.8))
    },
    LOCAL: {
        rate: Point(_external(), factor)
        for rate, factor in ((0.042, 0.4), (0.063, 0.6), (0.085, 0.8), (0.106, 1.0), (0.114, 1.08))
    },
}


class Splitting(Struct, frozen=True):
    """How a gateway splits: how much each cluster gets, and in which order."""

    allocation: AllocationPolicy
    dispatch: DispatchPolicy


PAP_RTDP, PAP_RND, LRF_RND, BCF_RND, ROUND_ROBIN = "PAP-RTDP", "PAP-RND", "LRF-RND", "BCF-RND", "RR"
SPLITTINGS = {
    PAP_RTDP: Splitting(PAP, RTDP),
    PAP_RND: Splitting(PAP, RND),
    LRF_RND: Splitting(LRF, RND),
    BCF_RND: Splitting(BCF, RND),
    ROUND_ROBIN: Splitting(RR, IN_TURNS),
}
POLICIES = tuple(SPLITTINGS)


def tasks(extent: Extent, small: bool) -> list[Task]:
    """Every point under every policy, replication by replication; small: the ends of one sweep, once."""
    if small:
        ends = min(SWEEPS[VMS]), max(SWEEPS[VMS])
        return [Task(point_name(VMS, value), 0, policy, small=True) for value in ends for policy in POLICIES]
    return [
        Task(point_name(sweep, value), replication, policy)
        for replication in range(extent.replications)
        for sweep, points in SWEEPS.items()
        for value in points
        for policy in POLICIES
    ]


def point_name(sweep: str, value: float) -> str:
    """Of a point of a sweep."""
    return f"{sweep} {value:g}"


def place_of(point: str) -> tuple[str, float]:
    """The sweep of a point, and its value there."""
    sweep, _, value = point.partition(" ")
    return sweep, float(value)


def point_of(name: str) -> Point:
    """What is played at a point."""
    sweep, value = place_of(name)
    return SWEEPS[sweep][value]


_FIRST_NAMES: dict[Point, str] = {}
for _sweep, _points in SWEEPS.items():
    for _value, _point in _points.items():
        _FIRST_NAMES.setdefault(_point, point_name(_sweep, _value))


def played_as(task: Task) -> Task:
    """The first task with the same requests: what stays the same in one sweep is a point of others."""
    return replace(task, point=_FIRST_NAMES[point_of(task.point)])


def local_of(cluster: Cluster, point: Point) -> Das2:
    """The cluster's own requests at a point."""
    gaps = cluster.local.gaps
    return replace(cluster.local, gaps=replace(gaps, scale_s=gaps.scale_s / point.local_factor))


def problem_of(point: Point) -> AllocationProblem:
    """What the gateway knows of the clusters."""

    def load(cluster: Cluster) -> ClusterLoad:
        local, capability = local_of(cluster, point), cluster.nodes * cluster.speed
        external_s, local_s = (
            parallel_service_s(model.stated_mean_vms, model.durations.mean_s, capability)
            for model in (point.external, local)
        )
        return ClusterLoad(
            cluster.name, cluster.nodes, cluster.speed,
            external_s, second_moment_s2(external_s, EXTERNAL_VARIATION),
            local_s, second_moment_s2(local_s, LOCAL_VARIATION), local.gaps.rate_per_s,
        )  # fmt: skip

    return AllocationProblem(tuple(map(load, CLUSTERS)), point.external.gaps.rate_per_s)


def rates_per_s(problem: AllocationProblem, policy: AllocationPolicy) -> tuple[float, ...]:
    """The policy's answer; where there is no room for all, its answer to what there is room for."""
    room_per_s = sum(cluster.room_per_s for cluster in problem.clusters)
    return policy.allocate(
        replace(problem, external_rate_per_s=min(problem.external_rate_per_s, MOST_OF_ROOM * room_per_s))
    )


def workloads(point: Point, replication: int, policy: str, span_s: int) -> tuple[Workload, ...]:
    """What each cluster has to play: its own requests, and those that the gateway sends it."""
    seed = (len(CLUSTERS) + 1) * replication
    drawn = with_types(with_origins(point.external.draw(seed, span_s), 0, seed), TYPE_SHARES, seed)
    sent = _split(drawn, point, replication, policy)
    return tuple(
        _of_cluster(cluster, local_of(cluster, point).draw(seed + number, span_s), external)
        for number, (cluster, external) in enumerate(zip(CLUSTERS, sent, strict=True), 1)
    )


def _split(drawn: Workload, point: Point, seed: int, policy: str) -> list[list[WorkloadRequest]]:
    problem, chosen = problem_of(point), SPLITTINGS[policy]
    service_s = [cluster.external_service_s for cluster in problem.clusters]
    dispatcher = Dispatcher(chosen.dispatch, routing(rates_per_s(problem, chosen.allocation), service_s, seed))
    sent: list[list[WorkloadRequest]] = [[] for _ in CLUSTERS]
    for request in drawn.requests:
        sent[dispatcher.send(request.lease_type)].append(request)
    return sent


def _of_cluster(cluster: Cluster, local: Workload, external: Sequence[WorkloadRequest]) -> Workload:
    own = with_origins(local, len(local), 0)
    first = max((request.id for request in external), default=0)
    both = own.after(
        f"{len(external)} external requests beside them",
        [*external, *(replace(request, id=first + request.id) for request in own.requests)],
    )
    return with_durations_scaled(both, 1 / cluster.speed).mapped("deadlines as in JPDC12", _with_terms)


def _with_terms(request: WorkloadRequest) -> WorkloadRequest:
    """Of external requests, as far as they are not best effort."""
    if request.lease_type is LeaseType.DC_NON_PREEMPTABLE:
        return replace(request, start=StartKind.IMMEDIATE)
    if request.lease_type is LeaseType.DC_MIGRATABLE:
        slack_s = DEADLINE_FACTOR * (request.planned_duration_s + OVERHEAD_S)
        return replace(request, start=StartKind.DEADLINE, deadline_at_s=request.ready_at_s + slack_s)
    return request


def trial(cluster: Cluster, requests: Workload) -> Trial:
    """One cluster's part. Overheads are billed at resumption: saving takes no time, restoring that of both."""
    site = Site((MachineSet(cluster.nodes, 100, MEMORY_MIB),), replace(INSTANT, restore_s=OVERHEAD_S))
    return Trial(requests, site, settings(), "MOV", Verification.SAMPLED)


def settings() -> Settings:
    """Conservative backfilling; plans take the overhead for what it is played as."""
    overhead = OverheadSettings(
        suspend_mib_per_s=1e9, resume_mib_per_s=MEMORY_MIB / OVERHEAD_S, pause_s=0, reschedule_s=0, boot_s=0,
        shutdown_s=0, learn=False,
    )  # fmt: skip
    # VMs of a lease are on hosts of their own, and are brought back side by side.
    time = TimeSettings(
        backfilling="conservative", least_run_before_suspension_s=1, preparation_margin_s=0, overrun_grace_s=0,
        exclusion="host",
    )  # fmt: skip
    # One VM fills a node: moving one to another node makes no room.
    victims = VictimSettings(methods={"DC-MIGRATABLE": ["stop"]})
    return msgspec.structs.replace(simulation_settings(), overhead=overhead, time=time, victims=victims)
