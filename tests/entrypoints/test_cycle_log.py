"""The daemon's log: one line for each thing that happened, none for promises, and what stays is said once."""

from __future__ import annotations

import logging

import pytest
from msgspec.structs import replace

from one_preempt.core.host_power.phase_transitions import TAKEN_OVER
from one_preempt.core.matching.host_table import host_table
from one_preempt.core.model.cluster_state import ClusterState, Discrepancy
from one_preempt.core.model.image_transfer import ImageOrder, ImageOrderKind, TransferPhase, TransferRecord
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import Action, ActionKind, Plan, Reason
from one_preempt.core.model.pool_snapshot import PoolSnapshot, RaftState
from one_preempt.core.model.power_sequence import HostPowerStep, KnownPower, PowerPhase, PowerSequence, PowerStepKind
from one_preempt.core.model.reservation import Booking, Reservation, Verdict, VerdictGiven
from one_preempt.entrypoints.cycle_log import CycleLog
from one_preempt.ports import CHANGED_HANDS, CallResult
from one_preempt.scheduling_cycle import CycleReport

LOGGER = logging.getLogger("one_preempt.test_cycle_log")


def logged(caplog: pytest.LogCaptureFixture, *bookings: Booking, verdicts: tuple[VerdictGiven, ...] = ()) -> list[str]:
    with caplog.at_level(logging.INFO, LOGGER.name):
        plan = Plan(made_at_s=0, policy="MOML", bookings=bookings, verdicts=verdicts)
        CycleLog(LOGGER).report(CycleReport(RaftState.SOLO, plan))
    return caplog.messages


def test_a_verdict_is_one_line_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    verdicts = (
        VerdictGiven(3, Verdict.REFUSED, "there is no room"),
        VerdictGiven(4, Verdict.ACCEPTED, "starts at once"),
    )
    assert logged(caplog, verdicts=verdicts) == [
        "lease 3 is refused: there is no room",
        "lease 4 is accepted: starts at once",
    ]


def test_a_firm_reservation_is_one_line_with_its_times_and_hosts(caplog: pytest.LogCaptureFixture) -> None:
    stays = (Reservation(5, 3_600, 7_200, (2, 2, 1), firm=True), Reservation(5, 9_000, None, (4,), firm=True))
    (line,) = logged(caplog, Booking(5, stays))
    assert line == (
        "lease 5 has firmly reserved from 1970-01-01T01:00:00Z until 1970-01-01T02:00:00Z on hosts 1, 2, "
        "and from 1970-01-01T02:30:00Z without an end on host 4"
    )


def test_promises_of_the_queue_come_and_go_without_a_line(caplog: pytest.LogCaptureFixture) -> None:
    assert logged(caplog, Booking(5, (Reservation(5, 3_600, 7_200),)), Booking(6)) == []


@pytest.mark.parametrize(("kind", "code", "levels"), [
    (ActionKind.MESSAGE, CHANGED_HANDS, []),
    (ActionKind.MESSAGE, "UNREADABLE", [logging.WARNING]),
    (ActionKind.DEPLOY, CHANGED_HANDS, [logging.WARNING]),
])  # fmt: skip
def test_nobody_is_alarmed_by_a_vm_that_ended_before_it_could_be_told_something(
    caplog: pytest.LogCaptureFixture, kind: ActionKind, code: str, levels: list[int]
) -> None:
    action = Action("some/1", kind, 1, 1, Reason("why", "something"))
    dropped = (action, CallResult(Outcome.DROPPED, code, "VM 1 does not exist any more"))
    plan = Plan(made_at_s=0, policy="MOML", actions=(action,))
    with caplog.at_level(logging.INFO, LOGGER.name):
        CycleLog(LOGGER).report(CycleReport(RaftState.SOLO, plan, results=(dropped,)))
    assert [record.levelno for record in caplog.records] == levels


def test_hosts_that_begin_to_sleep_and_advice_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    begun = PowerSequence(1, "node1", PowerPhase.DISABLING, 50, "idle", "nothing runs on it")
    step = HostPowerStep(2, "node2", PowerStepKind.DISABLE, "idle", "nothing runs on it")
    plan = Plan(made_at_s=50, policy="MOML", power_sequences=(begun,), advised_power_steps=(step,))
    snapshot = PoolSnapshot(50, "7.4.0", 0, RaftState.SOLO, {}, {})
    state = ClusterState(50, snapshot, host_table({}), {}, {})
    refused = (step, CallResult(Outcome.REFUSED, "INTERNAL", "no"))
    log = CycleLog(LOGGER)
    with caplog.at_level(logging.INFO, LOGGER.name):
        log.report(CycleReport(RaftState.SOLO, plan, state, power_results=(refused,)))
        log.report(CycleReport(RaftState.SOLO, Plan(60, "MOML", advised_power_steps=(step,)), state))
    assert caplog.messages == [
        "advice only: host node2 could sleep: nothing runs on it",
        "host node1 is disabling: nothing runs on it",
        "disable/node2: refused no",
    ]


def test_a_host_that_somebody_took_over_while_it_slept_is_not_said_to_be_awake(
    caplog: pytest.LogCaptureFixture,
) -> None:
    taken = PowerSequence(1, "node1", PowerPhase.AWAKE, 50, TAKEN_OVER, "somebody else has made it DISABLED")
    snapshot = PoolSnapshot(50, "7.4.0", 0, RaftState.SOLO, {}, {})
    warned = Discrepancy("power-taken-over", "host node1: somebody else has made it DISABLED")
    power = KnownPower(sequences={1: taken})
    state = ClusterState(50, snapshot, host_table({}), {}, {}, power=power, discrepancies=(warned,))
    assert cycles(caplog, CycleReport(RaftState.SOLO, Plan(50, "MOML"), state)) == [
        "power-taken-over: host node1: somebody else has made it DISABLED"
    ]


def cycles(caplog: pytest.LogCaptureFixture, *reports: CycleReport) -> list[str]:
    log = CycleLog(LOGGER)
    with caplog.at_level(logging.INFO, LOGGER.name):
        for report in reports:
            log.report(report)
    return caplog.messages


def led(raft_state: RaftState, paused: bool = False) -> CycleReport:
    snapshot = PoolSnapshot(50, "7.4.0", 0, raft_state, {}, {})
    state = ClusterState(50, snapshot, host_table({}), {}, {}, paused=paused)
    return CycleReport(raft_state, Plan(made_at_s=50, policy="MOML"), state)


def test_that_it_is_paused_is_said_at_the_start_and_at_each_change(caplog: pytest.LogCaptureFixture) -> None:
    paused, going = led(RaftState.SOLO, paused=True), led(RaftState.SOLO)
    stops = "paused: no preempting, no power actions, no images brought to hosts; see: one-preempt resume"
    goes_on = "resumed: preempting and power actions are allowed again, as configured"
    assert cycles(caplog, paused, paused, going, going, paused) == [stops, goes_on, stops]


def test_who_schedules_is_said_at_the_start_and_when_that_changes(caplog: pytest.LogCaptureFixture) -> None:
    leads, follows = led(RaftState.LEADER), CycleReport(RaftState.FOLLOWER)
    ours = "this front-end is LEADER: this daemon schedules"
    assert cycles(caplog, leads, leads, follows, follows, leads) == [
        ours, "this front-end is FOLLOWER: another one schedules", ours,
    ]  # fmt: skip


def test_while_the_front_ends_elect_nobody_is_said_to_schedule(caplog: pytest.LogCaptureFixture) -> None:
    electing = CycleReport(RaftState.CANDIDATE)
    assert cycles(caplog, electing, electing) == ["this front-end is CANDIDATE: none leads yet"]


def test_a_front_end_without_others_need_not_say_that_it_schedules(caplog: pytest.LogCaptureFixture) -> None:
    assert cycles(caplog, led(RaftState.SOLO), led(RaftState.SOLO)) == []


def test_a_clock_that_was_set_back_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    log = CycleLog(LOGGER)
    with caplog.at_level(logging.INFO, LOGGER.name):
        for now_s in (5000, 5010, 5009, 1409, 1420):
            log.report(CycleReport(RaftState.SOLO, Plan(now_s, "MOML")))
    assert caplog.messages == [
        "the clock was set back by 3600 s or more: times later than it count from now, reservations follow it"
    ]


def test_images_that_are_brought_that_came_and_that_did_not_are_told(caplog: pytest.LogCaptureFixture) -> None:
    bring = ImageOrder(ImageOrderKind.BRING, 7, 3, "node-3", 1, 600, 0, 50, 80, (4,), "START", "for lease 4")
    drop = replace(bring, kind=ImageOrderKind.DROP, image_id=8, reason_text="for image 7")
    results = (
        TransferRecord(replace(bring, image_id=5), TransferPhase.DONE, 0),
        TransferRecord(replace(drop, image_id=6), TransferPhase.DONE, 0),
        TransferRecord(replace(bring, host_name="node-4"), TransferPhase.FAILED, 0, 2, 15, "no way to node-4"),
    )
    plan = Plan(made_at_s=0, policy="MOML", image_orders=(bring, drop), advised_image_orders=(bring,))
    log = CycleLog(LOGGER)
    with caplog.at_level(logging.INFO, LOGGER.name):
        log.report(CycleReport(RaftState.SOLO, plan, image_orders=(bring, drop), image_results=results))
        log.report(CycleReport(RaftState.SOLO, plan))
    assert caplog.messages == [
        "advice only: image 7 is brought to host node-3: for lease 4",
        "image 5 on host node-3: is there",
        "image 6 on host node-3: was removed",
        "image 7 on host node-4: stage/7/3 failed (attempt 2): no way to node-4",
        "image 7 is brought to host node-3: for lease 4",
        "image 8 is removed from host node-3: for image 7",
    ]
