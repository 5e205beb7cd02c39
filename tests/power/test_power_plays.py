"""Hosts go to sleep and come back under the daemon's own cycle; who is not to be disturbed is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from one_preempt.configuration.settings import MatchmakerSettings, TimeSettings
from one_preempt.core.energy.power_rules import HostPattern, PowerMode, QuietHours
from one_preempt.core.matching.expressions import owners_trials
from one_preempt.core.model.ledger import LedgerChanges
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import Action, ActionKind, Plan
from one_preempt.core.model.pool_snapshot import RaftState
from one_preempt.core.model.power_sequence import HostPowerStep, PowerGoal, PowerOrder, PowerPhase, PowerStepKind
from one_preempt.policy_registry import ENERGY_POLICIES
from one_preempt.simulation.simulated_cloud.host_power import PowerMishap
from one_preempt.simulation.simulated_cloud.host_power_state import HostPowerState
from one_preempt.simulation.simulated_cloud.states import HostState, HostStatus
from one_preempt.simulation.simulator.site import LOCALS, simulation_settings
from tests.power import power_play
from tests.power.power_play import BOOT_S, RULES, Counting, PowerPlay, with_policy

ASLEEP, AWAKE, FAILED = PowerPhase.ASLEEP, PowerPhase.AWAKE, PowerPhase.FAILED


def kinds_of(play: PowerPlay, host: int) -> list[str]:
    """The calls for one host in their order, each once."""
    kinds: list[str] = []
    for report in play.reports:
        for step in report.plan.power_steps if report.plan is not None else ():
            if step.host_id == host and step.kind is not PowerStepKind.READ_POWER and kinds[-1:] != [step.kind.value]:
                kinds.append(step.kind.value)
    return kinds


def test_idle_hosts_go_to_sleep_step_by_step_and_are_offline_before_they_lose_power() -> None:
    play = PowerPlay()
    play.until(lambda: play.asleep() == [0, 1, 2])
    assert kinds_of(play, 0) == ["disable", "put-offline", "switch-off"]
    assert {host.state for host in play.cloud.hosts.values()} == {HostState.OFFLINE}


def test_a_vm_that_fits_on_sleeping_hosts_alone_wakes_one_and_no_more() -> None:
    play = PowerPlay()
    play.until(lambda: len(play.asleep()) == 3)
    vm, began_ms = play.submit(), play.cloud.clock.now_ms
    play.until(lambda: play.host_of(vm) is not None)
    assert play.cloud.clock.now_ms - began_ms < 1000 * (BOOT_S + 30)
    assert len(play.asleep()) == 2
    assert play.machines.boots == 1


def readings_of(play: PowerPlay, hosts: set[int]) -> list[HostPowerStep]:
    steps = [step for report in play.reports if report.plan is not None for step in report.plan.power_steps]
    return [step for step in steps if step.kind is PowerStepKind.READ_POWER and step.host_id in hosts]


def test_nobody_waits_for_the_readings_of_hosts_that_sleep_and_who_is_woken_waits_for_its_own() -> None:
    play = PowerPlay()
    play.until(lambda: len(play.asleep()) == 3)
    assert not any(step.at_rest for step in readings_of(play, {0, 1, 2}))
    play.reports.clear()
    play.until(lambda: len(readings_of(play, {0, 1, 2})) >= 3)
    assert all(step.at_rest for step in readings_of(play, {0, 1, 2}))
    vm = play.submit()
    play.until(lambda: len(play.asleep()) == 2)
    woken = {0, 1, 2} - set(play.asleep())
    play.reports.clear()
    play.until(lambda: play.host_of(vm) is not None)
    assert readings_of(play, woken)
    assert not any(step.at_rest for step in readings_of(play, woken))


@pytest.mark.parametrize("name", sorted(ENERGY_POLICIES.all()))
def test_every_policy_serves_a_plain_vm_when_all_hosts_sleep(name: str) -> None:
    play = PowerPlay(rules=with_policy("look-ahead"))
    play.until(lambda: len(play.asleep()) == 3)
    play.rules = with_policy(name)
    play.start_daemon()
    vm = play.submit()
    play.until(lambda: play.host_of(vm) is not None)


def test_the_floor_stays_on() -> None:
    play = PowerPlay(rules=replace(RULES, floor=2))
    play.pass_time(900)
    assert len(play.asleep()) == 1


def test_a_host_of_the_floor_that_is_taken_out_of_use_is_replaced() -> None:
    play = PowerPlay(hosts=3, rules=replace(RULES, floor=1))
    play.until(lambda: len(play.asleep()) == 2)
    (on,) = {0, 1, 2} - set(play.asleep())
    play.cloud.host_status(play.user("oneadmin"), on, HostStatus.DISABLED)
    play.until(lambda: any(play.cloud.hosts[host].state is HostState.MONITORED for host in {0, 1, 2} - {on}))
    play.pass_time(600)
    assert len(play.asleep()) == 1


def test_a_floor_that_was_raised_is_woken_and_one_that_was_not_wakes_nobody() -> None:
    play = PowerPlay(hosts=4)
    play.until(lambda: len(play.asleep()) == 4)
    play.rules = replace(RULES, floor=2)
    play.start_daemon()
    play.until(lambda: len(play.asleep()) == 2 and play.machines.boots == 2)
    play.pass_time(1200)
    assert (len(play.asleep()), play.machines.boots) == (2, 2)


def test_a_host_that_has_its_power_still_comes_back_for_the_floor_and_no_other_boots() -> None:
    play = PowerPlay(hosts=3)
    vm = play.submit()
    play.until(lambda: len(play.asleep()) == 2)
    used = play.host_of(vm)
    assert used is not None
    play.end(vm)
    play.until(lambda: play.phase(used) is PowerPhase.CHECKING)
    play.rules = replace(RULES, floor=1)
    play.start_daemon()
    play.pass_time(600)
    assert (play.phase(used), len(play.asleep()), play.machines.boots) == (AWAKE, 2, 0)


def test_what_is_disabled_during_its_boot_is_not_enabled() -> None:
    play = PowerPlay(hosts=1, rules=replace(RULES, enable_after_s=BOOT_S))
    play.until(lambda: play.asleep() == [0])
    play.submit()
    play.until(lambda: play.phase(0) is PowerPhase.ENABLING)
    play.cloud.host_status(play.user("oneadmin"), 0, HostStatus.DISABLED)
    play.pass_time(600)
    assert (play.phase(0), play.cloud.hosts[0].state) == (AWAKE, HostState.DISABLED)


def test_only_hosts_that_are_handed_over_sleep() -> None:
    play = PowerPlay(rules=replace(RULES, handed_over=(HostPattern(host="node1"), HostPattern(cluster="other"))))
    play.pass_time(600)
    assert play.asleep() == [1]


def test_hosts_of_datastores_stay_on() -> None:
    play = PowerPlay()
    play.cloud.datastores[min(play.cloud.datastores)].template["BRIDGE_LIST"] = ["node0 node2"]
    play.pass_time(600)
    assert play.asleep() == [1]


def test_advice_switches_nothing_and_says_what_would_be() -> None:
    play = PowerPlay(rules=replace(RULES, mode=PowerMode.ADVISE))
    play.pass_time(60)
    plan = play.reports[-1].plan
    assert plan is not None
    assert {step.id for step in plan.advised_power_steps} == {"disable/node0", "disable/node1", "disable/node2"}
    assert plan.power_steps == ()
    assert play.store.power_sequences() == ()


def test_advice_keeps_the_floor_too_and_empties_no_host_onto_one_that_is_to_sleep() -> None:
    play = PowerPlay(hosts=4, rules=replace(RULES, mode=PowerMode.ADVISE, floor=3))
    for host in range(4):
        vm = play.submit(1, 'TYPE = "DC-MIGRATABLE"', external=True)
        play.cloud.vm_deploy(play.user("oneadmin"), vm, host)
    play.pass_time(400)
    advised = [report.plan.advised_power_steps for report in play.reports if report.plan is not None]
    assert max(map(len, advised)) == 1


def test_without_hosts_handed_over_nothing_is_looked_at() -> None:
    play = PowerPlay(rules=replace(RULES, handed_over=()))
    play.pass_time(60)
    report = play.reports[-1]
    assert report.plan is not None
    assert report.plan.power_asked_at_s is None
    assert play.asleep() == []


def test_nothing_begins_in_quiet_hours() -> None:
    always = replace(RULES, quiet_hours=(QuietHours(0, 0),))
    play = PowerPlay(rules=always)
    play.pass_time(120)
    assert set(play.phases()) == {AWAKE}


def test_a_host_stays_on_and_asleep_at_least_so_long() -> None:
    play = PowerPlay(hosts=1, rules=replace(RULES, least_on_s=600, least_off_s=400))
    play.until(lambda: play.asleep() == [0])
    slept_ms, vm = play.cloud.clock.now_ms, play.submit()
    play.until(lambda: play.host_of(vm) is not None)
    assert play.cloud.clock.now_ms - slept_ms >= 1000 * 400
    up_ms = play.cloud.clock.now_ms
    play.pass_time(20)
    play.end(vm)
    play.until(lambda: play.phase(0) is not AWAKE)
    assert play.cloud.clock.now_ms - up_ms >= 1000 * 590


def test_no_more_boot_at_once_than_may() -> None:
    play = PowerPlay(hosts=5, rules=replace(RULES, most_booting=2))
    play.until(lambda: len(play.asleep()) == 5)
    vms = [play.submit() for _ in range(5)]
    most = 0
    while any(play.host_of(vm) is None for vm in vms):
        play.pass_time(5)
        most = max(most, sum(play.machines.state(host) is HostPowerState.BOOTING for host in play.cloud.hosts))
    assert most == 2


def test_hosts_that_somebody_enabled_while_they_slept_start_in_turns() -> None:
    play = PowerPlay(hosts=6, rules=replace(RULES, most_booting=2, least_on_s=3600))
    play.until(lambda: len(play.asleep()) == 6)
    for host in range(6):
        play.cloud.host_status(play.user("oneadmin"), host, HostStatus.ENABLED)
    most = 0
    while play.machines.boots < 6:
        play.cloud.run_until_ms(play.cloud.clock.now_ms + 5000)
        play.cycle()
        most = max(most, sum(play.machines.state(host) is HostPowerState.BOOTING for host in play.cloud.hosts))
    assert most == 2


def test_what_was_not_told_to_start_yet_has_not_failed() -> None:
    play = PowerPlay(hosts=1, rules=replace(RULES, least_on_s=3600))
    play.until(lambda: play.asleep() == [0])
    play.store.set_paused(True, play.cloud.clock.now_s())
    play.cloud.host_status(play.user("oneadmin"), 0, HostStatus.ENABLED)
    for _ in range(500):
        play.cloud.run_until_ms(play.cloud.clock.now_ms + 5000)
        play.cycle()
    (known,) = play.store.power_sequences()
    assert (known.phase, known.failures) == (PowerPhase.SWITCHING_ON, 0)
    play.store.set_paused(False, play.cloud.clock.now_s())
    play.cycle()
    play.until(lambda: play.phase(0) is AWAKE)
    assert play.machines.boots == 1


def test_a_clock_that_was_set_back_keeps_no_host_asleep() -> None:
    play = PowerPlay(hosts=1, rules=replace(RULES, least_off_s=400))
    play.until(lambda: play.asleep() == [0])
    (known,) = play.store.power_sequences()
    play.store.apply(LedgerChanges(power_sequences=(replace(known, since_s=known.since_s + 86_400),)))
    vm = play.submit()
    play.until(lambda: play.host_of(vm) is not None, at_most_s=300)


def test_a_clock_that_was_set_back_during_a_boot_holds_nothing_up() -> None:
    play = PowerPlay(hosts=1)
    play.until(lambda: play.asleep() == [0])
    vm = play.submit()
    play.until(lambda: play.phase(0) is PowerPhase.SWITCHING_ON)
    play.until(lambda: play.store.power_sequences()[0].outcome_at_s is not None, at_most_s=30)
    (known,) = play.store.power_sequences()
    assert known.phase is PowerPhase.SWITCHING_ON
    ahead = {name: getattr(known, name) + 86_400 for name in ("since_s", "began_at_s", "outcome_at_s")}
    play.store.apply(LedgerChanges(power_sequences=(replace(known, **ahead),)))
    play.until(lambda: play.host_of(vm) is not None, at_most_s=300)


# -- administrators ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [HostStatus.DISABLED, HostStatus.OFFLINE])
def test_what_an_administrator_disabled_is_never_touched(status: HostStatus) -> None:
    play = PowerPlay()
    play.cloud.host_status(play.user("oneadmin"), 1, status)
    play.pass_time(600)
    assert play.asleep() == [0, 2]
    assert kinds_of(play, 1) == []
    assert play.cloud.hosts[1].state.name == status.name


def test_whoever_deploys_between_disabled_and_offline_wins() -> None:
    play = PowerPlay(hosts=1)
    vm = play.submit(lease='TYPE = "BE-SUSPENDABLE"')
    play.cycle()
    play.until(lambda: play.host_of(vm) is not None)
    play.end(vm)
    play.until(lambda: play.phase(0) is PowerPhase.DISABLING)
    mine = play.submit(lease='TYPE = "BE-SUSPENDABLE", START = "2100-01-01T00:00:00Z"')
    play.cloud.vm_deploy(play.user("oneadmin"), mine, 0, True, -1, "")
    play.pass_time(60)
    assert play.host_of(mine) == 0
    assert play.cloud.hosts[0].state is HostState.MONITORED
    assert "switch-off" not in kinds_of(play, 0)


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_host_that_is_enabled_while_it_loses_its_power_is_used_once_it_is_back(is_killed: bool) -> None:
    play = PowerPlay(hosts=1)
    play.pace_s = 1
    play.until(lambda: play.machines.state(0) is HostPowerState.SHUTTING_DOWN)
    play.cloud.host_status(play.user("oneadmin"), 0, HostStatus.ENABLED)
    vm, began_at_s = play.submit(), play.cloud.clock.now_s()
    used_after_s = None
    for passed_s in range(1, 900):
        play.cloud.run_until_ms(1000 * (began_at_s + passed_s))
        if is_killed:
            play.start_daemon()
        play.cycle()
        assert play.machines.lost_guests == []
        if used_after_s is None and play.host_of(vm) == 0:
            used_after_s = passed_s
    # It shuts down in 20 s, boots in 120 and is monitored every 10 s. Whoever does not live to see that it has lost its
    # power waits for all the time in which it might.
    assert used_after_s is not None
    assert used_after_s < (800 if is_killed else 170)
    assert play.machines.boots == 1


def test_a_host_that_is_renamed_while_it_sleeps_is_woken_by_its_new_name() -> None:
    play = PowerPlay(hosts=1, control=Counting)
    play.until(lambda: play.asleep() == [0])
    play.cloud.hosts[0].name = "elsewhere"
    play.machines._ids.clear()
    play.start_daemon()
    play.pass_time(30)
    vm = play.submit()
    play.until(lambda: play.host_of(vm) == 0)
    assert isinstance(play.control, Counting)
    assert play.control.orders[-1] == ("on", "elsewhere")
    assert play.store.power_sequences()[0].host_name == "elsewhere"


def test_hosts_of_another_database_that_have_the_ids_of_ours_are_not_switched() -> None:
    """OpenNebula begins anew, and its administrator keeps two hosts OFFLINE that have the ids of ours."""
    play = PowerPlay(hosts=3, control=Counting)
    play.until(lambda: len(play.asleep()) == 3)
    assert isinstance(play.control, Counting)
    before = len(play.control.orders)
    for number, name in enumerate(["other0", "other1", "node0"]):
        play.cloud.hosts[number].name = name
    play.machines._ids.clear()
    play.start_daemon()
    vm = play.submit()
    play.pass_time(600)
    assert play.control.orders[before:] == []
    assert play.host_of(vm) is None
    told = [one.text for report in play.reports for one in report.discrepancies if one.code == "power-another-host"]
    assert [text.partition(":")[0] for text in told] == ["host node0", "host node1", "host node2"]


def test_a_host_that_is_deleted_while_it_sleeps_is_nobody_s_and_others_are_woken() -> None:
    play = PowerPlay(hosts=2)
    play.until(lambda: len(play.asleep()) == 2)
    del play.cloud.hosts[0]
    play.machines._ids.clear()
    play.start_daemon()
    vm = play.submit()
    play.until(lambda: play.host_of(vm) == 1)
    assert play.phase(0) is AWAKE
    noticed = [one for report in play.reports for one in report.discrepancies]
    (told,) = [one.text for one in noticed if one.code == "power-deleted-unpowered"]
    assert "node0: it was deleted" in told
    assert [stay.host_id for stay in play.store.lasting_host_use()] == [1]


def test_a_sleeping_host_that_is_enabled_by_hand_is_switched_on() -> None:
    play = PowerPlay(hosts=2)
    play.until(lambda: len(play.asleep()) == 2)
    play.cloud.host_status(play.user("oneadmin"), 0, HostStatus.ENABLED)
    play.cycle()
    assert any(one.code == "power-taken-over" for one in play.reports[-1].discrepancies)
    play.until(lambda: play.machines.state(0).is_on)


def test_orders_of_an_administrator_come_before_the_policy() -> None:
    play = PowerPlay(hosts=2, rules=with_policy("always-on"))
    now_s = play.cloud.clock.now_s()
    play.store.order_power(PowerOrder(1, PowerGoal.OFF, now_s))
    play.pass_time(60)
    assert play.phase(1) is not AWAKE
    assert play.store.load(now_s).power_orders == {}


def test_an_order_brings_back_what_slept_under_another_mode() -> None:
    play = PowerPlay(hosts=2)
    play.until(lambda: len(play.asleep()) == 2)
    play.rules = replace(RULES, mode=PowerMode.OFF)
    play.start_daemon()
    play.pass_time(60)
    assert play.asleep() == [0, 1]
    (told,) = play.reports[-1].discrepancies
    assert told.code == "power-unattended"
    assert "node0, node1 sleep" in told.text
    play.store.order_power(PowerOrder(1, PowerGoal.ON, play.cloud.clock.now_s()))
    play.until(lambda: play.phase(1) is AWAKE)
    assert play.asleep() == [0]


def test_an_order_waits_for_the_end_of_a_pause() -> None:
    play = PowerPlay(hosts=1)
    play.until(lambda: play.asleep() == [0])
    play.store.set_paused(True, play.cloud.clock.now_s())
    play.store.order_power(PowerOrder(0, PowerGoal.ON, play.cloud.clock.now_s()))
    play.pass_time(60)
    assert play.asleep() == [0]
    play.store.set_paused(False, play.cloud.clock.now_s())
    play.until(lambda: play.machines.boots == 1)


@pytest.mark.parametrize("phase", [PowerPhase.DISABLING, PowerPhase.SWITCHING_OFF])
def test_an_order_to_wake_what_is_just_told_to_go_is_carried_out_after_that(phase: PowerPhase) -> None:
    play = PowerPlay(hosts=1)
    play.pace_s = 1
    play.until(lambda: play.phase(0) is phase)
    if phase is PowerPhase.SWITCHING_OFF:
        play.pass_time(2)
        assert play.phase(0) is phase
    # Of itself the policy wakes nobody, as nobody waits; what comes up stays.
    play.rules = replace(RULES, least_on_s=3600)
    play.start_daemon()
    play.store.order_power(PowerOrder(0, PowerGoal.ON, play.cloud.clock.now_s()))
    play.pass_time(300)
    assert play.phase(0) is AWAKE
    assert play.store.load(play.cloud.clock.now_s()).power_orders == {}


def test_pause_undoes_what_has_its_power_and_lets_come_up_what_comes() -> None:
    play = PowerPlay()
    play.cycle()
    play.store.set_paused(True, play.cloud.clock.now_s())
    play.pass_time(60)
    assert set(play.phases()) == {AWAKE}
    assert {host.state for host in play.cloud.hosts.values()} == {HostState.MONITORED}
    assert all("switch-off" not in kinds_of(play, host) for host in range(3))
    play.store.set_paused(False, play.cloud.clock.now_s())
    play.until(lambda: len(play.asleep()) == 3)
    vm = play.submit()
    play.pass_time(10)
    play.store.set_paused(True, play.cloud.clock.now_s())
    play.until(lambda: play.host_of(vm) is not None)


# -- what goes wrong -----------------------------------------------------------------------------------------


def test_a_pause_that_comes_once_the_plan_is_made_lets_no_host_be_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    play = PowerPlay(hosts=1)
    record = play.store.record_plan

    def paused_meanwhile(plan: Plan) -> None:
        record(plan)
        if any(step.kind is PowerStepKind.DISABLE for step in plan.power_steps):
            play.store.set_paused(True, play.cloud.clock.now_s())

    monkeypatch.setattr(play.store, "record_plan", paused_meanwhile)
    play.until(play.store.is_paused)
    assert (play.phase(0), play.cloud.hosts[0].state) == (PowerPhase.DISABLING, HostState.MONITORED)


def test_who_no_longer_leads_once_a_plan_is_made_switches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another front-end schedules from then on, and may use the host."""
    play = PowerPlay(hosts=1)
    record = play.store.record_plan

    def led_by_another_from_now_on(plan: Plan) -> None:
        record(plan)
        if plan.power_sequences:
            monkeypatch.setattr(play.reader, "read_raft_state", lambda: RaftState.FOLLOWER)

    monkeypatch.setattr(play.store, "record_plan", led_by_another_from_now_on)
    play.pass_time(60)
    (known,) = play.store.power_sequences()
    assert (known.phase, known.attempts) == (PowerPhase.DISABLING, 0)
    assert play.cloud.hosts[0].state is HostState.MONITORED


def test_a_host_that_is_taken_once_the_plan_is_made_is_not_told_to_switch_off(monkeypatch: pytest.MonkeyPatch) -> None:
    play = PowerPlay(hosts=1, control=Counting)
    record = play.store.record_plan
    taken: list[Plan] = []

    def taken_meanwhile(plan: Plan) -> None:
        record(plan)
        if not taken and any(step.kind is PowerStepKind.SWITCH_OFF for step in plan.power_steps):
            play.cloud.host_status(play.user("oneadmin"), 0, HostStatus.ENABLED)
            taken.append(plan)

    monkeypatch.setattr(play.store, "record_plan", taken_meanwhile)
    play.until(lambda: bool(taken) and play.phase(0) is AWAKE)
    assert isinstance(play.control, Counting)
    assert play.control.orders == []


def test_an_order_is_given_once_its_attempt_is_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever dies in between finds that the host may have been told."""
    play = PowerPlay(hosts=1, control=Counting)
    written: list[tuple[PowerPhase, int, Outcome | None]] = []

    def noted(call: Callable[..., Any]) -> Callable[..., Any]:
        def look_and_call(*given: Any, **more: Any) -> Any:
            (known,) = play.store.power_sequences()
            written.append((known.phase, known.attempts, known.outcome))
            return call(*given, **more)

        return look_and_call

    monkeypatch.setattr(play.cloud, "host_status", noted(play.cloud.host_status))
    monkeypatch.setattr(play.control, "switch_off", noted(play.control.switch_off))
    play.until(lambda: play.asleep() == [0])
    told = (PowerPhase.DISABLING, PowerPhase.GOING_OFFLINE, PowerPhase.SWITCHING_OFF)
    assert written == [(phase, 1, None) for phase in told]


def test_a_host_that_does_not_come_up_is_left_alone_for_longer_each_time_and_another_is_taken() -> None:
    play = PowerPlay(hosts=2, rules=replace(RULES, boot_timeout_s=300))
    play.until(lambda: len(play.asleep()) == 2)
    play.machines.mishaps[0] = PowerMishap.NEVER_UP
    vm = play.submit()
    play.until(lambda: play.host_of(vm) == 1, at_most_s=3000)
    assert play.phase(0) is FAILED
    told = [one.text for report in play.reports for one in report.discrepancies if one.code == "power-failed"]
    assert any("node0" in text for text in told)
    (first,) = [one for one in play.store.power_sequences() if one.host_id == 0]
    assert (first.failures, first.not_before_s - first.since_s) == (1, 300)
    assert RULES.pause_s(2) == 600
    assert RULES.pause_s(100) == RULES.longest_pause_s


def test_a_host_that_failed_is_woken_again_when_its_pause_is_over() -> None:
    play = PowerPlay(hosts=1, rules=replace(RULES, boot_timeout_s=200))
    play.until(lambda: play.asleep() == [0])
    play.machines.mishaps[0] = PowerMishap.DOES_NOTHING
    vm = play.submit()
    play.until(lambda: play.phase(0) is FAILED)
    failed_ms = play.cloud.clock.now_ms
    play.machines.mishaps.clear()
    play.until(lambda: play.host_of(vm) == 0)
    assert play.cloud.clock.now_ms - failed_ms >= 1000 * RULES.first_pause_s
    (again,) = play.store.power_sequences()
    assert (again.phase, again.failures) == (AWAKE, 0)


def test_a_host_that_says_yes_and_does_nothing_is_told_again_after_a_pause_and_stays_offline() -> None:
    play = PowerPlay(hosts=1, control=Counting)
    play.machines.mishaps[0] = PowerMishap.DOES_NOTHING
    play.until(lambda: any(one.failures for one in play.store.power_sequences()))
    assert play.phase(0) is PowerPhase.SWITCHING_OFF
    assert play.cloud.hosts[0].state is HostState.OFFLINE
    assert isinstance(play.control, Counting)
    assert play.control.orders == [("off", "node0")]
    vm = play.submit()
    play.until(lambda: play.host_of(vm) is not None)


def test_a_host_that_cannot_be_switched_off_is_used_again() -> None:
    play = PowerPlay(hosts=1)
    play.machines.mishaps[0] = PowerMishap.SILENT
    play.until(lambda: play.cloud.hosts[0].state is HostState.OFFLINE)
    play.until(lambda: play.cloud.hosts[0].state is HostState.MONITORED)
    (known,) = play.store.power_sequences()
    assert (known.phase, known.failures) == (AWAKE, 1)
    play.pass_time(200)
    assert play.phase(0) is AWAKE, "left alone for a while"


@pytest.mark.parametrize("policy", sorted(ENERGY_POLICIES.all()))
def test_hosts_that_somebody_in_the_queue_cannot_do_without_do_not_go_to_sleep_and_come_back(policy: str) -> None:
    play = PowerPlay(hosts=4, rules=with_policy(policy))
    play.store.order_power(PowerOrder(3, PowerGoal.OFF, play.cloud.clock.now_s()))
    there = [play.submit(lease='TYPE = "DC-NON-PREEMPTABLE", DURATION = "02:00:00"') for _ in range(2)]
    play.until(lambda: all(play.host_of(vm) is not None for vm in there))
    gangs = {
        size: [
            play.submit(lease=f'TYPE = "BE-SUSPENDABLE", NAME = "of-{size}", SIZE = "{size}", DURATION = "00:10:00"')
            for _ in range(size)
        ]
        for size in (2, 3)
    }
    play.pass_time(400)
    began = len(play.reports)
    play.pass_time(600)
    steps = [step for report in play.reports[began:] for step in (report.plan.power_steps if report.plan else ())]
    # PEMP wakes one more for the queue in the end.
    assert sum(step.kind in (PowerStepKind.DISABLE, PowerStepKind.ENABLE) for step in steps) <= 1
    for vm in there:
        play.end(vm)
    play.until(lambda: all(play.host_of(vm) is not None for vm in gangs[2]))
    for vm in gangs[2]:
        play.end(vm)
    play.until(lambda: all(play.host_of(vm) is not None for vm in gangs[3]))


def test_where_nobody_overtakes_no_host_is_woken_for_who_waits_behind_others() -> None:
    play = PowerPlay(hosts=3, rules=replace(RULES, floor=2), time=TimeSettings(backfilling="none"))
    there = [play.submit(1) for _ in range(4)]
    play.until(lambda: len(play.asleep()) == 1)
    for host in {play.host_of(vm) for vm in there}:
        play.end(next(vm for vm in there if play.host_of(vm) == host))
    terms = 'TYPE = "BE-SUSPENDABLE", DURATION = "05:00:00"'
    for _ in range(2):
        play.submit(2, f'{terms}, NAME = "gang", SIZE = 2', external=True)
    behind = play.submit(1, terms, external=True)
    boots = play.machines.boots
    play.pass_time(300)
    assert play.host_of(behind) is None
    assert play.machines.boots == boots


def test_no_host_is_emptied_that_somebody_in_the_queue_cannot_do_without() -> None:
    play = PowerPlay(rules=with_policy("always-on"))
    movable = 'TYPE = "DC-MIGRATABLE", DURATION = "20:00:00"'
    apart = [play.submit(1, movable, external=True), play.submit(1)]
    play.until(lambda: all(play.host_of(vm) is not None for vm in apart))
    apart += [play.submit(1, movable, external=True), play.submit(1), play.submit(2)]
    play.until(lambda: all(play.host_of(vm) is not None for vm in apart))
    for passing in (apart[1], apart[3]):
        play.end(passing)
    gang = [play.submit(2, 'TYPE = "BE-SUSPENDABLE", NAME = "gang", SIZE = "3"', external=True) for _ in range(3)]
    play.rules = with_policy("PEMP")
    play.start_daemon()
    play.pass_time(900)
    assert play.phases() == [AWAKE] * 3
    moves = [action for report in play.reports if report.plan for action in report.plan.actions if action.host_id]
    assert [action for action in moves if action.kind is not ActionKind.DEPLOY] == []
    assert all(play.host_of(vm) is None for vm in gang)


def moved(leases_by_host: Sequence[int]) -> tuple[PowerPlay, Action]:
    """So many leases that may move are on each host, and one host may be emptied: the first move."""
    play = PowerPlay(hosts=len(leases_by_host), rules=replace(RULES, floor=len(leases_by_host) - 1))
    for host, leases in enumerate(leases_by_host):
        for _ in range(leases):
            vm = play.submit(1, 'TYPE = "DC-MIGRATABLE"', external=True)
            play.cloud.vm_deploy(play.user("oneadmin"), vm, host)

    def moves() -> list[Action]:
        plan = play.reports[-1].plan if play.reports else None
        return [] if plan is None else [action for action in plan.actions if action.id.startswith("consolidate/")]

    play.until(lambda: bool(moves()))
    (move,) = moves()
    return play, move


@pytest.mark.parametrize(("leases_by_host", "emptied"), [((2, 1, 1), 1), ((1, 2, 1), 0)])
def test_the_host_with_the_fewest_leases_is_emptied_and_of_equal_ones_the_first(
    leases_by_host: tuple[int, ...], emptied: int
) -> None:
    play, move = moved(leases_by_host)
    state = play.reports[-1].state
    assert state is not None
    assert state.snapshot.vms[move.vm_id].host_id == emptied


def test_what_moves_off_a_host_is_counted_where_it_will_be() -> None:
    play, move = moved((1, 1))
    report = play.reports[-1]
    assert report.state is not None
    memory = play.daemon.memory
    assert memory is not None
    assert memory.timeline is not None
    target = report.state.hosts.index_by_id[move.host_id or 0]
    assert any(target in stay.host_rows for stay in memory.timeline.stays[move.lease_id])


def test_a_host_ordered_off_to_which_a_vm_goes_meanwhile_stays_on_and_the_vm_runs() -> None:
    play = PowerPlay(hosts=2, rules=with_policy("always-on"))
    vms = [play.submit() for _ in range(2)]
    play.store.order_power(PowerOrder(0, PowerGoal.OFF, play.cloud.clock.now_s()))
    play.pass_time(10)
    assert sorted(play.host_of(vm) or 0 for vm in vms) == [0, 1]
    assert play.phases() == [AWAKE, AWAKE]
    assert play.store.load(play.cloud.clock.now_s()).power_orders == {}


@pytest.mark.parametrize(
    "pace", [MatchmakerSettings(max_dispatch=1, max_host=0), MatchmakerSettings(max_vm=1, max_dispatch=0, max_host=0)]
)
@pytest.mark.parametrize("policy", ["look-ahead", "PEMP"])
def test_no_host_goes_to_sleep_while_vms_are_put_off_to_the_next_cycle(
    policy: str, pace: MatchmakerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    paced = msgspec.structs.replace(simulation_settings(), matchmaker=pace)
    monkeypatch.setattr(power_play, "simulation_settings", lambda: paced)
    play = PowerPlay(hosts=4, rules=with_policy(policy))
    vms = [play.submit() for _ in range(3)]
    for _ in vms:
        play.cycle()
        play.cloud.run_until_ms(play.cloud.clock.now_ms + 1000)
    assert None not in [play.host_of(vm) for vm in vms]
    play.until(lambda: len(play.asleep()) == 1)


def test_no_host_goes_to_sleep_while_requirements_are_looked_at_in_the_next_cycle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of each owner one costly expression is looked at in a cycle."""
    monkeypatch.setattr(owners_trials, "OWNER_TRIALS", 100)
    play = PowerPlay(hosts=3, rules=with_policy("look-ahead"))
    wants = [f'CPU = "2"\nMEMORY = "512"\nSCHED_REQUIREMENTS = "NAME = \\"*{n}*\\""\n' for n in (0, 1)]
    vms = [vm_id for one in wants for vm_id in play.cloud.add_vms(play.user(LOCALS), one, 1, hold=False)]
    for _ in vms:
        play.cycle()
        play.cloud.run_until_ms(play.cloud.clock.now_ms + 1000)
    assert None not in [play.host_of(vm) for vm in vms]
    play.until(lambda: len(play.asleep()) == 1)
