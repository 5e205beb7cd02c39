"""A START or DEADLINE that needs a device or cores of its own is promised hosts that sleep, as any other is."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from one_preempt.core.energy.policy import Occasion, SupplyDecision, SupplyQuestion
from one_preempt.core.model.power_sequence import PowerGoal, PowerOrder
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.model.written_time import utc_text
from one_preempt.policy_registry import ENERGY_POLICIES
from one_preempt.simulation.simulator.site import LOCALS
from tests.power.power_play import ALL_IDLE_SLEEP, BOOT_S, RULES, PowerPlay, with_policy
from tests.power.test_power_and_reservations import HOUR_S, Emptying, is_running, verdict
from tests.power.test_woken_for_hardware import ASKS, DEVICE, GRAPHICS, PINNED, play_with, submit


def submit_for(play: PowerPlay, more: str, terms: str, cpu: int = 1) -> int:
    lease = f'LEASE = [ TYPE = "DC-NON-PREEMPTABLE", DURATION = "00:10:00", {terms} ]\n'
    template = f'CPU = "{cpu}"\nVCPU = "{cpu}"\nMEMORY = "512"\n{more}{lease}'
    (vm_id,) = play.cloud.add_vms(play.user(LOCALS), template, 1, hold=True)
    return vm_id


def hosts_promised(play: PowerPlay, vm: int) -> set[int]:
    """All hosts on which it was ever promised room."""
    bookings = (booking for report in play.reports if report.plan is not None for booking in report.plan.bookings)
    return {host for one in bookings if one.lease_id == vm for stay in one.reservations for host in stay.host_ids}


def at(play: PowerPlay, in_s: int, word: str = "START") -> str:
    return f'{word} = "{utc_text(play.cloud.clock.now_s() + in_s)}"'


def all_asleep(policy: str, *, pinned: bool = False) -> PowerPlay:
    play = play_with(pinned=pinned)
    play.until(lambda: len(play.asleep()) == 3)
    play.rules = with_policy(policy)
    play.start_daemon()
    return play


@pytest.mark.parametrize("policy", [*ALL_IDLE_SLEEP, "always-on"])
@pytest.mark.parametrize(("more", "cpu"), [(ASKS, 1), (PINNED.format(cores=2), 2)], ids=["a device", "cores"])
def test_a_start_is_promised_the_sleeping_host_that_has_what_it_needs(policy: str, more: str, cpu: int) -> None:
    play = all_asleep(policy, pinned="PIN" in more)
    vm = submit_for(play, more, at(play, HOUR_S), cpu)
    start_s = play.cloud.clock.now_s() + HOUR_S
    play.cycle()
    assert verdict(play, vm) is Verdict.ACCEPTED
    play.until(lambda: is_running(play, vm), at_most_s=2 * HOUR_S)
    assert (play.host_of(vm), play.machines.boots) == (GRAPHICS, 3 if policy == "always-on" else 1)
    assert abs(play.cloud.clock.now_s() - start_s) <= 15


@pytest.mark.parametrize("policy", sorted(ENERGY_POLICIES.all()))
def test_so_it_is_where_hosts_without_the_device_are_on(policy: str) -> None:
    play = play_with()
    others = [play.submit() for _ in range(2)]
    play.until(lambda: len(play.asleep()) == 1 and all(is_running(play, vm) for vm in others))
    asleep = play.asleep()[0]
    for host in play.cloud.hosts.values():
        host.share.pci_devices = [{"VMID": "-1", **DEVICE}] if host.id == asleep else []
    play.rules = with_policy(policy)
    play.start_daemon()
    for other in others:
        play.end(other)
    vm = submit_for(play, ASKS, at(play, HOUR_S))
    start_s = play.cloud.clock.now_s() + HOUR_S
    play.cycle()
    assert verdict(play, vm) is Verdict.ACCEPTED
    play.until(lambda: is_running(play, vm), at_most_s=2 * HOUR_S)
    assert play.host_of(vm) == asleep
    assert abs(play.cloud.clock.now_s() - start_s) <= 15


def test_a_start_that_comes_before_the_host_can_be_up_is_refused() -> None:
    play = all_asleep("look-ahead")
    early, in_time = (submit_for(play, ASKS, at(play, in_s)) for in_s in (BOOT_S - 30, BOOT_S + 900))
    play.cycle()
    assert verdict(play, early) is Verdict.REFUSED
    assert verdict(play, in_time) is Verdict.ACCEPTED


def test_one_device_that_sleeps_is_promised_once_at_a_time() -> None:
    play = all_asleep("look-ahead")
    wishes = [submit_for(play, ASKS, at(play, in_s)) for in_s in (HOUR_S, HOUR_S + 60, HOUR_S + 900)]
    play.cycle()
    assert [verdict(play, vm) for vm in wishes] == [Verdict.ACCEPTED, Verdict.REFUSED, Verdict.ACCEPTED]


def test_a_deadline_is_promised_the_sleeping_host_and_kept() -> None:
    play = all_asleep("look-ahead")
    vm = submit_for(play, ASKS, at(play, HOUR_S, "DEADLINE"))
    ended_by_s = play.cloud.clock.now_s() + HOUR_S
    play.cycle()
    assert verdict(play, vm) is Verdict.ACCEPTED
    play.until(lambda: is_running(play, vm), at_most_s=HOUR_S)
    assert play.host_of(vm) == GRAPHICS
    assert play.cloud.clock.now_s() + 600 <= ended_by_s


def test_a_promise_moves_to_no_host_without_its_device_that_its_own_may_sleep() -> None:
    play = play_with()
    play.rules = replace(RULES, policy=Emptying(), period_s=60)
    play.start_daemon()
    start_s = play.cloud.clock.now_s() + HOUR_S
    plain = submit(play, 'SCHED_REQUIREMENTS = "ID = 0"\n')
    vm = submit_for(play, ASKS, at(play, HOUR_S))
    play.until(lambda: is_running(play, plain))
    assert verdict(play, vm) is Verdict.ACCEPTED
    play.until(lambda: is_running(play, vm), at_most_s=2 * HOUR_S)
    assert hosts_promised(play, vm) == {GRAPHICS}
    assert abs(play.cloud.clock.now_s() - start_s) <= 15


@dataclass
class OfSecondThoughts(Emptying):
    """Wakes for whoever asks, and would use the hosts that are on after all once the boot is due."""

    puts_off: bool = True

    def decide(self, question: SupplyQuestion) -> SupplyDecision:
        if question.occasion is Occasion.DUE:
            return SupplyDecision()
        return SupplyDecision(wake=min(question.nodes_asked, question.nodes.bootable))


def test_the_host_that_has_the_device_is_woken_though_others_are_on_by_then() -> None:
    play = all_asleep("look-ahead")
    vm, start_s = submit_for(play, ASKS, at(play, HOUR_S)), play.cloud.clock.now_s() + HOUR_S
    play.cycle()
    assert verdict(play, vm) is Verdict.ACCEPTED
    play.store.order_power(PowerOrder(0, PowerGoal.ON, play.cloud.clock.now_s()))
    play.until(lambda: play.asleep() == [1, 2])
    play.rules = replace(play.rules, policy=OfSecondThoughts())
    play.start_daemon()
    play.until(lambda: is_running(play, vm), at_most_s=2 * HOUR_S)
    assert hosts_promised(play, vm) == {GRAPHICS}
    assert abs(play.cloud.clock.now_s() - start_s) <= 15
