"""Reservations and sleeping hosts: what is promised, when hosts are woken for it, and who is preempted instead."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import msgspec
import pytest
from msgspec.structs import replace

from one_preempt.configuration.settings import OverheadSettings
from one_preempt.core.energy.policy import Occasion, SupplyDecision, SupplyQuestion
from one_preempt.core.energy.power_rules import QuietHours, utc_minute
from one_preempt.core.model.cluster_state import IntArray
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.power_sequence import PowerPhase
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.model.written_time import utc_text
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.queue import queue_room
from one_preempt.core.phases.reservations.room_ahead import ceiling
from one_preempt.simulation.simulated_cloud.states import LcmState, VmState
from one_preempt.simulation.simulator.site import LOCALS, simulation_settings
from tests.power import power_play
from tests.power.power_play import BOOT_S, RULES, PowerPlay, with_policy

HOUR_S = 3600


def reserved(play: PowerPlay, in_s: int, lasts: str = "00:10:00", cpu: int = 2) -> int:
    start = utc_text(play.cloud.clock.now_s() + in_s)
    return play.submit(cpu, f'TYPE = "DC-NON-PREEMPTABLE", START = "{start}", DURATION = "{lasts}"')


def a_gang(play: PowerPlay, *cpus: int, lasts: str = "01:00:00") -> list[int]:
    """A lease of VMs of so many CPUs, which may preempt."""
    terms = f'TYPE = "DC-NON-PREEMPTABLE", NAME = "gang", SIZE = {len(cpus)}, DURATION = "{lasts}"'
    return [play.submit(cpu, terms) for cpu in cpus]


def verdict(play: PowerPlay, lease_id: int) -> Verdict:
    return next(record.verdict for record in play.store.leases() if record.id == lease_id)


def is_running(play: PowerPlay, vm_id: int) -> bool:
    vm = play.cloud.vms[vm_id]
    return vm.state == VmState.ACTIVE and vm.lcm_state == LcmState.RUNNING


def starts_after_s(play: PowerPlay, leases: list[int], start_s: int) -> list[int]:
    """How long after the instant each of them runs."""
    found: dict[int, int] = {}
    while len(found) < len(leases):
        play.pass_time(play.pace_s)
        now_s = play.cloud.clock.now_s()
        assert now_s < start_s + HOUR_S, play.phases()
        found |= {lease: now_s - start_s for lease in leases if lease not in found and is_running(play, lease)}
    return sorted(found.values())


@pytest.mark.parametrize("policy", ["look-ahead", "PEMP", "SESP", "GESP", "always-on"])
def test_a_reservation_is_promised_sleeping_hosts_and_starts_in_time(policy: str) -> None:
    play = PowerPlay(hosts=2)
    play.until(lambda: len(play.asleep()) == 2)
    play.rules = with_policy(policy)
    play.start_daemon()
    lease, start_ms = reserved(play, HOUR_S), play.cloud.clock.now_ms + 1000 * HOUR_S
    play.cycle()
    assert verdict(play, lease) is Verdict.ACCEPTED
    play.until(lambda: is_running(play, lease), at_most_s=2 * HOUR_S)
    assert 0 <= play.cloud.clock.now_ms - start_ms <= 15_000


@pytest.mark.parametrize("policy", ["look-ahead", "PEMP", "SESP", "GESP"])
def test_no_more_is_promised_than_can_boot_in_turns_until_the_start(policy: str) -> None:
    play = PowerPlay(hosts=4, rules=replace(RULES, most_booting=1))
    play.until(lambda: len(play.asleep()) == 4)
    play.rules = with_policy(policy, play.rules)
    play.start_daemon()
    start_s = play.cloud.clock.now_s() + 2 * BOOT_S + 90
    leases = [reserved(play, 2 * BOOT_S + 90) for _ in range(4)]
    play.cycle()
    accepted = [lease for lease in leases if verdict(play, lease) is Verdict.ACCEPTED]
    assert len(accepted) == 2
    assert max(starts_after_s(play, accepted, start_s)) <= 30
    # For those that were refused nobody is woken.
    assert play.machines.boots == 2


def test_look_ahead_wakes_a_boot_before_the_start_and_pemp_at_once() -> None:
    woken_after_s = {}
    for policy in ("look-ahead", "PEMP"):
        play = PowerPlay(hosts=2)
        play.until(lambda play=play: len(play.asleep()) == 2)  # type: ignore[misc]
        play.rules = with_policy(policy)
        play.start_daemon()
        reserved(play, HOUR_S)
        began_ms = play.cloud.clock.now_ms
        play.until(lambda play=play: play.machines.boots > 0, at_most_s=HOUR_S)  # type: ignore[misc]
        woken_after_s[policy] = (play.cloud.clock.now_ms - began_ms) // 1000
    assert woken_after_s["PEMP"] <= 10
    assert HOUR_S - BOOT_S - 45 <= woken_after_s["look-ahead"] <= HOUR_S - BOOT_S


@pytest.mark.parametrize(("policy", "on"), [("GESP", 1), ("SESP", 2)])
def test_reservations_of_other_times_are_packed_by_gesp_alone(policy: str, on: int) -> None:
    play = PowerPlay(hosts=4)
    play.until(lambda: len(play.asleep()) == 4)
    play.rules = with_policy(policy)
    play.start_daemon()
    together = [reserved(play, 600), reserved(play, 600)]
    play.cycle()
    assert len(play.asleep()) == 2
    later = [reserved(play, 2400 + 900 * turn) for turn in range(3)]
    play.until(lambda: all(is_running(play, lease) for lease in together))
    for lease in together:
        play.end(lease)
    play.pass_time(120)
    assert len(play.asleep()) == 4 - on
    for lease in later:
        play.until(partial(is_running, play, lease), at_most_s=2 * HOUR_S)
        play.end(lease)
    assert len({play.cloud.vms[lease].history[-1].host_id for lease in later}) == on


def test_a_host_that_a_reservation_needs_tomorrow_sleeps_until_then() -> None:
    play = PowerPlay(hosts=1)
    lease = reserved(play, 2 * HOUR_S)
    play.until(lambda: play.asleep() == [0])
    assert verdict(play, lease) is Verdict.ACCEPTED
    play.until(lambda: is_running(play, lease), at_most_s=3 * HOUR_S)


def test_a_host_that_a_reservation_needs_soon_stays_on() -> None:
    play = PowerPlay(hosts=1)
    lease = reserved(play, BOOT_S)
    play.until(lambda: is_running(play, lease))
    assert play.machines.boots == 0


def test_too_many_to_boot_at_once_begin_earlier() -> None:
    play = PowerPlay(hosts=4, rules=replace(RULES, most_booting=1))
    play.until(lambda: len(play.asleep()) == 4)
    start_s = play.cloud.clock.now_s() + HOUR_S
    leases = [reserved(play, HOUR_S) for _ in range(4)]
    assert starts_after_s(play, leases, start_s)[-1] <= 15


def reserved_on(play: PowerPlay, host: int, start_s: int) -> int:
    terms = f'LEASE = [ TYPE = "DC-NON-PREEMPTABLE", START = "{utc_text(start_s)}", DURATION = "00:10:00" ]\n'
    return submitted_on(play, host, terms)


def submitted_on(play: PowerPlay, host: int, terms: str = "") -> int:
    template = f'CPU = "2"\nMEMORY = "512"\nSCHED_REQUIREMENTS = "ID = {host}"\n{terms}'
    (vm,) = play.cloud.add_vms(play.user(LOCALS), template, 1, hold=bool(terms))
    return vm


def all_asleep(hosts: int, policy: str = "look-ahead") -> PowerPlay:
    """Of which one boots at a time."""
    play = PowerPlay(hosts, rules=replace(RULES, most_booting=1))
    play.until(lambda: len(play.asleep()) == hosts)
    play.rules = with_policy(policy, play.rules)
    play.start_daemon()
    return play


def test_the_queue_takes_no_turn_that_a_reservation_needs_within_a_boot() -> None:
    play = all_asleep(2)
    start_s = play.cloud.clock.now_s() + BOOT_S + 60
    lease = reserved_on(play, 0, start_s)
    play.cycle()
    waits = submitted_on(play, 1)
    assert max(starts_after_s(play, [lease], start_s)) <= 30
    play.until(lambda: play.host_of(waits) == 1)


def test_the_floor_takes_no_such_turn_either() -> None:
    play = all_asleep(3)
    start_s = play.cloud.clock.now_s() + BOOT_S + 60
    lease = reserved_on(play, 2, start_s)
    play.cycle()
    play.rules = replace(play.rules, floor=2)
    play.start_daemon()
    assert max(starts_after_s(play, [lease], start_s)) <= 30
    play.until(lambda: len(play.asleep()) == 1)


def test_nor_does_a_reservation_of_a_later_time() -> None:
    play = all_asleep(3, "SESP")
    start_s = play.cloud.clock.now_s() + 1000
    leases = [reserved_on(play, host, start_s) for host in (0, 1)]
    play.pass_time(1000 - BOOT_S - 90)
    assert play.machines.boots == 1
    later = reserved_on(play, 2, start_s + HOUR_S)
    assert max(starts_after_s(play, leases, start_s)) <= 30
    assert max(starts_after_s(play, [later], start_s + HOUR_S)) <= 30


def test_a_preemptor_waits_for_a_boot_instead_of_preempting_where_the_policy_says_so() -> None:
    play = PowerPlay(hosts=2, rules=replace(RULES, floor=1))
    play.until(lambda: len(play.asleep()) == 1)
    victim = play.submit(lease='TYPE = "BE-SUSPENDABLE", DURATION = "10:00:00"', external=True)
    play.until(lambda: is_running(play, victim))
    urgent = play.submit(lease='TYPE = "DC-NON-PREEMPTABLE", DURATION = "01:00:00"')
    play.until(lambda: is_running(play, urgent))
    assert is_running(play, victim)
    assert all(not report.plan.preemptions for report in play.reports if report.plan is not None)


@pytest.mark.parametrize("policy", ["look-ahead", "PEMP", "SESP", "GESP"])
@pytest.mark.parametrize("may_leave", [True, False])
def test_a_preemptor_wakes_no_host_that_is_too_small_for_it(policy: str, may_leave: bool) -> None:
    play = PowerPlay(hosts=1, large=1, rules=replace(with_policy(policy), floor=1))
    large = 1
    vm = play.submit(4, 'TYPE = "BE-SUSPENDABLE", DURATION = "10:00:00"' if may_leave else "", external=may_leave)
    play.until(lambda: play.asleep() == [0])
    assert play.host_of(vm) == large
    urgent = play.submit(4, 'TYPE = "DC-NON-PREEMPTABLE", DURATION = "01:00:00"')
    play.pass_time(600)
    assert is_running(play, urgent) is may_leave
    assert play.asleep() == [0]
    assert play.machines.boots == 0


@pytest.mark.parametrize("policy", ["look-ahead", "PEMP", "SESP", "GESP"])
def test_a_gang_wakes_no_host_that_has_room_for_a_part_of_it_alone(policy: str) -> None:
    play = PowerPlay(hosts=1, large=1, rules=replace(with_policy(policy), floor=1))
    there = play.submit(4)
    play.until(lambda: play.asleep() == [0])
    gang = a_gang(play, 2, 2)
    play.pass_time(600)
    assert play.asleep() == [0]
    assert play.machines.boots == 0
    play.end(there)
    play.until(lambda: all(is_running(play, vm) for vm in gang))


def test_a_gang_wakes_no_host_that_was_promised_to_somebody_within_its_time() -> None:
    play = PowerPlay(hosts=2, large=1, rules=replace(RULES, floor=2))
    on_the_large, on_the_small = play.submit(4), [play.submit(2), play.submit(2)]
    play.until(lambda: all(is_running(play, vm) for vm in (on_the_large, *on_the_small)))
    play.end(on_the_large)
    play.until(lambda: play.asleep() == [2])
    reserved(play, 2 * HOUR_S, cpu=4)
    play.pass_time(60)
    there, ends = on_the_small
    play.end(ends)
    boots = play.machines.boots
    gang = a_gang(play, 2, 2, lasts="05:00:00")
    play.pass_time(600)
    assert play.machines.boots == boots
    play.end(there)
    play.until(lambda: all(is_running(play, vm) for vm in gang))


def test_a_gang_of_unlike_vms_has_a_host_woken_that_has_room_for_its_smaller_one() -> None:
    play = PowerPlay(hosts=1, large=1, rules=replace(RULES, floor=1))
    before = play.submit(4)
    play.until(lambda: play.asleep() == [0])
    play.end(before)
    gang = a_gang(play, 4, 2)
    play.until(lambda: all(is_running(play, vm) for vm in gang))


@pytest.mark.parametrize("policy", ["PEMP", "SESP", "GESP"])
def test_a_reservation_that_is_to_preempt_wakes_nobody_instead(policy: str) -> None:
    play = PowerPlay(hosts=2, rules=replace(with_policy(policy), floor=1))
    play.until(lambda: len(play.asleep()) == 1)
    victim = play.submit(lease='TYPE = "BE-SUSPENDABLE", DURATION = "10:00:00"', external=True)
    play.until(lambda: is_running(play, victim))
    lease, on = reserved(play, HOUR_S), play.host_of(victim)
    play.until(lambda: play.host_of(victim) is None, at_most_s=2 * HOUR_S)
    # Who has left may have the other host woken, to return there.
    assert play.machines.boots == 0
    play.until(lambda: is_running(play, lease), at_most_s=2 * HOUR_S)
    plans = [report.plan for report in play.reports if report.plan is not None]
    promised = [one for plan in plans for booking in plan.bookings for one in booking.reservations if one.firm]
    # Not for a moment is it promised the host that sleeps.
    assert {one.host_ids for one in promised if one.lease_id == lease} == {(on,)}
    assert play.host_of(lease) == on


@pytest.mark.parametrize("policy", ["PEMP", "SESP", "GESP"])
def test_others_leave_in_time_though_hosts_sleep_that_are_woken_for_nobody(
    monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    slowed(monkeypatch, 10.0)  # a victim is saved in 51 s
    play = PowerPlay(hosts=2, rules=replace(with_policy(policy), floor=1))
    play.until(lambda: len(play.asleep()) == 1)
    victim = play.submit(lease='TYPE = "BE-SUSPENDABLE", DURATION = "10:00:00"', external=True)
    play.until(lambda: is_running(play, victim))
    lease, start_s = reserved(play, HOUR_S), play.cloud.clock.now_s() + HOUR_S
    play.until(lambda: not is_running(play, victim), at_most_s=HOUR_S)
    # Somebody may be woken later, for who has left.
    assert play.machines.boots == 0
    assert starts_after_s(play, [lease], start_s)[-1] <= 15


@pytest.mark.parametrize("policy", ["look-ahead", "PEMP", "SESP", "GESP"])
def test_two_reservations_of_one_instant_are_promised_hosts_of_their_own(policy: str) -> None:
    play = PowerPlay(hosts=3, rules=replace(with_policy(policy), floor=2))
    play.until(lambda: len(play.asleep()) == 1)
    leases = [reserved(play, HOUR_S) for _ in range(2)]
    play.cycle()
    assert [verdict(play, lease) for lease in leases] == [Verdict.ACCEPTED] * 2
    play.until(lambda: all(is_running(play, lease) for lease in leases), at_most_s=2 * HOUR_S)
    assert play.machines.boots == 0


def slowed(monkeypatch: pytest.MonkeyPatch, suspend_mib_per_s: float) -> None:
    slow = msgspec.structs.replace(
        simulation_settings(), overhead=OverheadSettings(suspend_mib_per_s=suspend_mib_per_s, learn=False)
    )
    monkeypatch.setattr(power_play, "simulation_settings", lambda: slow)


def in_use(play: PowerPlay, asleep: int) -> list[int]:
    """Leases that may leave on all hosts that are on, once so many sleep."""
    play.until(lambda: len(play.asleep()) == asleep)
    terms = 'TYPE = "BE-SUSPENDABLE", DURATION = "10:00:00"'
    leases = [play.submit(2, terms, external=True) for _ in range(len(play.cloud.hosts) - asleep)]
    play.until(lambda: all(is_running(play, lease) for lease in leases))
    return leases


@pytest.mark.parametrize("policy", ["PEMP", "SESP", "GESP"])
def test_the_second_of_an_instant_counts_no_boots_that_the_first_was_not_promised(
    monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    slowed(monkeypatch, 0.5)  # nobody can leave in time
    play = PowerPlay(hosts=6, rules=replace(with_policy(policy), most_booting=2, floor=2))
    in_use(play, asleep=4)
    leases = [reserved(play, 300) for _ in range(2)]
    play.cycle()
    assert [verdict(play, lease) for lease in leases] == [Verdict.ACCEPTED] * 2


def test_reservations_move_to_no_hosts_that_cannot_boot_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    slowed(monkeypatch, 10.0)
    play = PowerPlay(hosts=6, rules=replace(RULES, most_booting=1, floor=2))
    in_use(play, asleep=4)
    play.pass_time(900)
    start_s = play.cloud.clock.now_s() + 2 * BOOT_S + 90
    leases = [reserved(play, 2 * BOOT_S + 90) for _ in range(4)]
    assert starts_after_s(play, leases, start_s)[-1] <= 15
    assert play.machines.boots == 2


@pytest.mark.parametrize("policy", ["look-ahead", "PEMP", "SESP", "GESP"])
def test_who_wants_to_start_now_waits_for_no_boot(policy: str) -> None:
    play = PowerPlay(hosts=2, rules=replace(with_policy(policy), floor=1))
    (victim,) = in_use(play, asleep=1)
    now = play.submit(2, 'TYPE = "DC-NON-PREEMPTABLE", START = "now", DURATION = "00:10:00"')
    play.cycle()
    assert verdict(play, now) is Verdict.ACCEPTED
    play.until(lambda: is_running(play, now), at_most_s=60)
    assert not is_running(play, victim)


@dataclass
class Sparing:
    """Would have nobody woken for a reservation, nor preempted."""

    name: str = "sparing"
    description: str = ""
    puts_off: bool = False
    strands: bool = False

    def decide(self, question: SupplyQuestion) -> SupplyDecision:
        return SupplyDecision(switch_off=question.nodes.unscheduled if question.occasion is Occasion.IDLE else 0)


def test_no_number_of_a_policy_refuses_a_reservation_that_hosts_can_be_up_for() -> None:
    play = PowerPlay(hosts=2, rules=replace(RULES, policy=Sparing()))
    play.until(lambda: len(play.asleep()) == 2)
    lease = reserved(play, HOUR_S)
    play.cycle()
    assert verdict(play, lease) is Verdict.ACCEPTED
    play.until(lambda: is_running(play, lease), at_most_s=2 * HOUR_S)
    assert play.machines.boots == 1


def test_with_everybody_awake_a_preemptor_preempts_as_ever() -> None:
    play = PowerPlay(hosts=1)
    victim = play.submit(lease='TYPE = "BE-SUSPENDABLE", DURATION = "10:00:00"', external=True)
    play.until(lambda: is_running(play, victim))
    urgent = play.submit(lease='TYPE = "DC-NON-PREEMPTABLE", DURATION = "01:00:00"')
    play.until(lambda: is_running(play, urgent))
    assert not is_running(play, victim)


def test_what_waits_is_promised_a_host_on_its_way_up() -> None:
    play = PowerPlay(hosts=1)
    play.until(lambda: play.asleep() == [0])
    lease = play.submit(lease='TYPE = "BE-SUSPENDABLE", DURATION = "01:00:00"', external=True)
    play.until(lambda: play.phase(0) is PowerPhase.SWITCHING_ON)
    play.pass_time(10)
    promised = play.store.load(play.cloud.clock.now_s()).reservations[lease]
    assert promised[0].host_ids == (0,)
    assert 0 < promised[0].start_at_s - play.cloud.clock.now_s() <= BOOT_S


def test_leases_that_may_move_leave_a_host_that_is_hardly_used() -> None:
    play = PowerPlay(hosts=2, rules=replace(RULES, floor=1))
    terms = 'TYPE = "DC-MIGRATABLE", DURATION = "20:00:00"'
    first, second = play.submit(1, terms, external=True), play.submit(1, terms, external=True)
    play.cloud.vm_deploy(play.user("oneadmin"), first, 0, True, -1, "")
    play.cloud.vm_deploy(play.user("oneadmin"), second, 1, True, -1, "")
    play.until(lambda: len(play.asleep()) == 1)
    assert is_running(play, first)
    assert is_running(play, second)
    assert play.host_of(first) == play.host_of(second)


def test_who_waits_while_all_is_full_is_not_looked_for_in_the_future(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def noted(draft: PlanDraft, lease: Lease, start_s: int, end_s: int | None) -> IntArray | None:
        asked.append(start_s)
        return ceiling(draft, lease, start_s, end_s)

    monkeypatch.setattr(queue_room, "ceiling", noted)
    play = PowerPlay(hosts=3, rules=with_policy("GESP", replace(RULES, floor=2)))
    play.until(lambda: len(play.asleep()) == 1)
    lease = reserved(play, HOUR_S)
    lasting = 'TYPE = "BE-SUSPENDABLE", DURATION = "04:00:00"'
    running = [play.submit(2, lasting) for _ in range(2)]
    play.until(lambda: all(is_running(play, one) for one in running))
    asked.clear()
    # The second in the queue is promised nothing: it starts if there is room now.
    waiting = [play.submit(2, lasting) for _ in range(3)]
    play.pass_time(30)
    assert not any(is_running(play, one) for one in waiting)
    assert not asked
    play.end(running[0])
    play.pass_time(30)
    assert asked
    assert verdict(play, lease) is Verdict.ACCEPTED


@pytest.mark.parametrize("terms", ["", 'TYPE = "BE-SUSPENDABLE", DURATION = "20:00:00"'])
def test_who_may_not_move_keeps_its_host_on(terms: str) -> None:
    play = PowerPlay(hosts=2)
    vms = [play.submit(1, terms, external=True) for _ in range(2)]
    for host, vm in enumerate(vms):
        play.cloud.vm_deploy(play.user("oneadmin"), vm, host, True, -1, "")
    play.pass_time(900)
    assert play.asleep() == []
    assert [play.host_of(vm) for vm in vms] == [0, 1]


# -- hosts with reservations that start much later -----------------------------------------------------------


@dataclass
class Emptying:
    """Wakes all that is asked for at once, and has all hosts emptied that could be."""

    name: str = "emptying"
    description: str = ""
    puts_off: bool = False
    strands: bool = False

    def decide(self, question: SupplyQuestion) -> SupplyDecision:
        if question.occasion is Occasion.IDLE:
            return SupplyDecision(switch_off=question.nodes.unscheduled)
        if question.occasion is Occasion.PERIODIC:
            return SupplyDecision(consolidate=len(question.emptiable.empty_s))
        return SupplyDecision(wake=min(question.nodes_asked, question.nodes.bootable))


def test_a_reservation_waits_the_moment_until_its_host_is_up_and_preempts_nobody() -> None:
    play = PowerPlay(hosts=2, rules=replace(RULES, floor=1))
    play.until(lambda: len(play.asleep()) == 1)
    victim = play.submit(lease='TYPE = "BE-SUSPENDABLE", DURATION = "10:00:00"', external=True)
    play.until(lambda: is_running(play, victim))
    play.rules = replace(play.rules, policy=Emptying())
    play.start_daemon()
    # It is woken at once, and its boot ends when the reservation starts: it is enabled some seconds later.
    lease, start_s = reserved(play, BOOT_S), play.cloud.clock.now_s() + BOOT_S
    play.cycle()
    assert 0 < starts_after_s(play, [lease], start_s)[-1] <= 15
    assert is_running(play, victim)
    assert all(not report.plan.preemptions for report in play.reports if report.plan is not None)


@pytest.mark.parametrize(
    ("external", "suspend_mib_per_s", "boots"), [(True, 1000.0, 1), (False, 1.0, 1), (False, 1000.0, 0)]
)
def test_so_that_its_host_can_sleep_a_reservation_moves_only_where_there_will_be_room(
    monkeypatch: pytest.MonkeyPatch, external: bool, suspend_mib_per_s: float, boots: int
) -> None:
    slowed(monkeypatch, suspend_mib_per_s)
    in_s = 480
    play = PowerPlay(hosts=2, rules=replace(with_policy("always-on"), floor=1))
    other = play.submit(lease='TYPE = "BE-SUSPENDABLE", DURATION = "10:00:00"', external=True)
    play.until(lambda: is_running(play, other))
    start_s = play.cloud.clock.now_s() + in_s
    # Nobody leaves for external ones.
    terms = f'TYPE = "DC-NON-PREEMPTABLE", START = "{utc_text(start_s)}", DURATION = "00:10:00"'
    lease = play.submit(lease=terms, external=external)
    play.cycle()
    play.rules = replace(play.rules, policy=Emptying(), period_s=60)
    play.start_daemon()
    assert starts_after_s(play, [lease], start_s)[-1] <= 15
    assert play.machines.boots == boots
    assert is_running(play, other) is bool(boots)


@pytest.mark.parametrize(("suspend_mib_per_s", "boots"), [(1000.0, 0), (2.0, 1)])
def test_for_a_host_that_sleeps_until_then_others_are_preempted_only_if_they_leave_in_time(
    monkeypatch: pytest.MonkeyPatch, suspend_mib_per_s: float, boots: int
) -> None:
    slowed(monkeypatch, suspend_mib_per_s)
    play = PowerPlay(hosts=2, rules=replace(RULES, floor=1))
    play.until(lambda: len(play.asleep()) == 1)
    victim = play.submit(lease='TYPE = "BE-SUSPENDABLE", DURATION = "10:00:00"', external=True)
    play.until(lambda: is_running(play, victim))
    lease, start_s = reserved(play, HOUR_S), play.cloud.clock.now_s() + HOUR_S
    play.cycle()
    # It has a host that sleeps, and whoever decides by now would rather preempt.
    play.rules = replace(with_policy("SESP"), floor=1)
    play.start_daemon()
    assert starts_after_s(play, [lease], start_s)[-1] <= 15
    assert (play.machines.boots, is_running(play, victim)) == (boots, boots == 1)


def emptied(hosts: int, in_s: int, floor: int = 0, most_booting: int = 8) -> tuple[PowerPlay, list[int], int]:
    """As many reservations as hosts, all at once, so that none can move to another host."""
    rules = replace(RULES, policy=Emptying(), period_s=60, floor=floor, most_booting=most_booting)
    play = PowerPlay(hosts, rules)
    start_s = play.cloud.clock.now_s() + in_s
    leases = [reserved(play, in_s) for _ in range(hosts)]
    play.cycle()
    return play, leases, start_s


@pytest.mark.parametrize("most_booting", [8, 1])
def test_a_host_whose_reservations_cannot_move_sleeps_until_they_start(most_booting: int) -> None:
    play, leases, start_s = emptied(4, HOUR_S, most_booting=most_booting)
    play.until(lambda: len(play.asleep()) == 4)
    assert starts_after_s(play, leases, start_s)[-1] <= 15
    assert play.machines.boots == 4
    assert {play.host_of(lease) for lease in leases} == {0, 1, 2, 3}


def test_it_stays_on_where_sleep_would_save_nothing() -> None:
    play, leases, start_s = emptied(2, 2 * BOOT_S + 30)
    assert starts_after_s(play, leases, start_s)[-1] <= 15
    assert play.machines.boots == 0


def test_no_more_sleep_until_then_than_can_boot_one_after_another() -> None:
    play, leases, start_s = emptied(4, 4 * BOOT_S, most_booting=1)
    assert starts_after_s(play, leases, start_s)[-1] <= 15
    assert play.machines.boots == 2


def test_of_hosts_that_sleep_until_a_start_the_floor_stays_on() -> None:
    play, leases, start_s = emptied(3, HOUR_S, floor=1)
    play.until(lambda: len(play.asleep()) == 2)
    play.pass_time(300)
    assert len(play.asleep()) == 2
    assert starts_after_s(play, leases, start_s)[-1] <= 15


def test_it_sleeps_through_no_quiet_hours_that_it_would_be_woken_in() -> None:
    play, leases, start_s = emptied(2, HOUR_S)
    quiet = QuietHours(utc_minute(start_s - 900), utc_minute(start_s + 900))
    play.rules = replace(play.rules, quiet_hours=(quiet,))
    play.start_daemon()
    play.until(lambda: len(play.asleep()) == 2)
    play.pass_time(start_s - 600 - play.cloud.clock.now_s())
    assert play.asleep() == []
    assert starts_after_s(play, leases, start_s)[-1] <= 15


@pytest.mark.parametrize("policy", ["look-ahead", "PEMP"])
def test_for_a_slot_before_a_deadline_no_host_is_woken_where_one_that_is_on_has_room(policy: str) -> None:
    """When it was accepted all slept, and it was promised the second; somebody has had the first woken since."""
    play = all_asleep(2, policy)
    now_s = play.cloud.clock.now_s()
    times = f'START = "{utc_text(now_s + 1200)}", DEADLINE = "{utc_text(now_s + 3600)}"'
    lease = play.submit(1, f'TYPE = "DC-NON-PREEMPTABLE", {times}, DURATION = "00:10:00"')
    play.cycle()
    assert verdict(play, lease) is Verdict.ACCEPTED
    template = 'CPU = "1"\nMEMORY = "512"\nSCHED_REQUIREMENTS = "ID = 0"\n'
    play.cloud.add_vms(play.user(LOCALS), template, 1, hold=False)
    play.until(lambda: is_running(play, lease))
    assert play.cloud.clock.now_s() - now_s <= 1210
    assert (play.host_of(lease), play.machines.boots) == (0, 1)


@pytest.mark.parametrize("policy", ["look-ahead", "PEMP"])
def test_who_is_promised_a_host_that_is_enabled_long_after_its_boot_has_it_in_time(policy: str) -> None:
    play = PowerPlay(2, rules=replace(with_policy(policy), enable_after_s=BOOT_S + 180))
    play.until(lambda: len(play.asleep()) == 2)
    start_s = play.cloud.clock.now_s() + 1200
    lease = reserved(play, 1200)
    play.cycle()
    assert verdict(play, lease) is Verdict.ACCEPTED
    assert starts_after_s(play, [lease], start_s)[-1] <= 15
    # A start before it could be up is not promised.
    play = PowerPlay(2, rules=replace(with_policy(policy), enable_after_s=BOOT_S + 180))
    play.until(lambda: len(play.asleep()) == 2)
    too_soon = reserved(play, BOOT_S + 90)
    play.cycle()
    assert verdict(play, too_soon) is Verdict.REFUSED
