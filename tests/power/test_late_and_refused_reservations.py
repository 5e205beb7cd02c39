"""Reservations whose hosts come up too late, and those that were refused: what becomes of everybody else's hosts."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from one_preempt.configuration.settings import TimeSettings
from one_preempt.core.energy.policy import Occasion, SupplyDecision, SupplyQuestion
from one_preempt.core.model.reservation import Verdict
from tests.power.power_play import RULES, PowerPlay
from tests.power.test_power_and_reservations import in_use, is_running, reserved, starts_after_s, verdict


def test_who_has_a_right_to_start_does_not_wait_for_a_boot_that_has_just_begun() -> None:
    play = PowerPlay(hosts=2, rules=replace(RULES, floor=1))
    (victim,) = in_use(play, asleep=1)
    lease, start_s = reserved(play, 600), play.cloud.clock.now_s() + 600
    play.cycle()
    # It was promised the host that sleeps, and nobody may wake that until shortly before the start.
    play.store.set_paused(True, play.cloud.clock.now_s())
    play.pass_time(590)
    play.store.set_paused(False, play.cloud.clock.now_s())
    assert starts_after_s(play, [lease], start_s)[-1] <= 15
    assert not is_running(play, victim)


def test_an_immediate_lease_that_waits_in_the_queue_instead_has_a_host_woken() -> None:
    play = PowerPlay(hosts=2, rules=replace(RULES, floor=1), time=TimeSettings(refused_reservation="queue"))
    in_use(play, asleep=1)
    lease = play.submit(2, 'TYPE = "BE-SUSPENDABLE", START = "now", DURATION = "00:10:00"', external=True)
    play.cycle()
    assert verdict(play, lease) is Verdict.CONVERTED
    play.until(lambda: is_running(play, lease))


@dataclass
class EmptyingOnArrival:
    """Would have a host emptied for each reservation, and wakes none."""

    name: str = "emptying-on-arrival"
    description: str = ""
    puts_off: bool = False
    strands: bool = False

    def decide(self, question: SupplyQuestion) -> SupplyDecision:
        return SupplyDecision(consolidate=1 if question.occasion is Occasion.ARRIVAL else 0)


def test_for_a_reservation_that_was_refused_no_host_is_emptied() -> None:
    play = PowerPlay(hosts=3, rules=replace(RULES, floor=2))
    play.until(lambda: len(play.asleep()) == 1)
    on = [host for host in range(3) if host not in play.asleep()]
    vms = [play.submit(1, 'TYPE = "DC-MIGRATABLE", DURATION = "20:00:00"', external=True) for _ in on]
    for vm, host in zip(vms, on, strict=True):
        play.cloud.vm_deploy(play.user("oneadmin"), vm, host, True, -1, "")
    play.rules = replace(play.rules, policy=EmptyingOnArrival(), floor=1)
    play.start_daemon()
    play.pass_time(30)
    lease = reserved(play, 20, cpu=4)
    play.pass_time(60)
    assert verdict(play, lease) is Verdict.REFUSED
    assert [play.host_of(vm) for vm in vms] == on
