"""States that take no time and that nobody listens for are passed through faster, and nothing else differs by it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from one_preempt.composition import simulated_cycle
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.cloud_state import StateChange
from one_preempt.simulation.simulated_cloud.objects import SimVm
from one_preempt.simulation.simulator.result import SimulationResult
from one_preempt.simulation.simulator.scheduler import Report
from one_preempt.simulation.simulator.simulator import Simulator
from one_preempt.simulation.simulator.site import build_cloud, simulation_settings
from one_preempt.simulation.simulator.timed_fault import HostDies, HostReturns, TimedFault
from one_preempt.simulation.workload.workload import Workload
from tests.simulation.simulator.small_stories import TWO_HOSTS, random_faults, random_workload

Picture = tuple[object, ...]


def pictured(cloud: SimulatedCloud) -> Picture:
    """The books after a cycle, without what only says in which state something was before."""
    return (
        [(vm.id, vm.state, vm.lcm_state, vm.deploy_id, vm.lock, vm.template, vm.history) for vm in living(cloud.vms)],
        [(host.id, host.state, host.vm_ids, host.share) for host in cloud.hosts.values()],
        [(user.id, user.quotas) for user in cloud.users.values()],
        [(group.id, group.quotas) for group in cloud.groups.values()],
        cloud.space.taken,
    )


def living(vms: Mapping[int, SimVm]) -> list[SimVm]:
    return [vm for _, vm in sorted(vms.items())]


def told(change: StateChange) -> object:
    return change.at_ms, change.object_id, change.new_state, change.new_lcm_state


def play(
    workload: Workload, policy: str, faults: tuple[TimedFault, ...], *, keeps_logs: bool
) -> tuple[SimulationResult, list[str], list[object], SimulatedCloud]:
    cloud = build_cloud(TWO_HOSTS, keeps_logs=keeps_logs)
    pictures: list[str] = []
    heard: list[object] = []
    cloud.on_transition(lambda change: heard.append(told(change)), passing=False)

    def look(at_ms: int, report: Report) -> None:
        pictures.append(f"{at_ms}: {report.plan} {pictured(cloud)}")

    cycle = simulated_cycle(simulation_settings(), cloud, policy)
    result = Simulator(cloud, cycle, workload, faults, until_s=20_000, on_cycle=look).run()
    assert cloud.audit() == []
    return result, pictures, heard, cloud


@pytest.mark.parametrize("policy", ["moml", "mlip"])
@pytest.mark.parametrize("seed", range(4))
def test_whoever_listens_the_same_happens(seed: int, policy: str) -> None:
    workload = random_workload(seed, count=20)
    faults = ((), (HostDies(200, 0), HostReturns(500, 0)), (HostDies(60, 1),), random_faults(seed))[seed]
    watched, pictures, heard, cloud = play(workload, policy, faults, keeps_logs=True)
    unwatched, others, overheard, _ = play(workload, policy, faults, keeps_logs=False)
    assert unwatched == watched
    assert others == pictures
    # What is heard is true and in order; only what is short is missing.
    assert heard == [told(change) for change in cloud.state_changes[len(cloud.hosts) :]]
    story = iter(heard)
    assert all(change in story for change in overheard)
    assert len(overheard) < len(heard)
