"""A host whose controller says yes and does nothing is told again after each pause, and sleeps once it obeys."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from one_preempt.adapters.power_control.guarded import GuardedPowerControl
from one_preempt.configuration.power_control_settings import PatienceSettings
from one_preempt.core.model.power import PowerAnswer, PowerOutcome
from one_preempt.core.model.power_sequence import PowerPhase
from one_preempt.ports import PowerControl
from one_preempt.simulation.simulated_cloud.host_power import SimulatedHostPower
from tests.power.power_play import RULES, Counting, PowerPlay

TIMEOUT_S, FIRST_PAUSE_S = 60, 60
RULES_HERE = replace(RULES, shutdown_timeout_s=TIMEOUT_S, first_pause_s=FIRST_PAUSE_S, longest_pause_s=100_000)


class Deaf(Counting):
    """Takes every order to switch off, and carries none out until it `obeys`."""

    def __init__(self, machines: PowerControl) -> None:
        super().__init__(machines)
        self.obeys = False

    def switch_off(self, host: str, hard: bool) -> PowerOutcome:
        done = super().switch_off(host, hard) if self.obeys else None
        if done is None:
            self.orders.append(("off", host))
        return done or PowerOutcome(PowerAnswer.ACCEPTED, "")


def test_it_is_told_again_after_every_pause_and_each_time_it_has_its_time_to_shut_down() -> None:
    play = PowerPlay(hosts=1, rules=RULES_HERE, control=Deaf)
    deaf = play.control
    assert isinstance(deaf, Deaf)
    told_at_s: list[int] = []
    failed_at_s: list[int] = []
    for _ in range(3000 // play.pace_s):
        play.pass_time(play.pace_s)
        now_s, failures = play.cloud.clock.now_s(), sum(one.failures for one in play.store.power_sequences())
        told_at_s += [now_s] * (len(deaf.orders) - len(told_at_s))
        failed_at_s += [now_s] * (failures - len(failed_at_s))
    assert len(failed_at_s) >= 5
    for number, (told_s, failed_s, again_s) in enumerate(zip(told_at_s, failed_at_s, told_at_s[1:], strict=False)):
        assert TIMEOUT_S <= failed_s - told_s <= TIMEOUT_S + 3 * play.pace_s
        pause_s = FIRST_PAUSE_S << number
        assert pause_s <= again_s - failed_s <= pause_s + 3 * play.pace_s
    deaf.obeys = True
    play.until(lambda: play.asleep() == [0], at_most_s=FIRST_PAUSE_S << len(failed_at_s))
    assert play.store.power_sequences()[0].failures == 0


class Unheard(Counting):
    """Nobody hears its answers to orders to switch off; the first `orders_obeyed` of them are carried out."""

    orders_obeyed = 0

    def switch_off(self, host: str, hard: bool) -> PowerOutcome:
        if len(self.orders) < self.orders_obeyed:
            super().switch_off(host, hard)
        else:
            self.orders.append(("off", host))
        return PowerOutcome(PowerAnswer.NO_ANSWER, "no answer")


@pytest.mark.parametrize("is_guarded", [False, True])
def test_who_needs_a_host_whose_stop_nobody_answers_does_not_wait_for_ever(is_guarded: bool) -> None:
    controls: list[Unheard] = []

    def control(machines: SimulatedHostPower) -> PowerControl:
        controls.append(Unheard(machines))
        return GuardedPowerControl(controls[0], machines.cloud.clock, PatienceSettings()) if is_guarded else controls[0]

    play = PowerPlay(hosts=1, rules=RULES_HERE, control=control)
    play.until(lambda: bool(controls[0].orders))
    vm = play.submit()
    begun_s = play.cloud.clock.now_s()
    play.until(lambda: controls[0].orders[-1] == ("on", "node0"), at_most_s=2 * TIMEOUT_S + 6 * play.pace_s)
    # The last order to stop had its time first.
    told = next(one for report in play.reports for one in report.discrepancies if "there was no answer" in one.text)
    assert told.code == "power-failed"
    assert play.cloud.clock.now_s() - begun_s > TIMEOUT_S
    play.until(lambda: play.host_of(vm) == 0)
    play.pass_time(300)
    assert play.machines.lost_guests == []


def test_a_host_that_obeys_an_order_that_nobody_answers_sleeps() -> None:
    class Obeys(Unheard):
        orders_obeyed = 1

    play = PowerPlay(hosts=1, rules=RULES_HERE, control=Obeys)
    play.until(lambda: play.phase(0) is PowerPhase.ASLEEP, at_most_s=TIMEOUT_S + 120)
    assert play.store.power_sequences()[0].failures == 0
