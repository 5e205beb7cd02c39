"""Few hosts boot at a time: who was promised one that sleeps has it in time, whoever asks later."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from one_preempt.core.model.power_sequence import PowerStepKind
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.model.written_time import utc_text
from one_preempt.simulation.simulator.site import simulation_settings
from tests.power import power_play
from tests.power.power_play import BOOT_S, RULES, PowerPlay, with_policy
from tests.power.test_power_and_reservations import (
    HOUR_S,
    all_asleep,
    in_use,
    reserved,
    reserved_on,
    slowed,
    starts_after_s,
    submitted_on,
    verdict,
)

POLICIES = ["look-ahead", "PEMP", "SESP", "GESP", "always-on"]
# A lease of ten minutes takes so long, with what its start may take.
LASTS_S = 640


@pytest.mark.parametrize("policy", POLICIES)
def test_an_earlier_start_that_is_asked_for_later_takes_nobodys_turn(policy: str) -> None:
    play = all_asleep(2, policy)
    start_s = play.cloud.clock.now_s() + BOOT_S + 60
    first = reserved_on(play, 0, start_s)
    play.cycle()
    second = reserved_on(play, 1, start_s - 20)
    assert starts_after_s(play, [first], start_s)[-1] <= 30
    assert verdict(play, second) is Verdict.REFUSED


@pytest.mark.parametrize("policy", POLICIES)
def test_it_is_accepted_where_there_are_turns_for_both(policy: str) -> None:
    play = all_asleep(2, policy)
    start_s = play.cloud.clock.now_s() + 2 * BOOT_S + 90
    first = reserved_on(play, 0, start_s)
    play.cycle()
    second = reserved_on(play, 1, start_s - 20)
    assert starts_after_s(play, [first, second], start_s)[-1] <= 15
    assert verdict(play, second) is Verdict.ACCEPTED


@pytest.mark.parametrize("policy", POLICIES)
def test_between_two_boots_there_is_time_to_see_that_the_first_is_over(policy: str) -> None:
    play = all_asleep(2, policy)
    start_s = play.cloud.clock.now_s() + 2 * BOOT_S + 5
    leases = [reserved(play, 2 * BOOT_S + 5) for _ in range(2)]
    play.cycle()
    accepted = [lease for lease in leases if verdict(play, lease) is Verdict.ACCEPTED]
    assert len(accepted) == 1
    assert starts_after_s(play, accepted, start_s)[-1] <= 15


def test_the_queue_takes_no_turn_of_who_is_accepted_in_the_same_cycle() -> None:
    play = all_asleep(2)
    start_s = play.cloud.clock.now_s() + BOOT_S + 60
    submitted_on(play, 1)
    lease = reserved_on(play, 0, start_s)
    assert starts_after_s(play, [lease], start_s)[-1] <= 15


def test_of_two_that_are_due_the_first_to_start_boots_first(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = simulation_settings()
    cautious = msgspec.structs.replace(settings.time, preparation_margin_s=400)
    monkeypatch.setattr(power_play, "simulation_settings", lambda: msgspec.structs.replace(settings, time=cautious))
    play = all_asleep(2)
    now_s = play.cloud.clock.now_s()
    later, sooner = reserved_on(play, 0, now_s + 2 * BOOT_S + 50), reserved_on(play, 1, now_s + BOOT_S + 20)
    assert starts_after_s(play, [sooner], now_s + BOOT_S + 20)[-1] <= 15
    assert starts_after_s(play, [later], now_s + 2 * BOOT_S + 50)[-1] <= 15


def test_two_reservations_do_not_move_into_the_same_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    slowed(monkeypatch, 10.0)
    play = PowerPlay(hosts=4, rules=replace(with_policy("SESP"), most_booting=1, floor=2))
    in_use(play, asleep=2)
    start_s = play.cloud.clock.now_s() + BOOT_S + 120
    # Others are to leave for both, which a policy that comes now would rather not.
    leases = [reserved(play, BOOT_S + 120) for _ in range(2)]
    play.cycle()
    play.rules = with_policy("look-ahead", play.rules)
    play.start_daemon()
    plan = play.cycle().plan
    assert plan is not None
    assert len(plan.bookings) == 1
    assert starts_after_s(play, leases, start_s)[-1] <= 15


def test_the_first_reservation_of_all_takes_the_host_that_is_on_and_no_turn() -> None:
    play = PowerPlay(3, rules=replace(RULES, most_booting=1, floor=1))
    play.until(lambda: len(play.asleep()) == 2)
    start_s = play.cloud.clock.now_s() + BOOT_S + 60
    anywhere = reserved(play, BOOT_S + 60)
    play.cycle()
    other = reserved_on(play, play.asleep()[0], start_s)
    assert starts_after_s(play, [anywhere, other], start_s)[-1] <= 15
    assert {verdict(play, lease) for lease in (anywhere, other)} == {Verdict.ACCEPTED}


# -- deadlines -----------------------------------------------------------------------------------------------


def with_deadline(play: PowerPlay, in_s: int, cpu: int = 2) -> int:
    deadline = utc_text(play.cloud.clock.now_s() + in_s)
    return play.submit(cpu, f'TYPE = "DC-NON-PREEMPTABLE", DEADLINE = "{deadline}", DURATION = "00:10:00"')


@pytest.mark.parametrize("policy", POLICIES)
def test_no_more_deadlines_are_accepted_than_hosts_boot_for_in_turns(policy: str) -> None:
    play = all_asleep(4, policy)
    begin_s = play.cloud.clock.now_s()
    leases = [with_deadline(play, 2 * BOOT_S + 90 + LASTS_S) for _ in range(4)]
    play.cycle()
    accepted = [lease for lease in leases if verdict(play, lease) is Verdict.ACCEPTED]
    assert len(accepted) == 2
    assert starts_after_s(play, accepted, begin_s)[-1] <= 2 * BOOT_S + 90


@pytest.mark.parametrize("policy", POLICIES)
def test_a_deadline_takes_no_turn_of_a_reservation(policy: str) -> None:
    play = all_asleep(2, policy)
    start_s = play.cloud.clock.now_s() + BOOT_S + 60
    first = reserved_on(play, 0, start_s)
    play.cycle()
    second = with_deadline(play, BOOT_S + 50 + LASTS_S)
    assert starts_after_s(play, [first], start_s)[-1] <= 15
    assert verdict(play, second) is Verdict.REFUSED


def test_a_deadline_waits_for_its_turn_behind_a_reservation() -> None:
    play = all_asleep(2)
    begin_s = play.cloud.clock.now_s()
    first = reserved_on(play, 0, begin_s + BOOT_S + 60)
    play.cycle()
    second = with_deadline(play, 3 * BOOT_S + 90 + LASTS_S)
    assert starts_after_s(play, [first], begin_s + BOOT_S + 60)[-1] <= 15
    assert verdict(play, second) is Verdict.ACCEPTED
    assert starts_after_s(play, [second], begin_s)[-1] <= 3 * BOOT_S + 90


# -- woken early ---------------------------------------------------------------------------------------------


def told_to(play: PowerPlay, kind: PowerStepKind, since: int = 0) -> int:
    """How many hosts were, in so many cycles and the later ones."""
    plans = [report.plan for report in play.reports[since:] if report.plan is not None]
    return sum(step.kind is kind for plan in plans for step in plan.power_steps)


def test_what_is_woken_early_because_of_turns_stays_on() -> None:
    play = all_asleep(4)
    known, start_s = len(play.reports), play.cloud.clock.now_s() + HOUR_S
    leases = [reserved(play, HOUR_S) for _ in range(4)]
    assert starts_after_s(play, leases, start_s)[-1] <= 15
    assert told_to(play, PowerStepKind.SWITCH_ON, known) == 4
    assert told_to(play, PowerStepKind.DISABLE, known) == 0


@pytest.mark.parametrize(("in_s", "asleep"), [(300, 1), (900, 5)])
def test_only_so_many_go_to_sleep_until_a_start_as_can_boot_in_turns(in_s: int, asleep: int) -> None:
    play = PowerPlay(6, rules=replace(RULES, most_booting=1))
    start_s = play.cloud.clock.now_s() + in_s
    leases = [reserved(play, in_s) for _ in range(6)]
    play.pass_time(90)
    assert len(play.asleep()) == asleep
    assert starts_after_s(play, leases, start_s)[-1] <= 15
    assert told_to(play, PowerStepKind.DISABLE) == told_to(play, PowerStepKind.SWITCH_ON) == asleep


@pytest.mark.parametrize("needed", [0, 1])
def test_a_host_that_stays_on_for_who_waits_takes_no_turn_of_one_that_may_sleep(needed: int) -> None:
    play = PowerPlay(3, rules=replace(RULES, most_booting=1))
    start_s = play.cloud.clock.now_s() + 300
    leases = [reserved_on(play, host, start_s) for host in range(2)]
    # Only the first in the queue is promised anything.
    for host in (2, 2, needed):
        submitted_on(play, host, 'LEASE = [ TYPE = "BE-SUSPENDABLE", DURATION = "01:00:00" ]\n')
    play.pass_time(90)
    assert play.asleep() == [1 - needed]
    assert starts_after_s(play, leases, start_s)[-1] <= 15
