"""Answers that nobody heard, and answers that come when the host has moved on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from one_preempt.adapters.lease_store.database import LeaseStoreError
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.pool_snapshot import PoolSnapshot, RaftState
from one_preempt.core.model.power import PowerAnswer, PowerOutcome
from one_preempt.core.model.power_sequence import HostPowerStep, PowerPhase, PowerReport, PowerStepKind
from one_preempt.ports import CloudUnavailable
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN
from one_preempt.simulation.simulated_cloud.states import HostState, HostStatus
from one_preempt.simulation.simulator.power_calls import ImmediatePowerCalls
from tests.power.power_play import Died, PowerPlay

REFUSED = PowerOutcome(PowerAnswer.REFUSED, "no")


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


def test_an_answer_that_comes_when_the_host_has_moved_on_is_that_of_no_other_order() -> None:
    play = PowerPlay(hosts=1)
    calls = HungController(play)
    assert play.daemon._power is not None
    play.daemon._power._calls = calls
    play.until(lambda: bool(calls.held))
    play.cloud.host_status(ONEADMIN, 0, HostStatus.ENABLED)
    vm = play.submit()
    play.until(lambda: play.phase(0) in (PowerPhase.SWITCHING_ON, PowerPhase.AWAKE))
    calls.hangs = False
    play.until(lambda: play.host_of(vm) == 0)
    play.pass_time(60)
    known = play.store.power_sequences()[0]
    assert (known.phase, known.failures) == (PowerPhase.AWAKE, 0)


def test_a_late_answer_fails_no_waking() -> None:
    play = PowerPlay(hosts=1)
    calls = HungController(play)
    assert play.daemon._power is not None
    play.daemon._power._calls = calls
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
    assert play.daemon._power is not None
    play.daemon._power._calls = calls
    play.until(lambda: bool(calls.held))
    read = play.daemon._reader.read

    def away() -> PoolSnapshot:
        if reason == "oned is away":
            raise CloudUnavailable("it does not answer")
        return replace(read(), raft_state=RaftState.FOLLOWER)

    with monkeypatch.context() as patch, suppress(CloudUnavailable):
        patch.setattr(play.daemon._reader, "read", away)
        play.daemon.run()
    assert (calls.held, dict(play.daemon._power.readings)) == ([], {})
    # It leads again, and the order that nobody has answered is put again.
    calls.hangs = False
    play.until(lambda: play.asleep() == [0])
