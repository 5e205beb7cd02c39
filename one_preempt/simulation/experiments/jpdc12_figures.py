"""The metrics of JPDC12 section 5.1, over three clusters that were played one by one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from msgspec import Struct

from one_preempt.core.model.lease import LeaseType
from one_preempt.simulation.experiments.jpdc12_workloads import (
    CLUSTERS,
    SMALL_SPAN_S,
    Cluster,
    Extent,
    point_of,
    trial,
    workloads,
)
from one_preempt.simulation.experiments.replicated import REFUSED_PLANS, Figures, Task
from one_preempt.simulation.experiments.trial import Played, play_whole
from one_preempt.simulation.probes.outcome import Outcome, outcomes
from one_preempt.simulation.probes.utilization import useful_share
from one_preempt.simulation.simulator.result import Fate
from one_preempt.simulation.workload.workload import Workload

VM_PREEMPTIONS, USEFUL, RESPONSE_S = "vm_preemptions", "useful_share", "awrt_s"
MIGRATED, REJECTED, LOCAL_REJECTED = "migrated_share", "rejected_share", "local_rejected_share"


class PlayedCluster(Struct, frozen=True):
    """One cluster, what it had to do, and what came of it."""

    cluster: Cluster
    requests: Workload
    played: Played

    @property
    def found(self) -> tuple[Outcome, ...]:
        """Its requests with their records."""
        return outcomes(self.requests, self.played.result)


def simulate(extent: Extent, task: Task) -> Figures:
    """One point under one policy: all clusters, one after the other."""
    span_s = SMALL_SPAN_S if task.small else extent.span_s
    parts = workloads(point_of(task.point), task.replication, task.policy, span_s)
    return figures_of(
        [
            PlayedCluster(cluster, requests, play_whole(trial(cluster, requests)))
            for cluster, requests in zip(CLUSTERS, parts, strict=True)
        ]
    )


def figures_of(clusters: Sequence[PlayedCluster]) -> Figures:
    """Of the whole grid."""
    found = [one for cluster in clusters for one in cluster.found]
    external = [one for one in found if one.request.external]
    seen = [cluster.played.seen for cluster in clusters]
    return {
        VM_PREEMPTIONS: sum(map(preempted_vms, found)),
        USEFUL: useful_share(sum(one.overhead_vm_ms for one in seen), sum(one.computation_vm_ms for one in seen)),
        RESPONSE_S: weighted_response_s([(one.cluster.nodes, response_s(one.found)) for one in clusters]),
        MIGRATED: _share(_of_type(external, LeaseType.DC_MIGRATABLE), lambda one: preempted_vms(one) > 0),
        REJECTED: _share(_of_type(external, LeaseType.DC_NON_PREEMPTABLE), _is_rejected),
        LOCAL_REJECTED: _share([one for one in found if not one.request.external], _is_rejected),
        "external_requests": len(external),
        **{f"sent_to_{one.cluster.name}": _external_count(one) for one in clusters},
        REFUSED_PLANS: sum(one.refused_plans for one in seen),
    }


def preempted_vms(one: Outcome) -> int:
    """VMs that had to leave for another request, each time they did."""
    times = sum(interruption.by_request_id is not None for interruption in one.record.interruptions)
    return one.record.virtual_machines * times


def response_s(found: Sequence[Outcome]) -> float | None:
    """AWRT of one cluster (Equation 23): of its best-effort leases by their work; None where none completed."""
    done = [(one.request.work_vm_s, one.response_ms) for one in found if one.best_effort]
    weights = [(work, response_ms / 1000) for work, response_ms in done if response_ms is not None]
    whole = math.fsum(work for work, _ in weights)
    return math.fsum(work * seconds for work, seconds in weights) / whole if whole else None


def weighted_response_s(by_nodes: Sequence[tuple[int, float | None]]) -> float | None:
    """AWRT over clusters (Equation 24), as far as anything completed there."""
    known = [(nodes, seconds) for nodes, seconds in by_nodes if seconds is not None]
    whole = sum(nodes for nodes, _ in known)
    return math.fsum(nodes * seconds for nodes, seconds in known) / whole if whole else None


def _of_type(found: Sequence[Outcome], lease_type: LeaseType) -> list[Outcome]:
    return [one for one in found if one.request.lease_type is lease_type]


def _share(found: Sequence[Outcome], holds: Callable[[Outcome], bool]) -> float | None:
    return sum(map(holds, found)) / len(found) if found else None


def _is_rejected(one: Outcome) -> bool:
    return one.fate is Fate.REJECTED


def _external_count(cluster: PlayedCluster) -> int:
    return sum(request.external for request in cluster.requests.requests)
