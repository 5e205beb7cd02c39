"""The situation of CCPE13 Table III as a problem of its own: request 7 arrives while 1 to 6 fill all twelve cores."""

from __future__ import annotations

import numpy as np

from one_preempt.core.model.lease import PreemptionMethod
from one_preempt.core.overhead.method_pricing import LeavingVm, lease_price
from one_preempt.core.preemption.problem import PreemptableLease, PreemptionProblem
from one_preempt.simulation.experiments.ccpe13_testbed import (
    CORE_CENTI,
    CORES_PER_HOST,
    EXTERNAL_REQUESTS,
    HOSTS,
    LOCAL_REQUEST,
    MEMORY_PER_HOST_MIB,
    RATES,
)
from one_preempt.simulation.workload.workload import WorkloadRequest


def contended_testbed() -> PreemptionProblem:
    hosts_of_lease = hosts_of_leases()
    free = np.tile(np.array([CORES_PER_HOST * CORE_CENTI, MEMORY_PER_HOST_MIB], dtype=np.int64), (HOSTS, 1))
    leases = [running_lease(request, hosts_of_lease[request.id]) for request in EXTERNAL_REQUESTS]
    for lease in leases:
        np.subtract.at(free, lease.host_index, lease.releases)
    return PreemptionProblem(
        free=free,
        needs=amounts(LOCAL_REQUEST),
        allowed=np.ones((LOCAL_REQUEST.virtual_machines, HOSTS), dtype=np.bool_),
        leases=tuple(leases),
        delta_ms=RATES.reschedule_ms,
    )


def hosts_of_leases() -> dict[int, tuple[int, ...]]:
    """Where the VMs of the external requests are: served as they came, they fill node after node."""
    slots = iter([host for host in range(HOSTS) for _ in range(CORES_PER_HOST)])
    return {request.id: tuple(next(slots) for _ in range(request.virtual_machines)) for request in EXTERNAL_REQUESTS}


def amounts(request: WorkloadRequest) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """What each VM takes, shape (VMs, 2)."""
    (machines,) = request.vm_sets
    return np.tile(np.array([machines.cpu_centi, machines.memory_mib], dtype=np.int64), (machines.count, 1))


def running_lease(request: WorkloadRequest, hosts: tuple[int, ...]) -> PreemptableLease:
    stopped = [LeavingVm(PreemptionMethod.STOP, request.vm_sets[0].memory_mib)] * request.virtual_machines
    return PreemptableLease(
        id=request.id,
        overhead_ms=lease_price(stopped, RATES).overhead_ms,
        vm_count=request.virtual_machines,
        host_index=np.array(hosts, dtype=np.int64),
        releases=amounts(request),
    )
