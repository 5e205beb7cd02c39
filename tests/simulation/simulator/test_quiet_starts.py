"""Starts of which nothing more need be seen: who looks at them all the same finds nothing to do."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from one_preempt.composition import simulated_cycle
from one_preempt.core.model.plan import Plan
from one_preempt.scheduling_cycle import CycleReport, SchedulingCycle
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulator.result import SimulationResult
from one_preempt.simulation.simulator.simulator import Simulator
from one_preempt.simulation.simulator.site import Site, build_cloud, simulation_settings
from one_preempt.simulation.simulator.timed_fault import TimedFault
from one_preempt.simulation.workload.workload import Workload, WorkloadRequest
from tests.simulation.simulator.small_stories import (
    SLOW_STORAGE,
    TWO_HOSTS,
    local,
    random_faults,
    random_workload,
    request,
)

COMING = frozenset({"PROLOG", "BOOT", "RUNNING"})


@dataclass
class LooksAgain:
    """The production cycle, woken by every change: the simulator is not told which starts are quiet.

    `idle` are its plans where nothing but such a start had happened.
    """

    cycle: SchedulingCycle
    idle: list[Plan] = field(default_factory=list)
    _quiet: frozenset[int] = frozenset()

    def run(self) -> CycleReport:
        report = self.cycle.run()
        assert report.state is not None
        assert report.plan is not None
        snapshot = report.state.snapshot
        changed = snapshot.changed_vm_ids or frozenset()
        came = {vm_id for vm_id in changed if vm_id in snapshot.vms and snapshot.vms[vm_id].state_name in COMING}
        if changed and changed == came and came <= self._quiet:
            self.idle.append(report.plan)
        else:
            self._quiet = report.quiet_vm_ids
        return replace(report, quiet_vm_ids=frozenset())


def cloud_and_cycle(site: Site, *, tells_owners: bool = False) -> tuple[SimulatedCloud, SchedulingCycle]:
    cloud = build_cloud(site)
    return cloud, simulated_cycle(simulation_settings(), cloud, "moml", tells_owners=tells_owners)


def play(
    workload: Workload, site: Site, faults: tuple[TimedFault, ...] = (), *, tells_owners: bool = False
) -> SimulationResult:
    cloud, cycle = cloud_and_cycle(site, tells_owners=tells_owners)
    return Simulator(cloud, cycle, workload, faults, until_s=20_000).run()


def play_looking_again(
    workload: Workload, site: Site, faults: tuple[TimedFault, ...] = ()
) -> tuple[SimulationResult, list[Plan]]:
    cloud, cycle = cloud_and_cycle(site)
    watched = LooksAgain(cycle)
    return Simulator(cloud, watched, workload, faults, until_s=20_000).run(), watched.idle


SLOW_SAVES = replace(TWO_HOSTS, durations=replace(SLOW_STORAGE.durations, boot_s=0))


@pytest.mark.parametrize("site", [TWO_HOSTS, SLOW_SAVES])
def test_who_looks_again_finds_nothing_to_do(site: Site) -> None:
    looks: list[Plan] = []
    saved = 0
    for seed in range(12):
        workload, faults = random_workload(seed, count=16), random_faults(seed) if seed % 2 else ()
        seldom = play(workload, site, faults)
        often, idle = play_looking_again(workload, site, faults)
        assert seldom.records == often.records
        looks += idle
        saved += often.cycles - seldom.cycles
    assert len(looks) >= saved > 5
    for plan in looks:
        assert replace(plan, made_at_s=0) == Plan(0, plan.policy)


def cycles_of(*requests: WorkloadRequest, tells_owners: bool = False) -> int:
    return play(Workload(requests), TWO_HOSTS, tells_owners=tells_owners).cycles


def test_a_start_and_an_end_are_two_looks() -> None:
    assert cycles_of(request(1, 10, 2, 100)) == 2


def test_what_boots_for_a_while_is_looked_at() -> None:
    workload = Workload((request(1, 10, 2, 100),))
    assert play(workload, SLOW_STORAGE).cycles > play(workload, TWO_HOSTS).cycles + 1


def test_owners_that_are_told_of_their_start_have_it_looked_at() -> None:
    assert cycles_of(request(1, 10, 2, 100), tells_owners=True) > 2


def test_while_others_wait_a_start_is_looked_at() -> None:
    alone = cycles_of(request(1, 10, 4, 100))
    with_one_that_waits = cycles_of(request(1, 10, 4, 100), request(2, 10, 4, 100))
    # The start of the second one is quiet again.
    assert with_one_that_waits == 2 * alone + 1


def test_who_may_preempt_is_looked_at() -> None:
    assert cycles_of(local(1, 10, 2, 100)) == 2 + 1


def test_what_it_ran_counts_from_when_it_was_heard_to_run() -> None:
    """The next look is at another's arrival, long after; then room is to be made, and it is told how long it ran."""
    first, second = request(1, 0, 4, 1000), local(2, 400, 4, 100)
    seldom = play(Workload((first, second)), TWO_HOSTS)
    often, _ = play_looking_again(Workload((first, second)), TWO_HOSTS)
    assert seldom.records == often.records
    assert seldom.records[0].suspensions == 1
