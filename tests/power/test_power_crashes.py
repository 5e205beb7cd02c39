"""The daemon is killed between any two steps of a power sequence: no host is off in the wrong way, none forgotten."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Any

import pytest
from msgspec.structs import replace

from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore
from one_preempt.core.model.power_sequence import PowerPhase
from one_preempt.simulation.simulated_cloud.host_power import PowerMishap
from one_preempt.simulation.simulated_cloud.states import HostState
from one_preempt.simulation.simulator.enactor import SimulatedEnactor
from tests.mortal import AFTER, NEVER, Killed, Mortal
from tests.power.power_play import PowerPlay

PARTS = 4
WRITES = ("apply", "record_plan", "begin_power_step", "record_power_result", "begin_attempt", "record_result",
          "record_host_use")  # fmt: skip


class MortalPlay(Mortal, PowerPlay):
    """Dies once, at the boundary of that number before or after a write or call; then it is started again."""

    pace_s = 15

    def __init__(self, dies_at: int, **more: Any) -> None:
        """`dies_at` counts from the beginning, or from when `expect_death` is called."""
        Mortal.__init__(self, dies_at)
        PowerPlay.__init__(self, hosts=1, **more)
        self.make_mortal(self.store, WRITES)
        self.cloud.host_status = self.mortal(self.cloud.host_status)  # type: ignore[method-assign]
        self.control = MortalControl(self)
        self.start_daemon()

    def _enactor(self) -> SimulatedEnactor:
        enactor = super()._enactor()
        self.make_mortal(enactor, ("perform",))
        return enactor

    def uses(self) -> list[str]:
        """What the host did, which follows what it did before without a hole."""
        stays = self.store.host_use(0, self.cloud.clock.now_s() + 1)
        assert [one.until_s for one in stays] == [*(one.since_s for one in stays[1:]), None], stays
        return [use.value for use, _ in groupby(stay.use for stay in stays)]

    def expect_death(self) -> None:
        """What went before is not to be died in."""
        self.dies_at += self.passed

    def cycle(self) -> Any:
        try:
            return super().cycle()
        except Killed:
            self.start_daemon()
            return super().cycle()


class MortalControl:
    """The machines' controllers, asked by a process that may die."""

    def __init__(self, play: MortalPlay) -> None:
        machines = play.machines
        self.switch_on = play.mortal(machines.switch_on)
        self.switch_off = play.mortal(machines.switch_off)
        self.status = play.mortal(machines.status)


def day_and_night(play: MortalPlay) -> int:
    """The host falls asleep, is woken for a VM, and falls asleep again; how many boundaries that has."""
    play.until(lambda: play.asleep() == [0])
    vm = play.submit()
    play.until(lambda: play.host_of(vm) == 0)
    play.pass_time(20)
    play.end(vm)
    play.until(lambda: play.asleep() == [0])
    assert play.machines.boots == 1
    assert play.cloud.hosts[0].state is HostState.OFFLINE
    return play.passed


def somebody_comes(play: MortalPlay) -> int:
    """An administrator puts a VM on the host as soon as it is DISABLED: it stays on, and sleeps when the VM is gone."""
    mine = play.submit(lease='TYPE = "BE-SUSPENDABLE", START = "2100-01-01T00:00:00Z"')
    play.until(lambda: play.cloud.hosts[0].state is HostState.DISABLED)
    play.cloud.vm_deploy(play.user("oneadmin"), mine, 0, True, -1, "")
    play.until(lambda: play.cloud.hosts[0].state is HostState.MONITORED)
    play.pass_time(60)
    assert play.host_of(mine) == 0
    assert play.phase(0) is PowerPhase.AWAKE
    assert play.machines.boots == 0
    play.end(mine)
    play.until(lambda: play.asleep() == [0])
    return play.passed


def hangs_once(play: MortalPlay) -> int:
    """The host hangs in a boot that somebody waits for: its power is cut, and it comes up; crashes only after it hung.

    How often its power is cut tells nobody: an order of which the answer was lost is given again.
    """
    play.rules = replace(play.rules, boot_timeout_s=150, first_pause_s=30)
    play.start_daemon()
    play.until(lambda: play.asleep() == [0])
    play.machines.mishaps[0] = PowerMishap.NEVER_UP
    vm = play.submit()
    play.until(lambda: play.phase(0) is PowerPhase.FAILED, at_most_s=3600)
    assert play.machines.boots == 1
    del play.machines.mishaps[0]
    before = play.passed
    play.expect_death()
    play.until(lambda: play.host_of(vm) == 0, at_most_s=3600)
    play.pass_time(30)
    assert play.machines.boots == 2
    assert play.store.power_sequences()[0].failures == 0
    assert play.uses() == ["on", "shutting-down", "off", "booting", "failed", "booting", "on"]
    return play.passed - before


PLAYS = [day_and_night, somebody_comes, hangs_once]


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("play", PLAYS)
def test_killed_anywhere_it_ends_as_if_nothing_had_been(play: Callable[[MortalPlay], int], part: int) -> None:
    undisturbed = MortalPlay(NEVER)
    boundaries = play(undisturbed)
    assert boundaries > 20
    for dies_at in range(AFTER * (1 + part), boundaries + 1, AFTER * PARTS):
        mortal = MortalPlay(dies_at)
        play(mortal)
        assert mortal.has_died, f"boundary {dies_at} was never reached"
        assert mortal.uses() == undisturbed.uses(), f"killed at boundary {dies_at}"


def test_a_new_process_that_reads_the_database_goes_on_as_well(new_database: Callable[[], SqlLeaseStore]) -> None:
    boundaries = day_and_night(MortalPlay(NEVER, store=new_database()))
    for dies_at in range(AFTER, boundaries + 1, 13 * AFTER):
        mortal = MortalPlay(dies_at, store=new_database())
        day_and_night(mortal)
        assert mortal.has_died
