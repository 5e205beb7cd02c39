"""Machines that go off, boot and come back: what their controllers say, and what oned shows meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from one_preempt.core.energy.power_model import HostPower
from one_preempt.core.model.power import PowerAnswer, PowerStatus
from one_preempt.simulation.simulated_cloud.host_power import PowerChange, PowerMishap, SimulatedHostPower
from one_preempt.simulation.simulated_cloud.host_power_state import HostPowerState
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN

if TYPE_CHECKING:
    from tests.simulation.simulated_cloud.conftest import Stage

ENABLED, DISABLED, OFFLINE = 0, 1, 2


def sleeping(stage: Stage, host_id: int = 0, shutdown_s: int = 30) -> SimulatedHostPower:
    """Host 0 went to sleep as it should."""
    power = SimulatedHostPower(stage.cloud, HostPower(boot_s=120, shutdown_s=shutdown_s))
    name = stage.cloud.hosts[host_id].name
    for status in (DISABLED, OFFLINE):
        stage.cloud.host_status(ONEADMIN, host_id, status)
    assert power.switch_off(name, hard=False).accepted
    stage.cloud.advance(shutdown_s)
    return power


def test_a_host_shuts_down_sleeps_boots_and_is_monitored_once_it_is_enabled(stage: Stage) -> None:
    cloud, host = stage.cloud, stage.hosts[0]
    power = sleeping(stage)
    assert power.status(host.name).status is PowerStatus.OFF
    assert (host.state.name, host.share.max_cpu) == ("OFFLINE", 0)
    assert power.switch_on(host.name).accepted
    assert (power.status(host.name).status, power.state(0)) == (PowerStatus.ON, HostPowerState.BOOTING)
    cloud.advance(119)
    assert power.state(0) is HostPowerState.BOOTING
    cloud.advance(100)
    assert (power.state(0), host.state.name) == (HostPowerState.IDLE, "OFFLINE")
    cloud.host_status(ONEADMIN, 0, ENABLED)
    cloud.advance(10)
    assert (host.state.name, host.share.max_cpu) == ("MONITORED", 800)


def test_a_host_enabled_too_early_is_error_until_it_is_up(stage: Stage) -> None:
    cloud, host = stage.cloud, stage.hosts[0]
    power = sleeping(stage)
    power.switch_on(host.name)
    cloud.host_status(ONEADMIN, 0, ENABLED)
    cloud.advance(100)
    assert host.state.name == "ERROR"
    cloud.advance(30)
    assert host.state.name == "MONITORED"


def test_changes_are_told_as_they_come(stage: Stage) -> None:
    power = sleeping(stage, shutdown_s=0)
    told: list[PowerChange] = []
    power.on_change(told.append)
    start_ms = stage.cloud.clock.now_ms
    power.switch_on(stage.hosts[0].name)
    stage.cloud.advance(300)
    assert power.switch_off(stage.hosts[0].name, hard=True).accepted
    stage.cloud.advance(1)
    assert [(change.at_ms - start_ms, change.state) for change in told] == [
        (0, HostPowerState.BOOTING),
        (120_000, HostPowerState.IDLE),
        (300_000, HostPowerState.SHUTTING_DOWN),
        (300_000, HostPowerState.OFF),
    ]
    assert power.boots == 1


def test_a_hard_order_ends_a_boot_and_the_next_boot_takes_its_whole_time(stage: Stage) -> None:
    power, name = sleeping(stage), stage.hosts[0].name
    power.switch_on(name)
    stage.cloud.advance(60)
    power.switch_off(name, hard=False)
    assert power.state(0) is HostPowerState.BOOTING
    power.switch_off(name, hard=True)
    assert power.state(0) is HostPowerState.OFF
    power.switch_on(name)
    stage.cloud.advance(119)
    assert power.state(0) is HostPowerState.BOOTING
    stage.cloud.advance(1)
    assert power.state(0) is HostPowerState.IDLE


def test_a_machine_obeys_though_a_guest_is_on_it_and_that_is_noted(stage: Stage) -> None:
    vm = stage.bring("RUNNING")
    power = SimulatedHostPower(stage.cloud)
    assert power.state(0) is HostPowerState.BUSY
    power.switch_off(stage.hosts[0].name, hard=True)
    stage.cloud.settle()
    assert [(host_id, vms) for _, host_id, vms in power.lost_guests] == [(0, (vm.id,))]
    assert (stage.hosts[0].state.name, vm.lcm_state.name) == ("ERROR", "UNKNOWN")


@pytest.mark.parametrize(
    ("mishap", "at_120_s", "at_1200_s"),
    [
        (PowerMishap.DOES_NOTHING, HostPowerState.OFF, HostPowerState.OFF),
        (PowerMishap.NEVER_UP, HostPowerState.BOOTING, HostPowerState.BOOTING),
        (PowerMishap.SLOW, HostPowerState.BOOTING, HostPowerState.IDLE),
    ],
)
def test_what_goes_wrong_is_accepted_and_shows_later(
    stage: Stage, mishap: PowerMishap, at_120_s: HostPowerState, at_1200_s: HostPowerState
) -> None:
    power = sleeping(stage)
    power.mishaps[0] = mishap
    assert power.switch_on(stage.hosts[0].name).accepted
    stage.cloud.advance(120)
    assert power.state(0) is at_120_s
    stage.cloud.advance(1080)
    assert power.state(0) is at_1200_s


def test_a_silent_controller_tells_nothing_and_an_unknown_name_has_none(stage: Stage) -> None:
    power, name = SimulatedHostPower(stage.cloud), stage.hosts[0].name
    power.mishaps[0] = PowerMishap.SILENT
    assert power.status(name).status is PowerStatus.UNKNOWN
    assert power.switch_off(name, hard=True).answer is PowerAnswer.UNREACHABLE
    assert power.switch_on("elsewhere").answer is PowerAnswer.MISCONFIGURED


def test_a_machine_that_dies_has_failed_until_it_is_back(stage: Stage) -> None:
    power = SimulatedHostPower(stage.cloud)
    stage.cloud.kill_host(0)
    assert power.state(0) is HostPowerState.FAILED
    stage.cloud.revive_host(0)
    assert power.state(0) is HostPowerState.IDLE
