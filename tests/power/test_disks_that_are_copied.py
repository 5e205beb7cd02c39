"""A host from which a VM's disks are still copied keeps its power, though oned counts nobody there any more."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from one_preempt.configuration.settings import VictimSettings
from one_preempt.core.model.power_sequence import PowerGoal, PowerOrder, PowerPhase
from one_preempt.simulation.simulated_cloud.states import LcmState, VmState
from tests.power.power_play import RULES, PowerPlay

COPY_S = 900
SOURCE, TARGET = 0, 1
COLD = VictimSettings(methods={"DC-MIGRATABLE": ["migrate"]})
PLAIN, SUSPENDED, OFF = "running", "suspend", "poweroff-hard"


def on_the_source(play: PowerPlay, state: str, lease: str = "") -> int:
    """A VM on the first host in this state; another one keeps the second host on."""
    root = play.user("oneadmin")
    vm, other = (play.submit(1, lease, external=bool(lease)) for _ in range(2))
    for vm_id, host in ((vm, SOURCE), (other, TARGET)):
        play.cloud.vm_deploy(root, vm_id, host)
    play.pass_time(5)
    if state != PLAIN:
        play.cloud.vm_action(root, state, vm)
        play.pass_time(5)
    return vm


def copied_meanwhile(play: PowerPlay, vm: int, done: Callable[[], bool]) -> bool:
    """Play until the copy is over; whether anything was `done` before that."""
    early = False
    while play.cloud.vms[vm].lcm_state.name.startswith("PROLOG_MIGRATE"):
        early |= done()
        play.pass_time(5)
    return early


@pytest.mark.parametrize("state", [PLAIN, SUSPENDED, OFF])
def test_the_source_of_a_migration_sleeps_once_the_copy_is_over(state: str) -> None:
    play = PowerPlay(2, replace(RULES, floor=1), copy_s=COPY_S)
    vm = on_the_source(play, state)
    play.cloud.vm_migrate(play.user("oneadmin"), vm, TARGET, False, False, -1, 0)
    while not play.cloud.vms[vm].lcm_state.name.startswith("PROLOG_MIGRATE"):
        play.pass_time(5)
    assert not play.cloud.hosts[SOURCE].vm_ids
    assert not copied_meanwhile(play, vm, lambda: play.phase(SOURCE) is not PowerPhase.AWAKE)
    play.until(lambda: play.asleep() == [SOURCE])


def test_after_a_copy_that_failed_the_source_stays_on() -> None:
    play = PowerPlay(2, replace(RULES, floor=1), copy_s=COPY_S)
    vm = on_the_source(play, OFF)
    play.cloud.vm_migrate(play.user("oneadmin"), vm, TARGET, False, False, -1, 0)
    play.pass_time(30)
    play.cloud.change_vm(play.cloud.vms[vm], VmState.ACTIVE, LcmState.PROLOG_MIGRATE_POWEROFF_FAILURE)
    play.pass_time(600)
    assert play.phase(SOURCE) is PowerPhase.AWAKE


def test_an_order_to_switch_it_off_waits_for_nothing_and_comes_to_nothing() -> None:
    play = PowerPlay(2, replace(RULES, floor=1, least_on_s=3600), copy_s=COPY_S)
    vm = on_the_source(play, OFF)
    play.cloud.vm_migrate(play.user("oneadmin"), vm, TARGET, False, False, -1, 0)
    play.pass_time(5)
    play.store.order_power(PowerOrder(SOURCE, PowerGoal.OFF, play.cloud.now_s))
    assert not copied_meanwhile(play, vm, lambda: play.phase(SOURCE) is not PowerPhase.AWAKE)


def test_whom_we_move_ourselves_to_empty_a_host_is_waited_for() -> None:
    play = PowerPlay(2, replace(RULES, floor=1), copy_s=COPY_S, victims=COLD)
    vm = on_the_source(play, PLAIN, 'TYPE = "DC-MIGRATABLE"')
    moved = {SOURCE: vm, TARGET: vm + 1}
    play.until(lambda: any(play.cloud.vms[one].lcm_state is LcmState.PROLOG_MIGRATE for one in moved.values()))
    source = next(host for host, one in moved.items() if play.cloud.vms[one].lcm_state is LcmState.PROLOG_MIGRATE)
    assert not copied_meanwhile(play, moved[source], lambda: not play.machines.state(source).is_on)
    assert play.cloud.vms[moved[source]].state == VmState.ACTIVE
    play.until(lambda: play.asleep() == [source])
