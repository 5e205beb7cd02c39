"""CCPE13 Table III: whom each policy preempts for local request 7 of Table II, and what that costs.

The victims are chosen by the same function that chooses them on a cloud. Leases have no durations there yet, so no
makespan is computed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from one_preempt.core.model.lease import PreemptionMethod
from one_preempt.core.model.time import ms_to_seconds
from one_preempt.core.overhead.method_pricing import LeavingVm, lease_price
from one_preempt.core.preemption.problem import Choice, NoChoice, PreemptableLease, PreemptionProblem
from one_preempt.core.preemption.victim_choice import choose_victims
from one_preempt.policy_registry import preemption_policy
from one_preempt.simulation.experiments.ccpe13_testbed import (
    CORES_PER_HOST,
    EXTERNAL_REQUESTS,
    HOSTS,
    LOCAL_REQUEST,
    MEMORY_PER_HOST_MIB,
    RATES,
    LeaseRequest,
    hosts_of_leases,
)
from one_preempt.simulation.experiments.experiment import ExperimentResult, Row

CORE_CENTI = 100
OVERHEAD_TOLERANCE = 0.01


@dataclass(frozen=True, slots=True)
class Published:
    """One row of Table III; of NOP the text says that request 7 is rejected."""

    policy: str
    preempted: tuple[int, ...]
    overhead_s: float | None
    makespan_s: int | None


PUBLISHED = (
    Published("NOP", (), None, None),
    Published("MLIP", (1, 6), 59.9, 7800),
    Published("MOV", (2, 3, 5), 27.8, 8479),
    Published("MOML", (5, 6), 27.8, 7800),
)


def contended_testbed() -> PreemptionProblem:
    """Request 7 arrives while the leases 1 to 6 fill all twelve cores."""
    hosts_of_lease = hosts_of_leases()
    free = np.tile(np.array([CORES_PER_HOST * CORE_CENTI, MEMORY_PER_HOST_MIB], dtype=np.int64), (HOSTS, 1))
    leases = [_running_lease(request, hosts_of_lease[request.id]) for request in EXTERNAL_REQUESTS]
    for lease in leases:
        np.subtract.at(free, lease.host_index, lease.releases)
    return PreemptionProblem(
        free=free,
        needs=_amounts(LOCAL_REQUEST),
        allowed=np.ones((LOCAL_REQUEST.vms, HOSTS), dtype=np.bool_),
        leases=tuple(leases),
        delta_ms=RATES.reschedule_ms,
    )


def _amounts(request: LeaseRequest) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """What each VM takes, shape (VMs, 2)."""
    return np.tile(np.array([CORE_CENTI, request.memory_per_vm_mib], dtype=np.int64), (request.vms, 1))


def _running_lease(request: LeaseRequest, hosts: tuple[int, ...]) -> PreemptableLease:
    stopped = [LeavingVm(PreemptionMethod.STOP, request.memory_per_vm_mib)] * request.vms
    return PreemptableLease(
        id=request.id,
        overhead_ms=lease_price(stopped, RATES).overhead_ms,
        vm_count=request.vms,
        host_index=np.array(hosts, dtype=np.int64),
        releases=_amounts(request),
    )


@dataclass(frozen=True, slots=True)
class TableThree:
    """One row a policy."""

    name: str = "ccpe13-table3"
    description: str = "whom NOP, MLIP, MOV and MOML preempt for a local request on a small testbed, and the overhead"
    paper: str = "Salehi, Javadi, Buyya 2013 (CCPE13), Table III"

    def run(self) -> ExperimentResult:
        """The four policies on the same situation."""
        problem = contended_testbed()
        return ExperimentResult(
            self.name,
            tuple(
                _row(published, choose_victims(problem, preemption_policy(published.policy))) for published in PUBLISHED
            ),
        )


def _row(published: Published, answer: Choice | NoChoice) -> Row:
    preempted = answer.lease_ids if isinstance(answer, Choice) else ()
    overhead_s = ms_to_seconds(answer.overhead_ms) if isinstance(answer, Choice) else 0.0
    return {
        "policy": published.policy,
        "rejected": isinstance(answer, NoChoice),
        "preempted": preempted,
        "overhead_s": overhead_s,
        "makespan_s": None,
        "published_preempted": published.preempted,
        "published_overhead_s": published.overhead_s,
        "published_makespan_s": published.makespan_s,
        "within": preempted == published.preempted and _is_close(overhead_s, published.overhead_s or 0.0),
    }


def _is_close(ours_s: float, published_s: float) -> bool:
    return abs(ours_s - published_s) <= OVERHEAD_TOLERANCE * published_s


EXPERIMENT = TableThree()
