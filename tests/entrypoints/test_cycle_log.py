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
from one_preempt.core.verify import Violation
from one_preempt.entrypoints.cycle_log import REFUSED as REFUSED_PLAN
from one_preempt.entrypoints.cycle_log import CycleLog
from one_preempt.entrypoints.log_throttle import FailureThrottle
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
    goes_on = "resumed: preempting, power actions and bringing images to hosts are allowed again, as configured"
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


START = Action("deploy/7/0", ActionKind.DEPLOY, 7, 7, Reason("fits", "it fits there"), host_id=3)
REFUSED = CallResult(Outcome.REFUSED, "INTERNAL", "no such image")
SAID = "deploy VM 7 on host 3: refused no such image"


def tried(now_s: int, result: CallResult = REFUSED, found: str = "") -> CycleReport:
    """A cycle in which VM 7 was to start, and in which it is found that an earlier try has failed."""
    snapshot = PoolSnapshot(now_s, "7.4.0", 0, RaftState.SOLO, {}, {})
    noticed = (Discrepancy("action-failed", found, 7),) if found else ()
    state = ClusterState(now_s, snapshot, host_table({}), {}, {}, discrepancies=noticed)
    plan = Plan(made_at_s=now_s, policy="MOML", actions=(START,))
    return CycleReport(RaftState.SOLO, plan, state, results=((START, result),))


def test_a_call_that_fails_again_and_again_is_told_once_an_hour_with_how_often(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = "deploy of VM 7: no such image"
    lines = cycles(caplog, *(tried(at_s, found=found if at_s else "") for at_s in range(0, 7_201, 30)))
    assert lines == [
        f"{SAID} (it fits there)",
        f"{SAID}, so it did 119 more times since that was logged (it fits there)",
        f"{SAID}, so it did 119 more times since that was logged (it fits there)",
    ]


def test_the_host_of_a_migration_is_told_as_the_one_where_the_vm_goes(caplog: pytest.LogCaptureFixture) -> None:
    moved = replace(START, kind=ActionKind.LIVE_MIGRATE)
    report = replace(tried(0), results=((moved, CallResult(Outcome.ACCEPTED)),))
    assert cycles(caplog, report) == ["live-migrate VM 7 to host 3: accepted (it fits there)"]


def test_a_call_that_fails_otherwise_or_after_it_was_taken_is_told_at_once(caplog: pytest.LogCaptureFixture) -> None:
    no_host = CallResult(Outcome.REFUSED, "INTERNAL", "no such host")
    taken = CallResult(Outcome.ACCEPTED)
    reports = [tried(0), tried(30, no_host), tried(60), tried(90, taken), tried(120), tried(150, found="a boot failed")]
    assert cycles(caplog, *reports) == [
        f"{SAID} (it fits there)",
        "deploy VM 7 on host 3: refused no such host (it fits there)",
        "deploy VM 7 on host 3: accepted (it fits there)",
        f"{SAID} (it fits there)",
        "action-failed, VM 7: a boot failed; see: onelog get-vm 7",
    ]


def test_where_oned_answers_nobody_that_is_told_of_a_few_vms_and_then_once_an_hour(
    caplog: pytest.LogCaptureFixture,
) -> None:
    silence = CallResult(Outcome.UNKNOWN, "NO_ANSWER", "nothing listens there")
    reports = []
    for at_s in range(0, 3_601, 30):
        start = replace(START, vm_id=at_s)
        reports.append(replace(tried(at_s), results=((start, silence),)))
    lines = cycles(caplog, *reports)
    assert [line.split(":")[0] for line in lines] == [f"deploy VM {vm_id} on host 3" for vm_id in (0, 30, 60, 3_600)]
    assert "nothing listens there, so it did 117 more times since that was logged" in lines[-1]


def test_what_has_not_failed_for_an_hour_is_told_as_new() -> None:
    failures = FailureThrottle()
    assert failures.times_suppressed(START, REFUSED, 0) == 0
    assert failures.times_suppressed(START, REFUSED, 30) is None
    failures.forget_old(4_000)
    assert failures.times_suppressed(START, REFUSED, 4_000) == 0


def test_what_was_said_of_a_call_is_forgotten_while_it_fails_for_other_reasons() -> None:
    failures = FailureThrottle()
    failures.times_suppressed(START, REFUSED, 0)
    failures.times_suppressed(START, CallResult(Outcome.REFUSED, "INTERNAL", "no such host"), 4_000)
    failures.forget_old(4_000)
    told = [failures.has_logged(7, f"deploy of VM 7: no such {what}") for what in ("image", "host")]
    assert told == [False, True]


def test_a_plan_that_is_refused_in_each_cycle_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    refused = replace(led(RaftState.SOLO), violations=(Violation("room", "host 3 is overfull"),))
    lines = cycles(caplog, refused, refused, led(RaftState.SOLO), refused)
    assert lines == [f"{REFUSED_PLAN}: host 3 is overfull"] * 2


def test_a_defect_that_stays_is_told_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    log = CycleLog(LOGGER)
    with caplog.at_level(logging.INFO, LOGGER.name):
        for _ in range(3):
            try:
                raise ZeroDivisionError("in a cycle")
            except ZeroDivisionError as error:
                log.defect(error)
        log.report(led(RaftState.SOLO))
    assert caplog.messages == ["a cycle failed; the next one starts afresh", "the trouble is over: cycles go on"]
    assert "ZeroDivisionError: in a cycle" in caplog.text
