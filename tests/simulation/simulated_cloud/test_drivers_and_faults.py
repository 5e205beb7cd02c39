"""Work takes its time, waits for free places, and goes wrong on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.durations import INSTANT, TRANSFERS, DriverLimits, Durations, Operation
from one_preempt.simulation.simulated_cloud.faults import Fault, FaultPlan, Misbehaviour
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN

if TYPE_CHECKING:
    from tests.simulation.simulated_cloud.conftest import Stage

TEMPLATE = 'CPU = "0.1"\nMEMORY = "1000"\n'


def test_a_save_takes_its_base_time_and_the_memory_over_the_rate(stage: Stage) -> None:
    vm = stage.bring("RUNNING", 'CPU = "1"\nMEMORY = "1000"\n')
    began_ms = stage.cloud.clock.now_ms
    stage.do(vm, "suspend")
    stage.cloud.advance(5.999)
    assert vm.lcm_state.name == "SAVE_SUSPEND"
    stage.cloud.advance(0.001)
    assert vm.state.name == "SUSPENDED"
    assert stage.cloud.clock.now_ms - began_ms == 6000


def test_durations_can_differ_by_host_and_by_vm(stage: Stage) -> None:
    stage.cloud.durations_of_host[0] = Durations(boot_s=100, prolog_s=0)
    vm, other = stage.create(), stage.create()
    stage.cloud.durations_of_vm[other.id] = INSTANT
    stage.cloud.vm_deploy(ONEADMIN, vm.id, 0)
    stage.cloud.vm_deploy(ONEADMIN, other.id, 1)
    stage.cloud.advance(0)
    assert (vm.lcm_state.name, other.lcm_state.name) == ("BOOT", "RUNNING")
    stage.cloud.advance(100)
    assert vm.lcm_state.name == "RUNNING"


@pytest.mark.parametrize(
    ("limits", "transfers", "operations", "on_a_host"),
    [(DriverLimits(), 15, 15, 1), (DriverLimits(4, 2, 6), 6, 4, 2), (DriverLimits(15, 15, 15), 15, 15, 15)],
)
def test_never_more_work_at_once_than_the_ceilings_allow(
    limits: DriverLimits, transfers: int, operations: int, on_a_host: int
) -> None:
    cloud = SimulatedCloud(limits=limits, durations=Durations(boot_s=7, prolog_s=3))
    cloud.add_datastore("system")
    for number in range(20):
        cloud.add_host(f"node{number}")
    vms = [cloud.vm_allocate(ONEADMIN, TEMPLATE) for _ in range(60)]
    for vm_id in vms:
        cloud.vm_deploy(ONEADMIN, vm_id, vm_id % 20)
    most = [0, 0, 0]
    while (at_s := cloud.next_event_at()) is not None:
        cloud.run_until(at_s)
        running = cloud.drivers.running()
        moving = sum(job.operation in TRANSFERS for job in running)
        hosts = [job.host_id for job in running if job.operation not in TRANSFERS]
        now = [moving, len(hosts), max((hosts.count(host) for host in hosts), default=0)]
        most = [max(pair) for pair in zip(most, now, strict=True)]
    assert most[:2] == [transfers, operations]
    assert most[2] <= on_a_host
    assert all(cloud.vms[vm_id].lcm_state.name == "RUNNING" for vm_id in vms)


def test_a_busy_host_lets_later_work_on_other_hosts_pass(stage: Stage) -> None:
    first, second, third = (stage.create() for _ in range(3))
    for vm, host_id in ((first, 0), (second, 0), (third, 1)):
        stage.cloud.vm_deploy(ONEADMIN, vm.id, host_id)
    stage.cloud.advance(2 + 5)
    assert [vm.lcm_state.name for vm in (first, second, third)] == ["RUNNING", "BOOT", "RUNNING"]


FAILED = {
    (Operation.PROLOG, "deploy"): "PROLOG_FAILURE",
    (Operation.BOOT, "deploy"): "BOOT_FAILURE",
    (Operation.SAVE, "suspend"): "RUNNING",
    (Operation.SAVE, "stop"): "RUNNING",
    (Operation.EPILOG_STOP, "stop"): "EPILOG_STOP_FAILURE",
    (Operation.SHUTDOWN, "undeploy"): "RUNNING",
    (Operation.EPILOG, "terminate"): "EPILOG_FAILURE",
    (Operation.LIVE_MIGRATE, "live"): "RUNNING",
    (Operation.SAVE, "migrate"): "RUNNING",
    (Operation.RESTORE, "migrate"): "BOOT_MIGRATE_FAILURE",
}


@pytest.mark.parametrize(("operation", "word"), FAILED)
def test_a_failed_operation_leaves_the_vm_where_oned_leaves_it(stage: Stage, operation: Operation, word: str) -> None:
    vm = stage.bring("PENDING" if word == "deploy" else "RUNNING")
    stage.cloud.faults.add(Fault(operation, vm_id=vm.id))
    stage.do(vm, word)
    stage.cloud.settle()
    assert vm.lcm_state.name == FAILED[operation, word]
    if vm.lcm_state.name == "RUNNING":
        assert (vm.history[-1].host_id, vm.history[-1].action, vm.history[-1].etime_s) == (0, 0, 0)
    assert stage.cloud.audit() == []
    assert stage.cloud.faults.faults[0].count == 0


def test_a_failed_restore_leaves_the_guest_suspended_with_its_quota_back(stage: Stage) -> None:
    vm = stage.bring("SUSPENDED")
    stage.cloud.faults.add(Fault(Operation.RESTORE, host_id=0))
    stage.do(vm, "resume")
    stage.cloud.settle()
    assert vm.state.name == "SUSPENDED"
    assert stage.cloud.audit() == []
    stage.do(vm, "resume")
    stage.cloud.settle()
    assert vm.lcm_state.name == "RUNNING"


def test_a_hanging_stop_never_ends_and_recover_ends_it(stage: Stage) -> None:
    vm = stage.bring("RUNNING")
    stage.cloud.faults.add(Fault(Operation.SAVE, Misbehaviour.HANG))
    stage.do(vm, "stop")
    assert stage.cloud.next_event_at() is None
    stage.cloud.advance(100_000)
    assert vm.lcm_state.name == "SAVE_STOP"
    stage.cloud.vm_recover(ONEADMIN, vm.id, 0)
    assert vm.lcm_state.name == "RUNNING"
    assert stage.cloud.drivers.running() == []


def test_a_slow_operation_takes_longer_by_its_factor(stage: Stage) -> None:
    vm = stage.bring("RUNNING")
    stage.cloud.faults.add(Fault(Operation.SHUTDOWN, Misbehaviour.SLOW, factor=18))
    stage.do(vm, "undeploy")
    stage.cloud.advance(179)
    assert vm.lcm_state.name == "SHUTDOWN_UNDEPLOY"
    stage.cloud.advance(2)
    assert vm.state.name == "UNDEPLOYED"


def test_a_hard_poweroff_overtakes_one_that_hangs(stage: Stage) -> None:
    vm = stage.bring("RUNNING")
    stage.cloud.faults.add(Fault(Operation.SHUTDOWN, Misbehaviour.HANG))
    stage.do(vm, "poweroff")
    stage.cloud.advance(50)
    stage.do(vm, "poweroff-hard")
    stage.cloud.settle()
    assert (vm.state.name, vm.history[-1].action) == ("POWEROFF", 20)


def test_faults_strike_by_count_target_and_seeded_chance() -> None:
    plan = FaultPlan(seed=3)
    plan.add(Fault(Operation.SAVE, vm_id=4, count=2))
    plan.add(Fault(Operation.BOOT, host_id=1, count=None, probability=0.5))
    saves = [plan.strike(Operation.SAVE, vm_id, 0) is not None for vm_id in (3, 4, 4, 4)]
    assert saves == [False, True, True, False]
    boots = [plan.strike(Operation.BOOT, 0, 1) is not None for _ in range(200)]
    assert 70 < sum(boots) < 130
    again = FaultPlan(seed=3, faults=[Fault(Operation.BOOT, host_id=1, count=None, probability=0.5)])
    assert [again.strike(Operation.BOOT, 0, 1) is not None for _ in range(200)] == boots
    plan.clear()
    assert plan.strike(Operation.BOOT, 0, 1) is None
