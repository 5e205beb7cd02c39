"""The workloads of SR11 section 5: one long best-effort lease, all others advance reservations, on four nodes.

The paper gives the numbers of leases and little else; `CHOICES` says what was chosen for the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from one_preempt.configuration.settings import OverheadSettings, Settings, TimeSettings
from one_preempt.core.model.lease import LeaseType
from one_preempt.simulation.experiments.replicated import Task
from one_preempt.simulation.simulator.site import Site, simulation_settings
from one_preempt.simulation.workload.workload import SECONDS_PER_HOUR, MachineSet, StartKind, Workload, WorkloadRequest

NODES = 4
SAMPLE_SIZES = (10, 20, 30, 40, 50)
REPLICATIONS = 10
BEST_EFFORT_S = 12 * SECONDS_PER_HOUR
STARTS_WITHIN_S = 24 * SECONDS_PER_HOUR
SHORTEST_S, LONGEST_S = 10 * 60, 60 * 60
LEAD_S = SECONDS_PER_HOUR
CHOICES = {
    "best-effort lease": "the first: all 4 nodes for 12 hours",
    "advance reservations": "1 to 4 nodes for 10 to 60 minutes, drawn uniformly",
    "starts": "drawn uniformly over the first 24 hours; each is asked for one hour before",
    "overheads": "none, as the paper neglects them",
    "replications": "10 workloads a sample size",
}
# Saving and restoring take no time, so none is planned for them.
_NO_OVERHEAD = OverheadSettings(
    suspend_mib_per_s=1e9, resume_mib_per_s=1e9, copy_mib_per_s=1e9, pause_s=0, reschedule_s=0, boot_s=0, shutdown_s=0
)


def tasks(policies: Sequence[str], small: bool) -> list[Task]:
    """Every sample size with every replication under every policy."""
    sizes, replications = (SAMPLE_SIZES[:2], 2) if small else (SAMPLE_SIZES, REPLICATIONS)
    return [
        Task(str(leases), replication, policy, small)
        for leases in sizes
        for replication in range(replications)
        for policy in policies
    ]


def workload(leases: int, replication: int, max_suspensions: int | None) -> Workload:
    """The best-effort lease with so many suspensions at most, and `leases` - 1 reservations."""
    chance = np.random.Generator(np.random.PCG64((leases, replication)))
    best_effort = WorkloadRequest(
        1, 0, (MachineSet(NODES, 100, 1024),), BEST_EFFORT_S, BEST_EFFORT_S, max_suspensions=max_suspensions
    )
    return Workload((best_effort, *(_reservation(number, chance) for number in range(2, leases + 1))))


def _reservation(number: int, chance: np.random.Generator) -> WorkloadRequest:
    start_at_s = int(chance.integers(LEAD_S, STARTS_WITHIN_S))
    duration_s = int(chance.integers(SHORTEST_S, LONGEST_S, endpoint=True))
    return WorkloadRequest(
        id=number,
        submitted_at_s=start_at_s - LEAD_S,
        vm_sets=(MachineSet(int(chance.integers(1, NODES, endpoint=True)), 100, 1024),),
        requested_duration_s=duration_s,
        actual_duration_s=duration_s,
        start=StartKind.EXACT,
        start_at_s=start_at_s,
        lease_type=LeaseType.DC_NON_PREEMPTABLE,
    )


def site() -> Site:
    """Four nodes, one VM each."""
    return Site((MachineSet(NODES, 100, 1024),))


def settings(refused_reservation: str) -> Settings:
    """The scheduler; `refused_reservation` is refuse, or queue for the AR-to-BE conversion."""
    time = msgspec.convert(
        {"refused_reservation": refused_reservation, "least_run_before_suspension_s": 1, "preparation_margin_s": 0},
        TimeSettings,
    )
    return msgspec.structs.replace(simulation_settings(), time=time, overhead=_NO_OVERHEAD)
