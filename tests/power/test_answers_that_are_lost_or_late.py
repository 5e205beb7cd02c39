"""Answers that nobody heard, and answers that come when the host has moved on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace

from one_preempt.adapters.clock import FixedClock
from one_preempt.adapters.lease_store.named_database import LeaseStoreError
from one_preempt.core.model.ledger import LedgerChanges
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.pool_snapshot import PoolSnapshot, RaftState
from one_preempt.core.model.power import PowerAnswer, PowerOutcome, PowerStatus
from one_preempt.core.model.power_sequence import (
    HostPowerStep,
    PowerPhase,
    PowerReport,
    PowerSequence,
    PowerStepKind,
)
from one_preempt.enactment.power_enactment import PowerEnactment
from one_preempt.ports import CallResult, CloudUnavailable
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN
from one_preempt.simulation.simulated_cloud.states import HostState, HostStatus
from one_preempt.simulation.simulator.host_enactor import SimulatedHostEnactor
from one_preempt.simulation.simulator.power_calls import ImmediatePowerCalls
from tests.power.power_play import Died, PowerPlay

REFUSED = PowerOutcome(PowerAnswer.REFUSED, "no")
READ = PowerOutcome(PowerAnswer.ACCEPTED, "")


class HungController(ImmediatePowerCalls):
    """Answers to an order to stop are held back, as by a controller that hangs, until they are let go; they are no."""

    hangs = True

    def __init__(self, play: PowerPlay) -> None:
        super().__init__(play.control)
        self.held: list[PowerReport] = []

    def is_busy(self, host_id: int) -> bool:
        return bool(self.held) or super().is_busy(host_id)

    def put(self, step: HostPowerStep, now_s: int) -> None:
        if step.kind is PowerStepKind.SWITCH_OFF and self.hangs:
            self.held.append(PowerReport(step.host_id, step.kind, REFUSED, now_s))
        else:
            super().put(step, now_s)

    def take_reports(self) -> Sequence[PowerReport]:
        let_go = [] if self.hangs else self.held
        if let_go:
            self.held = []
        return [*let_go, *super().take_reports()]

    def drop(self) -> None:
        self.held = []
        super().drop()


class Told(ImmediatePowerCalls):
    """Tells what it is given to tell."""

    def __init__(self, play: PowerPlay, *told: PowerReport) -> None:
        super().__init__(play.control)
        self.told = list(told)

    def take_reports(self) -> Sequence[PowerReport]:
        return self.told


def test_an_answer_that_comes_when_the_host_has_moved_on_is_that_of_no_other_order() -> None:
    play = PowerPlay(hosts=1)
    calls = HungController(play)
    play.start_daemon(calls)
    play.until(lambda: bool(calls.held))
    play.cloud.host_status(ONEADMIN, 0, HostStatus.ENABLED)
    vm = play.submit()
    play.until(lambda: play.phase(0) in (PowerPhase.SWITCHING_ON, PowerPhase.AWAKE))
    calls.hangs = False
    play.until(lambda: play.host_of(vm) == 0)
    play.pass_time(60)
    known = play.store.power_sequences()[0]
    assert (known.phase, known.failures) == (PowerPhase.AWAKE, 0)


@pytest.mark.parametrize(
    ("phase", "attempts", "outcome"),
    [
        (PowerPhase.SWITCHING_OFF, 1, Outcome.REFUSED),
        # It was told before, came back, and is to go again: it was not told that yet.
        (PowerPhase.SWITCHING_OFF, 0, None),
        # Here OpenNebula was asked, and it is its answer that is waited for.
        (PowerPhase.DISABLING, 1, None),
    ],
)
def test_a_refused_stop_counts_for_the_stop_that_is_waited_for_alone(
    phase: PowerPhase, attempts: int, outcome: Outcome | None
) -> None:
    play = PowerPlay(hosts=1)
    now_s = play.cloud.clock.now_s()
    waits = PowerSequence(0, "node0", phase, now_s, "idle", "nobody is on it", attempts=attempts)
    play.store.apply(LedgerChanges(power_sequences=(waits,)))
    refused = PowerReport(0, PowerStepKind.SWITCH_OFF, REFUSED, now_s)
    play.start_daemon(Told(play, refused))
    play.power.take_reports()
    assert play.store.power_sequences()[0].outcome is outcome


def test_a_controller_that_has_not_answered_is_told_nothing_more() -> None:
    play = PowerPlay(hosts=1)
    calls = HungController(play)
    play.start_daemon(calls)
    play.until(lambda: bool(calls.held))
    play.pass_time(60)
    assert [report.kind for report in calls.held] == [PowerStepKind.SWITCH_OFF]
    assert [one.attempts for one in play.store.power_sequences()] == [1]


def test_where_oned_does_not_answer_the_other_hosts_wait_for_the_next_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    play = PowerPlay(hosts=3)
    monkeypatch.setattr(SimulatedHostEnactor, "perform", lambda _self, _step: CallResult(Outcome.UNKNOWN))
    play.until(lambda: any(report.power_results for report in play.reports))
    first = next(report for report in play.reports if report.power_results)
    assert first.plan is not None
    assert (len(first.plan.power_steps), len(first.power_results)) == (3, 1)


def test_what_was_read_by_a_clock_that_was_set_back_since_tells_nothing() -> None:
    """Whether it was read before an order or after it nobody knows any more."""
    play, clock = PowerPlay(hosts=1), FixedClock(1000)
    calls = Told(play)
    power = PowerEnactment(play.store, SimulatedHostEnactor(play.cloud), calls, clock)

    def known_after(*asked_at_s: int) -> list[int]:
        calls.told = [PowerReport(0, PowerStepKind.READ_POWER, READ, at_s, PowerStatus.OFF) for at_s in asked_at_s]
        power.take_reports()
        return [report.asked_at_s for report in power.readings.values()]

    assert known_after(1001) == []
    assert known_after(1000) == [1000]
    clock.set(1005)
    assert known_after() == [1000]
    clock.set(1004)
    assert known_after() == []


def test_a_late_answer_fails_no_waking() -> None:
    play = PowerPlay(hosts=1)
    calls = HungController(play)
    play.start_daemon(calls)
    play.until(lambda: bool(calls.held))
    play.cloud.host_status(ONEADMIN, 0, HostStatus.ENABLED)
    play.cloud.kill_host(0)
    play.cycle()
    assert play.phase(0) is PowerPhase.SWITCHING_ON
    calls.hangs = False
    play.cycle()
    known = play.store.power_sequences()[0]
    assert (known.phase, known.outcome, known.failures) == (PowerPhase.SWITCHING_ON, None, 0)


def test_a_host_of_which_nobody_heard_who_disabled_it_is_counted_ours_and_that_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    play = PowerPlay(hosts=1)
    status = play.cloud.host_status

    def dies_before(*_given: Any) -> int:
        monkeypatch.setattr(play.cloud, "host_status", status)
        raise Died

    monkeypatch.setattr(play.cloud, "host_status", dies_before)
    with pytest.raises(Died):
        play.pass_time(600)
    assert (play.phase(0), play.cloud.hosts[0].state) == (PowerPhase.DISABLING, HostState.MONITORED)
    play.cloud.host_status(ONEADMIN, 0, HostStatus.DISABLED)
    play.start_daemon()
    report = play.cycle()
    assert [one.code for one in report.discrepancies] == ["power-assumed"]
    assert "onehost enable 0" in report.discrepancies[0].text


def test_what_was_heard_is_not_told() -> None:
    play = PowerPlay(hosts=1)
    play.until(lambda: play.asleep() == [0])
    assert [one for report in play.reports for one in report.discrepancies] == []


def test_an_answer_is_not_lost_where_the_database_fails_when_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    play = PowerPlay(hosts=1)
    play.until(lambda: play.phase(0) is PowerPhase.SWITCHING_OFF)
    record = play.store.record_power_result
    failed: list[int] = []

    def fails_once(host_id: int, *given: Any) -> None:
        monkeypatch.setattr(play.store, "record_power_result", record)
        failed.append(host_id)
        raise LeaseStoreError("the database is locked")

    monkeypatch.setattr(play.store, "record_power_result", fails_once)
    with pytest.raises(LeaseStoreError):
        play.pass_time(60)
    play.cycle()
    assert failed == [0]
    assert play.store.power_sequences()[0].outcome is Outcome.ACCEPTED


@pytest.mark.parametrize("reason", ["another leads", "oned is away"])
def test_who_does_not_lead_any_more_drops_its_orders_and_forgets_their_answers(
    reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = PowerPlay(hosts=1)
    calls = HungController(play)
    play.start_daemon(calls)
    play.until(lambda: bool(calls.held))
    read = play.reader.read

    def away() -> PoolSnapshot:
        if reason == "oned is away":
            raise CloudUnavailable("it does not answer")
        return replace(read(), raft_state=RaftState.FOLLOWER)

    with monkeypatch.context() as patch, suppress(CloudUnavailable):
        patch.setattr(play.reader, "read", away)
        play.daemon.run()
    assert (calls.held, dict(play.power.readings)) == ([], {})
    # It leads again, and the order that nobody has answered is put again.
    calls.hangs = False
    play.until(lambda: play.asleep() == [0])


def to_be_disabled(attempts: int, outcome: Outcome | None) -> PowerPlay:
    """A host that a process was about to disable, or has told oned to without hearing of it, before it was killed."""
    play = PowerPlay(hosts=1)
    play.pace_s = 1
    now_s = play.cloud.clock.now_s()
    begun = PowerSequence(0, "node0", PowerPhase.DISABLING, now_s, "idle", "nobody is on it", attempts, outcome)
    play.store.apply(LedgerChanges(power_sequences=(begun,)))
    return play


NOT_DISABLED = [(0, None), (1, None), (1, Outcome.UNKNOWN)]


@pytest.mark.parametrize(("attempts", "outcome"), NOT_DISABLED)
def test_a_vm_that_comes_before_a_host_was_disabled_is_placed_there(attempts: int, outcome: Outcome | None) -> None:
    """The plan that sent the host to sleep all the same was refused by its own check."""
    play = to_be_disabled(attempts, outcome)
    vm = play.submit()
    play.until(lambda: play.host_of(vm) == 0, at_most_s=2)
    play.pass_time(30)
    assert (play.phase(0), play.cloud.hosts[0].state) == (PowerPhase.AWAKE, HostState.MONITORED)
    (known,) = play.store.power_sequences()
    assert known.reason_text.endswith("it is left on")


@pytest.mark.parametrize(("attempts", "outcome"), NOT_DISABLED)
def test_a_host_that_an_administrator_uses_before_it_was_disabled_stays_on(
    attempts: int, outcome: Outcome | None
) -> None:
    play = to_be_disabled(attempts, outcome)
    vm = play.submit()
    play.cloud.vm_deploy(ONEADMIN, vm, 0, True, -1, "")
    play.pass_time(30)
    assert (play.host_of(vm), play.phase(0)) == (0, PowerPhase.AWAKE)


def test_a_host_that_is_disabled_late_by_our_own_call_is_enabled_for_the_vm_that_came_meanwhile() -> None:
    play = to_be_disabled(1, None)
    vm = play.submit()
    play.until(lambda: play.host_of(vm) == 0, at_most_s=2)
    play.cloud.host_status(ONEADMIN, 0, HostStatus.DISABLED)
    play.pass_time(30)
    assert (play.phase(0), play.cloud.hosts[0].state) == (PowerPhase.AWAKE, HostState.MONITORED)
