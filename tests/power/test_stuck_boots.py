"""A host that hangs in its boot has its power cut, once, and is started again, crashes on the way or not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore
from one_preempt.core.model.power import PowerAnswer, PowerOutcome
from one_preempt.core.model.power_sequence import PowerPhase
from one_preempt.enactment.power_enactment import PowerEnactment
from one_preempt.policy_registry import ENERGY_POLICIES
from one_preempt.simulation.simulated_cloud.host_power import PowerMishap
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN
from one_preempt.simulation.simulated_cloud.states import HostState
from tests.power.power_play import BOOT_S, RULES, Counting, PowerPlay

AWAKE, CUTTING_POWER, FAILED = PowerPhase.AWAKE, PowerPhase.CUTTING_POWER, PowerPhase.FAILED


class StuckPlay(PowerPlay):
    """One host that was asleep, is wanted, and hangs in its boot."""

    def __init__(self, **more: object) -> None:
        super().__init__(hosts=1, rules=replace(RULES, longest_pause_s=600), control=Counting, **more)  # type: ignore[arg-type]
        self.until(lambda: self.asleep() == [0])
        self.machines.mishaps[0] = PowerMishap.NEVER_UP
        self.vm = self.submit()
        self.until(lambda: self.phase(0) is FAILED, at_most_s=3600)

    def orders(self, word: str) -> int:
        assert isinstance(self.control, Counting)
        return self.control.orders.count((word, "node0"))


def test_a_host_that_hangs_once_comes_up_after_its_power_was_cut() -> None:
    play = StuckPlay()
    del play.machines.mishaps[0]
    play.until(lambda: play.phase(0) is AWAKE, at_most_s=3600)
    assert play.orders("hard-off") == 1
    play.until(lambda: play.host_of(play.vm) == 0)


def test_a_host_that_hangs_again_is_left_alone() -> None:
    play = StuckPlay()
    play.until(lambda: play.orders("hard-off") == 1, at_most_s=3600)
    play.pass_time(4 * 3600)
    assert play.orders("hard-off") == 1
    assert play.store.power_sequences()[0].failures > 1


@pytest.mark.parametrize("policy", ["look-ahead", "PEMP"])
def test_who_may_preempt_waits_for_no_host_that_should_be_up_by_now(policy: str) -> None:
    play = PowerPlay(2, replace(RULES, policy=ENERGY_POLICIES.named(policy)))
    play.submit(2, 'TYPE = "BE-SUSPENDABLE"', external=True)
    play.until(lambda: len(play.asleep()) == 1)
    play.machines.mishaps[play.asleep()[0]] = PowerMishap.NEVER_UP
    urgent = play.submit(2, 'TYPE = "DC-NON-PREEMPTABLE", DURATION = "01:00:00"')
    play.until(lambda: play.host_of(urgent) is not None, at_most_s=BOOT_S + 90)


def test_another_host_is_woken_for_who_waits_for_one_that_should_be_up_by_now() -> None:
    play = PowerPlay(3, replace(RULES, boot_timeout_s=BOOT_S + 90))
    play.until(lambda: len(play.asleep()) == 3)
    play.machines.mishaps[0] = PowerMishap.DOES_NOTHING
    first = play.submit(2)
    play.until(lambda: play.host_of(first) == 1, at_most_s=2 * BOOT_S + 120)
    play.until(lambda: play.phase(0) is FAILED)
    # Nor is it tried again before another one once its pause is over.
    play.until(lambda: play.asleep() == [0, 2])
    second = play.submit(2)
    play.until(lambda: play.host_of(second) == 2, at_most_s=BOOT_S + 60)


def test_what_comes_up_while_it_is_left_alone_keeps_its_power() -> None:
    play = StuckPlay()
    del play.machines.mishaps[0]
    play.cloud.revive_host(0)
    play.cloud.host_status(ONEADMIN, 0, 0)
    play.until(lambda: play.phase(0) is AWAKE)
    assert play.orders("hard-off") == 0


def test_a_host_that_an_administrator_took_meanwhile_keeps_its_power() -> None:
    play = StuckPlay()
    play.cloud.host_status(ONEADMIN, 0, 1)
    play.pass_time(1200)
    assert (play.phase(0), play.orders("hard-off")) == (AWAKE, 0)


def test_what_an_administrator_puts_offline_once_it_was_enabled_keeps_its_power_and_stays_his() -> None:
    play = StuckPlay()
    assert play.cloud.hosts[0].state.name in ("INIT", "ERROR")
    play.cloud.host_status(ONEADMIN, 0, 2)
    play.pass_time(1200)
    assert (play.phase(0), play.orders("hard-off"), play.orders("on")) == (AWAKE, 0, 1)
    assert play.cloud.hosts[0].state is HostState.OFFLINE


def test_a_host_that_is_taken_while_its_cut_waits_for_a_turn_keeps_its_power(monkeypatch: pytest.MonkeyPatch) -> None:
    play = StuckPlay()
    assert isinstance(play.control, Counting)
    switch_off = play.control.switch_off

    def taken_meanwhile(host: str, hard: bool) -> PowerOutcome:
        monkeypatch.setattr(play.control, "switch_off", switch_off)
        play.cloud.host_status(ONEADMIN, 0, 1)
        return PowerOutcome(PowerAnswer.CHANGED_HANDS, "host node0 is DISABLED, expected was ERROR")

    monkeypatch.setattr(play.control, "switch_off", taken_meanwhile)
    play.pass_time(1200)
    assert (play.phase(0), play.orders("hard-off")) == (AWAKE, 0)
    assert play.cloud.hosts[0].state is HostState.DISABLED


def test_a_cut_of_which_nobody_could_tell_whether_it_may_be_is_put_again(monkeypatch: pytest.MonkeyPatch) -> None:
    play = StuckPlay()
    assert isinstance(play.control, Counting)
    del play.machines.mishaps[0]
    switch_off = play.control.switch_off

    def no_answer_of_oned(host: str, hard: bool) -> PowerOutcome:
        monkeypatch.setattr(play.control, "switch_off", switch_off)
        return PowerOutcome(PowerAnswer.CHANGED_HANDS, "one.host.info: no answer")

    monkeypatch.setattr(play.control, "switch_off", no_answer_of_oned)
    play.until(lambda: play.phase(0) is AWAKE, at_most_s=3600)
    assert play.orders("hard-off") == 1


def test_nothing_is_cut_while_power_actions_are_paused() -> None:
    play = StuckPlay()
    play.store.set_paused(True, play.cloud.clock.now_s())
    play.pass_time(1200)
    assert (play.phase(0), play.orders("hard-off")) == (CUTTING_POWER, 0)
    del play.machines.mishaps[0]
    play.store.set_paused(False, play.cloud.clock.now_s())
    play.until(lambda: play.phase(0) is AWAKE, at_most_s=3600)


@pytest.mark.parametrize("dies_at", range(6))
def test_a_crash_on_the_way_brings_the_host_back_all_the_same(
    dies_at: int, new_database: Callable[[], SqlLeaseStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    play = StuckPlay(store=new_database())
    del play.machines.mishaps[0]
    play.until(lambda: play.phase(0) is CUTTING_POWER)
    passed = iter(range(1000))
    enact = PowerEnactment.enact

    def dies_before_or_after(enactment: PowerEnactment, *given: object) -> object:
        """Odd numbers die when all was carried out, even ones before anything is."""
        number = next(passed)
        done = enact(enactment, *given) if number != dies_at or dies_at % 2 else ()  # type: ignore[arg-type]
        if number == dies_at:
            play.start_daemon()
        return done

    monkeypatch.setattr(PowerEnactment, "enact", dies_before_or_after)
    play.until(lambda: play.phase(0) is AWAKE, at_most_s=3600)
    # An order of which the answer was lost is given again.
    assert play.orders("hard-off") in (1, 2)
    assert play.store.power_sequences()[0].failures == 0
