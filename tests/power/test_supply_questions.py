"""The numbers an energy policy is asked about are those of the cloud; and who counts on sleeping hosts, and who not."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from one_preempt.core.energy.gesp import POLICY as GESP
from one_preempt.core.energy.look_ahead import POLICY as LOOK_AHEAD
from one_preempt.core.energy.policy import EnergyPolicy, Occasion, SupplyDecision, SupplyQuestion
from one_preempt.core.energy.sesp import POLICY as SESP
from one_preempt.core.model.power_sequence import PowerPhase
from one_preempt.core.model.written_time import utc_text
from tests.power.power_play import BOOT_S, RULES, PowerPlay

SUSPENDABLE = 'TYPE = "BE-SUSPENDABLE", DURATION = "02:00:00"'


@dataclass
class Asked:
    """Look-ahead, or another policy, which tells what it was asked."""

    asks: EnergyPolicy = LOOK_AHEAD
    name: str = "asked"
    description: str = ""
    puts_off: bool = True
    strands: bool = False
    questions: list[SupplyQuestion] = field(default_factory=list)

    def decide(self, question: SupplyQuestion) -> SupplyDecision:
        self.questions.append(question)
        return self.asks.decide(question)

    def last(self, occasion: Occasion) -> SupplyQuestion:
        return next(one for one in reversed(self.questions) if one.occasion is occasion)


def a_play(hosts: int, floor: int = 0, asks: EnergyPolicy = LOOK_AHEAD) -> tuple[PowerPlay, Asked]:
    asked = Asked(asks, puts_off=asks.puts_off, strands=asks.strands)
    play = PowerPlay(hosts, replace(RULES, policy=asked, floor=floor, period_s=30))
    return play, asked


def running(play: PowerPlay, cpu: int = 2) -> int:
    vm = play.submit(cpu, SUSPENDABLE, external=True)
    play.until(lambda: play.host_of(vm) is not None)
    return vm


def test_a_preemptor_is_asked_about_with_what_is_free_preemptable_and_bootable() -> None:
    play, asked = a_play(4, floor=2)
    play.until(lambda: len(play.asleep()) == 2)
    vms = [running(play), running(play)]
    play.submit(2, 'TYPE = "DC-NON-PREEMPTABLE", DURATION = "01:00:00"')
    play.pass_time(5)
    question = asked.last(Occasion.ARRIVAL)
    nodes = question.nodes
    assert (question.nodes_asked, question.start_s) == (1, question.now_s + BOOT_S)
    assert (nodes.on, nodes.free, nodes.preemptable, nodes.bootable, nodes.booting) == (2, 0, 2, 2, 0)
    assert question.running.nodes.tolist() == [1, 1]
    ends = sorted(question.running.end_s.tolist())
    assert all(7000 < end_s - question.now_s <= 7300 for end_s in ends)
    assert all(play.host_of(vm) is not None for vm in vms)


def test_who_has_one_of_three_hosts_woken_has_two_leave_once_it_is_up_and_not_all_three_before() -> None:
    play, _ = a_play(4, floor=3)
    play.until(lambda: len(play.asleep()) == 1)
    [sleeping] = play.asleep()
    victims = [running(play), running(play), running(play)]
    gang = [play.submit(2, 'TYPE = "DC-NON-PREEMPTABLE", NAME = "wide", SIZE = "3"') for _ in range(3)]
    play.until(lambda: play.is_coming(sleeping))
    play.pass_time(BOOT_S - 10)
    assert all(play.host_of(vm) is not None for vm in victims)
    play.until(lambda: all(play.host_of(vm) is not None for vm in gang), at_most_s=60)
    assert sum(play.host_of(vm) is not None for vm in victims) == 1


def test_several_vms_on_a_host_are_one_node() -> None:
    play, asked = a_play(3)
    play.until(lambda: len(play.asleep()) == 3)
    for _ in range(3):
        play.submit(1, SUSPENDABLE, external=True)
    play.pass_time(60)
    question = asked.last(Occasion.PERIODIC)
    assert question.nodes_asked == 1
    assert question.nodes.bootable + question.nodes.booting <= 3


def test_the_queue_is_told_by_arrival_with_waits_and_durations() -> None:
    play, asked = a_play(1)
    play.until(lambda: play.asleep() == [0])
    play.submit(2, SUSPENDABLE, external=True)
    play.pass_time(40)
    play.submit(2, external=True)
    play.pass_time(40)
    queue = asked.last(Occasion.PERIODIC).queue
    assert queue.duration_s.tolist() == [7200, 3600]
    assert queue.waited_s.tolist() == sorted(queue.waited_s.tolist(), reverse=True)


def test_the_time_that_a_preempted_lease_ran_is_no_time_it_waited() -> None:
    play, asked = a_play(1)
    vm = play.submit(2, SUSPENDABLE, external=True)
    play.until(lambda: play.host_of(vm) is not None)
    play.pass_time(600)
    play.submit(2, 'TYPE = "DC-NON-PREEMPTABLE", DURATION = "01:00:00"')
    play.pass_time(100)
    queue = asked.last(Occasion.PERIODIC).queue
    assert queue.nodes.tolist() == [1]
    assert queue.waited_s[0] <= 130
    assert (queue.duration_s[0], queue.remaining_s[0] <= 7200 - 600) == (7200, True)


def a_gang_beside(play: PowerPlay, size: int) -> int:
    """On one host somebody runs for an hour; a lease that needs `size` whole ones waits."""
    play.until(lambda: len(play.asleep()) == len(play.phases()))
    runs = play.submit(2, 'TYPE = "BE-SUSPENDABLE", DURATION = "01:00:00"', external=True)
    play.until(lambda: play.host_of(runs) is not None)
    gang = f'TYPE = "BE-SUSPENDABLE", NAME = "gang", SIZE = {size}, DURATION = "02:00:00"'
    vms = [play.submit(2, gang, external=True) for _ in range(size)]
    return vms[0]


@pytest.mark.parametrize("strands", [False, True])
def test_who_fits_on_no_hosts_that_are_on_has_others_woken_unless_the_policy_strands_it(strands: bool) -> None:
    play, _ = a_play(3, asks=replace(GESP, strands=strands))
    play.until(lambda: len(play.asleep()) == 3)
    start_s = play.cloud.clock.now_s() + 600
    reservation = f'TYPE = "DC-NON-PREEMPTABLE", START = "{utc_text(start_s)}", DURATION = "00:10:00"'
    reserved = play.submit(2, reservation)
    gang = 'TYPE = "BE-SUSPENDABLE", NAME = "gang", SIZE = 2, DURATION = "00:20:00"'
    first, _ = (play.submit(2, gang, external=True) for _ in range(2))
    play.until(lambda: play.host_of(reserved) is not None)
    assert (play.host_of(first) is None, play.machines.boots) == ((True, 1) if strands else (False, 3))
    # The only host that is on is no use to those that wait, and is not kept on for them.
    play.end(reserved)
    play.pass_time(300)
    assert len(play.asleep()) == (3 if strands else 1)


def test_hosts_on_their_way_up_are_counted_once() -> None:
    play, asked = a_play(4)
    play.rules = replace(play.rules, most_booting=2)
    play.start_daemon()
    # It fits on no hosts that are on or come, so that it is promised none: those that come are free for it.
    a_gang_beside(play, 4)
    play.until(lambda: sum(play.is_coming(host) for host in play.cloud.hosts) == 2)
    play.pass_time(40)
    nodes = asked.last(Occasion.PERIODIC).nodes
    assert (nodes.on, nodes.free, nodes.booting, nodes.bootable) == (1, 0, 2, 1)


def test_a_host_on_its_way_up_for_somebody_else_does_not_count_for_the_queue() -> None:
    play, asked = a_play(2, asks=SESP)
    play.until(lambda: len(play.asleep()) == 2)
    start_s = play.cloud.clock.now_s() + 1000
    play.submit(2, f'TYPE = "DC-NON-PREEMPTABLE", START = "{utc_text(start_s)}", DURATION = "00:10:00"')
    play.until(lambda: play.is_coming(0))
    play.submit(2, 'TYPE = "BE-SUSPENDABLE", DURATION = "20:00:00"', external=True)
    play.pass_time(40)
    assert play.is_coming(0)
    nodes = asked.last(Occasion.PERIODIC).nodes
    assert (nodes.on, nodes.free, nodes.booting) == (0, 0, 0)


def test_what_was_promised_to_the_head_of_the_queue_is_no_hindrance_to_itself() -> None:
    play, asked = a_play(4)
    play.rules = replace(play.rules, most_booting=2)
    play.start_daemon()
    gang = a_gang_beside(play, 3)
    play.until(lambda: len(play.asleep()) == 1)
    # Nothing else is woken: so it is promised the two that are up, and the one that is in use for an hour.
    play.rules = replace(play.rules, most_booting=0)
    play.start_daemon()
    play.until(lambda: not any(play.is_coming(host) for host in play.cloud.hosts))
    play.pass_time(60)
    (promised,) = play.store.load(play.cloud.clock.now_s()).reservations[gang]
    nodes = asked.last(Occasion.PERIODIC).nodes
    assert len(promised.host_ids) == 3
    assert (nodes.on, nodes.free, nodes.booting, nodes.bootable) == (3, 2, 0, 1)


def test_hosts_of_which_others_were_promised_some_of_the_time_are_woken_last() -> None:
    play, _ = a_play(3)
    play.until(lambda: len(play.asleep()) == 3)
    start_s = play.cloud.clock.now_s() + 3600
    for _ in range(3):
        play.submit(2, f'TYPE = "DC-NON-PREEMPTABLE", START = "{utc_text(start_s)}", DURATION = "00:10:00"')
    plan = play.cycle().plan
    assert plan is not None
    promised = {booking.lease_id: booking.reservations[0].host_ids for booking in plan.bookings}
    for lease in promised:
        if promised[lease] != (0,):
            play.end(lease)
    play.submit(2, 'TYPE = "BE-SUSPENDABLE", DURATION = "20:00:00"', external=True)
    play.until(lambda: play.machines.boots > 0)
    assert sorted(promised.values()) == [(0,), (1,), (2,)]
    assert play.asleep() == [0, 2]


def test_unscheduled_are_idle_hosts_above_the_floor() -> None:
    play, asked = a_play(5, floor=2)
    play.cycle()
    assert asked.last(Occasion.IDLE).nodes.unscheduled == 3


def test_reservations_that_are_put_off_are_told_of() -> None:
    play, asked = a_play(2)
    start_s = play.cloud.clock.now_s() + 1000
    play.submit(2, f'TYPE = "DC-NON-PREEMPTABLE", START = "{utc_text(start_s)}", DURATION = "00:10:00"')
    play.pass_time(10)
    put_off = asked.last(Occasion.IDLE).put_off
    assert (put_off.nodes.tolist(), put_off.start_s.tolist()) == ([1], [start_s])


def test_reservations_that_wait_for_their_start_are_no_queued_work() -> None:
    play, asked = a_play(3, asks=GESP)
    play.until(lambda: len(play.asleep()) == 3)
    for number in (1, 2):
        start_s = play.cloud.clock.now_s() + 5000 * number
        play.submit(2, f'TYPE = "DC-NON-PREEMPTABLE", START = "{utc_text(start_s)}", DURATION = "00:10:00"')
        play.pass_time(1000)
        assert asked.last(Occasion.ARRIVAL).queue.nodes.tolist() == []
        assert asked.last(Occasion.PERIODIC).queue.nodes.tolist() == []
    for hours in (10, 20):
        play.submit(2, f'TYPE = "BE-SUSPENDABLE", DURATION = "{hours}:00:00"', external=True)
        play.pass_time(100)
    play.submit(2, f'TYPE = "DC-NON-PREEMPTABLE", START = "{utc_text(start_s + 5000)}", DURATION = "00:10:00"')
    play.pass_time(10)
    queue = asked.last(Occasion.ARRIVAL).queue
    assert (queue.nodes.tolist(), queue.duration_s.tolist()) == ([1], [72_000])


def test_the_queue_is_not_promised_hosts_that_nobody_wakes() -> None:
    play, _ = a_play(2, floor=1)
    play.rules = replace(play.rules, least_off_s=10**6)
    play.start_daemon()
    play.until(lambda: len(play.asleep()) == 1)
    vm = running(play)
    waits = play.submit(2, SUSPENDABLE, external=True)
    play.pass_time(60)
    promised = play.store.load(play.cloud.clock.now_s()).reservations[waits]
    on = play.host_of(vm)
    assert promised[0].host_ids in ((), (on,))
    assert promised[0].start_at_s - play.cloud.clock.now_s() > 6000


def test_a_vm_that_needs_devices_wakes_no_host_of_which_none_are_known() -> None:
    play, _ = a_play(1)
    play.until(lambda: play.asleep() == [0])
    template = 'CPU = "1"\nMEMORY = "512"\nPCI = [ VENDOR = "10de" ]\n'
    play.cloud.add_vms(play.user("oneadmin"), template, 1, hold=False)
    play.pass_time(200)
    assert play.phases() == [PowerPhase.ASLEEP]


def test_whoever_waits_behind_hears_that_hosts_are_being_switched_on() -> None:
    play, _ = a_play(1)
    play.until(lambda: play.asleep() == [0])
    first, second = play.submit(), play.submit()
    told = []
    while play.host_of(first) is None:
        play.pass_time(5)
        plan = play.reports[-1].plan
        told += [one.reason for one in plan.refusals if second in one.vm_ids] if plan is not None else []
    assert len(told) > BOOT_S // play.pace_s
    *while_it_boots, once_up = told
    assert {one.code for one in told} == {"no-capacity"}
    mend = "It starts when others leave. One host is being switched on."
    assert all(one.text.endswith(mend) for one in while_it_boots)
    assert "switched on" not in once_up.text
