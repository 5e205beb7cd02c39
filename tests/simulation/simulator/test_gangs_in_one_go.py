"""What several VMs share is done and told in one go where nobody listens to each; nothing differs by it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from one_preempt.composition import simulated_cycle
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.durations import INSTANT
from one_preempt.simulation.simulated_cloud.objects import Caller
from one_preempt.simulation.simulated_cloud.states import LcmState, VmState
from one_preempt.simulation.simulator.result import SimulationResult
from one_preempt.simulation.simulator.scheduler import Report
from one_preempt.simulation.simulator.simulator import Simulator
from one_preempt.simulation.simulator.site import LOCALS, build_cloud, simulation_settings
from one_preempt.simulation.simulator.timed_fault import HostDies, HostReturns, TimedFault
from one_preempt.simulation.workload.workload import Workload
from tests.simulation.simulator.small_stories import SLOW_STORAGE, TWO_HOSTS, random_faults, random_workload
from tests.simulation.simulator.test_untold_states import pictured

SLOW_WAY_OUT = replace(TWO_HOSTS, durations=replace(INSTANT, save_mib_per_s=32, restore_mib_per_s=64))
SITES = {"at once": TWO_HOSTS, "slow": SLOW_STORAGE, "saved slowly": SLOW_WAY_OUT}
FAULTS: dict[int, tuple[TimedFault, ...]] = {
    1: (HostDies(200, 0), HostReturns(500, 0)),
    2: (HostDies(60, 1),),
    3: random_faults(3),
}


def play(
    workload: Workload, site: str, policy: str, faults: tuple[TimedFault, ...], *, tells_each: bool
) -> tuple[SimulationResult, list[str]]:
    cloud = build_cloud(SITES[site])
    pictures: list[str] = []
    if tells_each:
        cloud.on_transition(lambda change: None, passing=False)

    def look(at_ms: int, report: Report) -> None:
        pictures.append(f"{at_ms}: {report.plan} {pictured(cloud)} {cloud.request_id}")

    cycle = simulated_cycle(simulation_settings(), cloud, policy, tells_owners=False)
    result = Simulator(cloud, cycle, workload, faults, until_s=20_000, on_cycle=look).run()
    assert cloud.audit() == []
    return result, pictures


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("policy", ["moml", "mlip"])
@pytest.mark.parametrize("seed", range(5))
def test_whether_each_is_told_or_all_the_same_happens(seed: int, policy: str, site: str) -> None:
    workload = random_workload(seed, count=25)
    faults = FAULTS.get(seed, ())
    one_by_one, pictures = play(workload, site, policy, faults, tells_each=True)
    in_one_go, others = play(workload, site, policy, faults, tells_each=False)
    assert in_one_go == one_by_one
    assert others == pictures


class Stage:
    """Three VMs on HOLD in a cloud of two hosts, and who owns them."""

    def __init__(self) -> None:
        self.cloud: SimulatedCloud = build_cloud(TWO_HOSTS)
        owner = next(user for user in self.cloud.users.values() if user.name == LOCALS)
        self.owner = self.cloud.caller(owner.id)
        self.admin: Caller = self.cloud.caller(0)
        vm_ids = self.cloud.add_vms(self.owner, {"CPU": ["1"], "MEMORY": ["512"]}, 3, hold=True)
        self.hosts = sorted(self.cloud.hosts)
        datastore = next(one.id for one in self.cloud.datastores.values() if one.type == 1)
        self.places = [(vm_id, self.hosts[number // 2], datastore) for number, vm_id in enumerate(vm_ids)]
        self.vm_ids = list(vm_ids)

    def states(self) -> list[tuple[int, int]]:
        return [(self.cloud.vms[vm_id].state, self.cloud.vms[vm_id].lcm_state) for vm_id in self.vm_ids]

    def let_pass(self) -> None:
        self.cloud.run_until_ms(self.cloud.clock.now_ms)


def test_a_gang_starts_and_ends_in_one_go() -> None:
    stage = Stage()
    assert stage.cloud.deploy_together(stage.admin, stage.places)
    assert stage.states() == [(VmState.ACTIVE, LcmState.PROLOG)] * 3
    stage.let_pass()
    assert stage.states() == [(VmState.ACTIVE, LcmState.RUNNING)] * 3
    assert [len(stage.cloud.hosts[host_id].vm_ids) for host_id in stage.hosts] == [2, 1]
    assert stage.cloud.terminate_together(stage.owner, stage.vm_ids)
    stage.let_pass()
    assert [state for state, _ in stage.states()] == [VmState.DONE] * 3
    assert stage.cloud.audit() == []


def test_nothing_is_done_where_one_of_the_calls_might_be_refused() -> None:
    stage = Stage()
    before = str(pictured(stage.cloud))
    last = stage.places[-1]
    assert not stage.cloud.deploy_together(stage.owner, stage.places)
    assert not stage.cloud.deploy_together(stage.admin, [*stage.places[:2], (last[0], 99, last[2])])
    assert not stage.cloud.deploy_together(stage.admin, [*stage.places, last])
    assert not stage.cloud.deploy_together(stage.admin, [(vm_id, stage.hosts[0], last[2]) for vm_id in stage.vm_ids])
    assert not stage.cloud.terminate_together(stage.owner, stage.vm_ids)
    stage.cloud.vm_lock(stage.admin, last[0], 1)
    assert not stage.cloud.deploy_together(stage.admin, stage.places)
    stage.cloud.vm_unlock(stage.admin, last[0])
    assert str(pictured(stage.cloud)) == before


def test_one_that_is_ended_meanwhile_does_not_come_to_run() -> None:
    stage = Stage()
    assert stage.cloud.deploy_together(stage.admin, stage.places)
    stage.cloud.vm_recover(stage.admin, stage.vm_ids[1], 3)
    stage.let_pass()
    assert [state for state, _ in stage.states()] == [VmState.ACTIVE, VmState.DONE, VmState.ACTIVE]
    assert stage.cloud.audit() == []


def test_a_host_that_dies_meanwhile_is_seen_by_each_of_its_vms() -> None:
    stage = Stage()
    assert stage.cloud.deploy_together(stage.admin, stage.places)
    stage.let_pass()
    assert stage.cloud.terminate_together(stage.owner, stage.vm_ids)
    stage.cloud.kill_host(stage.hosts[0])
    stage.let_pass()
    assert [state for state, _ in stage.states()] == [VmState.ACTIVE, VmState.ACTIVE, VmState.DONE]
    assert stage.states()[0][1] != LcmState.SHUTDOWN
    assert stage.cloud.audit() == []
