"""Host states: what disabling, OFFLINE, enabling and death do to hosts and VMs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from one_preempt.simulation.simulated_cloud.errors import OnedError
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN

if TYPE_CHECKING:
    from tests.simulation.simulated_cloud.conftest import Stage

ENABLED, DISABLED, OFFLINE = 0, 1, 2


def test_offline_wipes_capacity_until_the_host_was_monitored_again(stage: Stage) -> None:
    host, cloud = stage.hosts[0], stage.cloud
    vm = stage.bring("RUNNING")
    cloud.host_status(ONEADMIN, 0, OFFLINE)
    share = host.share
    assert (host.state.name, share.max_cpu, share.total_mem, share.cpu_usage) == ("OFFLINE", 0, 0, 100)
    assert "TOTALCPU" not in host.template
    assert vm.lcm_state.name == "RUNNING"
    with pytest.raises(OnedError, match="Host is offline, cannot use it to deploy VM"):
        cloud.vm_deploy(ONEADMIN, stage.create().id, 0)
    cloud.advance(1000)
    assert host.state.name == "OFFLINE"
    cloud.host_status(ONEADMIN, 0, ENABLED)
    assert (host.state.name, share.max_cpu) == ("INIT", 0)
    cloud.advance(10)
    assert (host.state.name, share.max_cpu, share.max_mem) == ("MONITORED", 800, 16384 * 1024)
    assert host.template["TOTALCPU"] == ["800"]


def test_a_disabled_host_takes_deploys_and_is_enabled_at_once(stage: Stage) -> None:
    stage.cloud.host_status(ONEADMIN, 0, DISABLED)
    vm = stage.bring("RUNNING")
    assert vm.history[-1].host_id == 0
    stage.cloud.host_status(ONEADMIN, 0, ENABLED)
    assert stage.hosts[0].state.name == "MONITORED"


def test_a_host_that_was_offline_is_monitored_while_disabled_but_stays_so(stage: Stage) -> None:
    stage.cloud.host_status(ONEADMIN, 0, OFFLINE)
    stage.cloud.host_status(ONEADMIN, 0, DISABLED)
    assert stage.hosts[0].share.total_cpu == 0
    stage.cloud.settle()
    assert (stage.hosts[0].state.name, stage.hosts[0].share.total_cpu) == ("DISABLED", 800)


def test_a_dead_host_becomes_error_and_its_running_vms_unknown(stage: Stage) -> None:
    running, suspended = stage.bring("RUNNING"), stage.bring("SUSPENDED")
    stage.cloud.kill_host(0)
    stage.cloud.advance(59)
    assert stage.hosts[0].state.name == "MONITORED"
    stage.cloud.advance(1)
    assert stage.hosts[0].state.name == "ERROR"
    assert (running.lcm_state.name, suspended.state.name) == ("UNKNOWN", "SUSPENDED")
    assert stage.hosts[0].share.running_vms == 2
    stage.do(suspended, "resume")
    stage.cloud.settle()
    assert suspended.state.name == "SUSPENDED"
    assert stage.cloud.audit() == []


@pytest.mark.parametrize(("survived", "state"), [(True, "RUNNING"), (False, "POWEROFF")])
def test_a_revived_host_finds_its_guests_running_or_off(stage: Stage, survived: bool, state: str) -> None:
    vm = stage.bring("UNKNOWN")
    stage.cloud.revive_host(0, guests_survived=survived)
    stage.cloud.settle()
    assert stage.hosts[0].state.name == "MONITORED"
    assert (vm.lcm_state.name if vm.state.name == "ACTIVE" else vm.state.name) == state
    assert stage.cloud.audit() == []


def test_a_host_that_dies_offline_or_disabled_never_becomes_error(stage: Stage) -> None:
    stage.cloud.host_status(ONEADMIN, 0, OFFLINE)
    stage.cloud.host_status(ONEADMIN, 1, DISABLED)
    stage.cloud.kill_host(0)
    stage.cloud.kill_host(1)
    stage.cloud.settle()
    assert [host.state.name for host in stage.hosts[:2]] == ["OFFLINE", "DISABLED"]


def test_a_stop_on_a_host_that_dies_half_way_falls_back_and_is_unknown(stage: Stage) -> None:
    vm = stage.bring("RUNNING")
    stage.do(vm, "stop")
    stage.cloud.advance(1)
    stage.cloud.kill_host(0)
    stage.cloud.settle()
    assert vm.lcm_state.name == "UNKNOWN"
    assert stage.cloud.audit() == []


def test_flush_disables_and_marks_what_can_be_moved(stage: Stage) -> None:
    running, off, suspended = (stage.bring(name) for name in ("RUNNING", "POWEROFF", "SUSPENDED"))
    locked = stage.bring("RUNNING")
    stage.cloud.vm_lock(stage.alice, locked.id, 1)
    stage.cloud.host_flush(ONEADMIN, 0)
    assert stage.hosts[0].state.name == "DISABLED"
    assert [vm.resched for vm in (running, off, suspended, locked)] == [True, True, False, False]
    stage.do(running, "live")
    stage.cloud.settle()
    assert not running.resched


def test_reservations_shrink_and_stretch_what_may_be_used(stage: Stage) -> None:
    share = stage.hosts[0].share
    stage.cloud.host_update(ONEADMIN, 0, 'RESERVED_CPU = "-800"\nRESERVED_MEM = "25%"', 1)
    assert (share.max_cpu, share.max_mem) == (1600, 12288 * 1024)
    stage.cloud.host_update(ONEADMIN, 0, 'BMC = "10.0.0.1"', 1)
    assert stage.hosts[0].template["BMC"] == ["10.0.0.1"]
    assert share.max_cpu == 1600


def test_reservations_that_are_no_numbers_reserve_nothing(stage: Stage) -> None:
    share = stage.hosts[0].share
    before = share.max_cpu, share.max_mem
    stage.cloud.host_update(ONEADMIN, 0, 'RESERVED_CPU = "x"\nRESERVED_MEM = "inf%"', 1)
    assert (share.max_cpu, share.max_mem) == before


@pytest.mark.parametrize("written", ['NIC = [ NETWORK_ID = "x" ]', 'DISK = [ TYPE = "fs", SIZE = "x" ]'])
def test_what_is_no_number_in_a_users_template_is_an_error_of_oned(stage: Stage, written: str) -> None:
    with pytest.raises(OnedError, match=r"virtual network|SIZE"):
        stage.create(f'CPU = "1"\nMEMORY = "512"\n{written}')


@pytest.mark.parametrize("policy", ["PINNED", "NONE"])
def test_no_host_refuses_a_vm_without_threads_of_its_own_when_nobody_asks_for_the_check(
    stage: Stage, policy: str
) -> None:
    stage.cloud.host_update(ONEADMIN, 0, f'PIN_POLICY = "{policy}"', 1)
    large = stage.create('CPU = "9"\nMEMORY = "512"')
    with pytest.raises(OnedError, match="Not enough CPU: 900/"):
        stage.cloud.vm_deploy(ONEADMIN, large.id, 0, enforce=True)
    stage.cloud.vm_deploy(ONEADMIN, large.id, 0, enforce=False)
    assert stage.hosts[0].share.cpu_usage == 900


def test_monitoring_counts_what_runs_not_what_is_held(stage: Stage) -> None:
    stage.bring("RUNNING")
    stage.bring("SUSPENDED")
    told = stage.cloud.host_info(ONEADMIN, 0).monitoring.capacity
    assert (told["USED_CPU"], told["FREE_CPU"], stage.hosts[0].share.cpu_usage) == ("100", "700", 200)


def test_a_new_host_is_init_until_monitored_and_names_are_taken_once(stage: Stage) -> None:
    host_id = stage.cloud.host_allocate(ONEADMIN, "node09", "kvm", "kvm", -1)
    assert stage.cloud.hosts[host_id].state.name == "INIT"
    stage.cloud.settle()
    assert stage.cloud.hosts[host_id].share.max_cpu == 800
    with pytest.raises(OnedError, match=rf"NAME is already taken by HOST {host_id}"):
        stage.cloud.host_allocate(ONEADMIN, "node09", "kvm", "kvm", -1)
    assert [host.id for host in stage.cloud.host_pool(ONEADMIN)] == [3, 2, 1, 0]
    assert stage.cloud.host_pool(stage.alice) == []
