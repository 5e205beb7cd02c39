"""Small workloads for the simulator's tests, drawn from a seed or told one by one."""

from __future__ import annotations

import random
from collections.abc import Callable

from msgspec.structs import replace

from one_preempt.composition import simulated_cycle
from one_preempt.core.model.lease import LeaseType
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.durations import INSTANT, DriverLimits, Operation
from one_preempt.simulation.simulated_cloud.faults import Fault
from one_preempt.simulation.simulator.result import RequestRecord, SimulationResult
from one_preempt.simulation.simulator.scheduler import Report
from one_preempt.simulation.simulator.simulator import Simulator
from one_preempt.simulation.simulator.site import Site, build_cloud, simulation_settings
from one_preempt.simulation.simulator.timed_fault import DriverFails, HostDies, HostReturns, TimedFault
from one_preempt.simulation.workload.workload import MachineSet, StartKind, Workload, WorkloadRequest

TWO_HOSTS = Site((MachineSet(2, 200, 4096),))
SLOW_STORAGE = replace(
    TWO_HOSTS,
    durations=replace(INSTANT, boot_s=5, save_mib_per_s=32, restore_mib_per_s=64, shutdown_s=2),
    driver_limits=DriverLimits(virtualization=4, virtualization_per_host=2, transfers=4),
)


def request(number: int, submitted_at_s: int, vms: int, lasts_s: int, **more: object) -> WorkloadRequest:
    """VMs of one CPU and 512 MiB; it asks for what it takes."""
    plain = WorkloadRequest(
        number, submitted_at_s, (MachineSet(vms, 100, 512),), lasts_s or None, lasts_s, external=True
    )
    return replace(plain, **more)


def local(number: int, submitted_at_s: int, vms: int, lasts_s: int, **more: object) -> WorkloadRequest:
    """One that may preempt, and waits where that does not help."""
    return request(
        number, submitted_at_s, vms, lasts_s,
        external=False, lease_type=LeaseType.DC_NON_PREEMPTABLE, start=StartKind.BEST_EFFORT, **more,
    )  # fmt: skip


def play(
    *requests: WorkloadRequest,
    site: Site = TWO_HOSTS,
    policy: str = "moml",
    faults: tuple[TimedFault, ...] = (),
    until_s: int | None = None,
    on_cycle: Callable[[int, Report], None] | None = None,
) -> tuple[SimulationResult, SimulatedCloud]:
    cloud = build_cloud(site, keeps_logs=True)
    cycle = simulated_cycle(simulation_settings(), cloud, policy)
    return Simulator(cloud, cycle, Workload(requests), faults, until_s, on_cycle).run(), cloud


def records_of(*requests: WorkloadRequest, **more: object) -> dict[int, RequestRecord]:
    result, cloud = play(*requests, **more)  # type: ignore[arg-type]
    assert cloud.audit() == []
    return {record.request_id: record for record in result.records}


def random_workload(seed: int, count: int = 14) -> Workload:
    chance = random.Random(seed)
    requests = []
    at_s = 0
    for number in range(1, count + 1):
        at_s += chance.choice((0, 0, 7, 60, 200))
        is_local = chance.random() < 0.35
        vms, lasts_s = chance.randint(1, 3), chance.choice((0, 30, 200, 450))
        if is_local:
            requests.append(local(number, at_s, vms, lasts_s))
        else:
            kind = chance.choice([one for one in LeaseType if one.preemptable])
            actual_s = max(0, lasts_s + chance.choice((-20, 0, 0, 50)))
            requests.append(request(number, at_s, vms, lasts_s, lease_type=kind, actual_duration_s=actual_s))
    return Workload(tuple(requests))


def random_faults(seed: int) -> tuple[TimedFault, ...]:
    chance = random.Random(seed)
    dies_at_s = chance.randint(50, 900)
    return (
        DriverFails(0, Fault(Operation.SAVE, count=None, probability=0.1)),
        DriverFails(0, Fault(Operation.BOOT, count=None, probability=0.05)),
        HostDies(dies_at_s, 0),
        HostReturns(dies_at_s + 300, 0, guests_survived=chance.random() < 0.5),
    )
