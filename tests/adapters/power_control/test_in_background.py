"""Power control that takes its time holds nobody up."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock, patch

import pytest
from msgspec.structs import replace

from one_preempt.adapters.power_control.advice_only import AdviceOnlyPowerControl
from one_preempt.adapters.power_control.command import CommandPowerControl
from one_preempt.adapters.power_control.in_background import BackgroundPowerCalls, answer_of
from one_preempt.bounded_io.child_process import Children
from one_preempt.configuration.power_control_settings import CommandSettings
from one_preempt.core.model.host import HostState
from one_preempt.core.model.power import PowerAnswer, PowerOutcome, PowerReading, PowerStatus
from one_preempt.core.model.power_sequence import HostPowerStep, PowerReport, PowerStepKind

ACCEPTED = PowerOutcome(PowerAnswer.ACCEPTED, "")


class Slow:
    """Answers when it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.answered = threading.Semaphore(0)
        self.asked: list[str] = []

    def switch_on(self, host: str) -> PowerOutcome:
        return self._slowly(f"on {host}")

    def switch_off(self, host: str, hard: bool) -> PowerOutcome:
        return self._slowly(f"{'hard' if hard else 'soft'} off {host}")

    def status(self, host: str) -> PowerReading:
        return PowerReading(PowerStatus.OFF, self._slowly(f"status {host}"))

    def asked_so_often(self, times: int) -> None:
        """Return once it was."""
        began_at_s = time.monotonic()
        while len(self.asked) < times:
            assert time.monotonic() - began_at_s < 10

    def _slowly(self, what: str) -> PowerOutcome:
        self.asked.append(what)
        assert self.let_go.wait(10)
        self.answered.release()
        return ACCEPTED


def step(host_id: int, kind: PowerStepKind, *, at_rest: bool = False) -> HostPowerStep:
    return HostPowerStep(host_id, f"node{host_id}", kind, "idle", "nobody is on it", at_rest=at_rest)


@pytest.fixture
def slow() -> Iterator[Slow]:
    control = Slow()
    yield control
    control.let_go.set()


def taken(calls: BackgroundPowerCalls, count: int) -> list[PowerReport]:
    reports: list[PowerReport] = []
    while len(reports) < count:
        reports += calls.take_reports()
    return reports


def test_who_puts_a_step_does_not_wait_and_finds_the_answer_later(slow: Slow) -> None:
    with closing(BackgroundPowerCalls(slow, 2)) as calls:
        calls.put(step(2, PowerStepKind.SWITCH_OFF), 50)
        calls.put(step(1, PowerStepKind.READ_POWER), 51)
        assert calls.take_reports() == []
        slow.asked_so_often(2)
        assert (calls.is_busy(1), calls.is_busy(2), calls.is_busy(3)) == (True, True, False)
        slow.let_go.set()
        reports = sorted(taken(calls, 2), key=lambda report: report.host_id)
        assert reports == [
            PowerReport(1, PowerStepKind.READ_POWER, ACCEPTED, 51, PowerStatus.OFF),
            PowerReport(2, PowerStepKind.SWITCH_OFF, ACCEPTED, 50),
        ]
        assert not calls.is_busy(1)
        assert sorted(slow.asked) == ["soft off node2", "status node1"]


def test_no_more_are_asked_at_once_than_may_be(slow: Slow) -> None:
    with closing(BackgroundPowerCalls(slow, 1)) as calls:
        for host_id in range(3):
            calls.put(step(host_id, PowerStepKind.SWITCH_ON), 0)
        slow.let_go.set()
        assert [report.host_id for report in taken(calls, 3)] == [0, 1, 2]


def test_an_order_waits_behind_no_reading_and_takes_the_place_of_its_hosts_own(slow: Slow) -> None:
    with closing(BackgroundPowerCalls(slow, 4)) as calls:
        for host_id in range(10):
            calls.put(step(host_id, PowerStepKind.READ_POWER, at_rest=True), 50)
        slow.asked_so_often(2)
        assert (calls.is_busy(0), calls.is_busy(9)) == (True, False)
        calls.put(step(9, PowerStepKind.SWITCH_ON), 60)
        assert calls.is_busy(9)
        slow.asked_so_often(3)
        # Of the four threads one is kept free for another order.
        assert slow.asked[2:] == ["on node9"]
        calls.put(step(8, PowerStepKind.SWITCH_OFF), 60)
        slow.asked_so_often(4)
        assert slow.asked[3:] == ["soft off node8"]
        slow.let_go.set()
        reports = {report.host_id: report for report in taken(calls, 10)}
    assert reports[9] == PowerReport(9, PowerStepKind.SWITCH_ON, ACCEPTED, 60)
    assert [reports[host_id].kind for host_id in range(8)] == [PowerStepKind.READ_POWER] * 8


def test_a_host_under_way_is_read_before_all_that_are_at_rest_and_behind_orders(slow: Slow) -> None:
    with closing(BackgroundPowerCalls(slow, 1)) as calls:
        calls.put(step(0, PowerStepKind.SWITCH_ON), 50)
        slow.asked_so_often(1)
        for host_id in range(1, 10):
            calls.put(step(host_id, PowerStepKind.READ_POWER, at_rest=True), 50)
        # The ninth was woken meanwhile, and the eighth is to be.
        calls.put(step(9, PowerStepKind.READ_POWER), 60)
        calls.put(step(8, PowerStepKind.SWITCH_ON), 60)
        slow.let_go.set()
        reports = {report.host_id: report for report in taken(calls, 10)}
    assert slow.asked[:4] == ["on node0", "on node8", "status node9", "status node1"]
    assert reports[9].asked_at_s == 60


def test_readings_of_hosts_under_way_may_have_all_threads(slow: Slow) -> None:
    with closing(BackgroundPowerCalls(slow, 2)) as calls:
        for host_id in range(2):
            calls.put(step(host_id, PowerStepKind.READ_POWER), 50)
        slow.asked_so_often(2)
        slow.let_go.set()
        taken(calls, 2)


def test_threads_that_are_busy_all_the_time_are_given_no_more_work(slow: Slow) -> None:
    with closing(BackgroundPowerCalls(slow, 2)) as calls:
        with patch.object(calls._threads, "submit", wraps=calls._threads.submit) as submit:
            for now_s in range(50, 60):
                for host_id in range(5):
                    if not calls.is_busy(host_id):
                        calls.put(step(host_id, PowerStepKind.READ_POWER), now_s)
        assert submit.call_count == 2
        slow.let_go.set()
        assert sorted(report.asked_at_s for report in taken(calls, 5))[2:] == [59] * 3


def test_a_reading_that_is_put_again_keeps_its_turn(slow: Slow) -> None:
    with closing(BackgroundPowerCalls(slow, 1)) as calls:
        calls.put(step(0, PowerStepKind.SWITCH_ON), 50)
        slow.asked_so_often(1)
        for host_id, now_s in ((1, 50), (2, 50), (1, 60)):
            calls.put(step(host_id, PowerStepKind.READ_POWER), now_s)
        slow.let_go.set()
        asked_at_s = {report.host_id: report.asked_at_s for report in taken(calls, 3)}
    assert slow.asked == ["on node0", "status node1", "status node2"]
    assert asked_at_s == {0: 50, 1: 60, 2: 50}


def test_closing_waits_for_nobody(slow: Slow) -> None:
    calls = BackgroundPowerCalls(slow, 1)
    calls.put(step(0, PowerStepKind.SWITCH_ON), 0)
    calls.put(step(1, PowerStepKind.SWITCH_ON), 0)
    slow.asked_so_often(1)
    calls.close()
    # Who is asked has not answered yet; whose turn had not come is not asked.
    assert (calls.is_busy(0), calls.is_busy(1)) == (True, False)
    slow.let_go.set()
    assert [(report.host_id, report.outcome) for report in taken(calls, 1)] == [(0, ACCEPTED)]
    assert slow.asked == ["on node0"]


def test_what_takes_power_is_looked_at_once_more_when_its_turn_has_come(slow: Slow) -> None:
    why: list[str] = []
    off = replace(step(1, PowerStepKind.CUT_POWER), expected_states=(HostState.ERROR,), must_be_empty=True)
    with closing(BackgroundPowerCalls(slow, 1, lambda asked: f"{asked.id}: {why[0]}" if why else "")) as calls:
        calls.put(step(0, PowerStepKind.SWITCH_ON), 0)
        calls.put(off, 5)
        # While that waits for its turn an administrator takes the host.
        why.append("not ours any more")
        slow.let_go.set()
        first, second = taken(calls, 2)
        changed = PowerOutcome(PowerAnswer.CHANGED_HANDS, "cut-power/node1: not ours any more")
        assert (first.outcome, second) == (ACCEPTED, PowerReport(1, PowerStepKind.CUT_POWER, changed, 5))
        assert slow.asked == ["on node0"]
        why.clear()
        calls.put(off, 6)
        assert [report.outcome for report in taken(calls, 1)] == [ACCEPTED]
        assert slow.asked == ["on node0", "hard off node1"]


def test_a_control_with_a_defect_keeps_no_host_busy(slow: Slow) -> None:
    def fails(_step: HostPowerStep) -> str:
        raise KeyError("STATE")

    with closing(BackgroundPowerCalls(slow, 1, fails)) as calls:
        calls.put(replace(step(1, PowerStepKind.SWITCH_OFF), expected_states=(HostState.OFFLINE,)), 5)
        (report,) = taken(calls, 1)
        assert (report.outcome.answer, slow.asked) == (PowerAnswer.NO_ANSWER, [])
        assert "KeyError" in report.outcome.text
        assert not calls.is_busy(1)


def test_what_is_not_for_power_control_is_answered_so() -> None:
    report = answer_of(AdviceOnlyPowerControl(), step(0, PowerStepKind.DISABLE), 7)
    assert report.outcome.answer is PowerAnswer.MISCONFIGURED
    assert answer_of(AdviceOnlyPowerControl(), step(0, PowerStepKind.SWITCH_ON), 7).asked_at_s == 7


def test_what_was_dropped_is_not_begun_and_not_answered_and_a_host_is_asked_once_at_a_time(slow: Slow) -> None:
    with closing(BackgroundPowerCalls(slow, 1)) as calls:
        calls.put(step(1, PowerStepKind.SWITCH_OFF), 50)
        while not slow.asked:
            pass
        calls.put(step(2, PowerStepKind.SWITCH_OFF), 50)
        calls.drop()
        # The first is being asked still: what it says is nobody's business any more.
        assert (calls.is_busy(1), calls.is_busy(2)) == (True, False)
        slow.let_go.set()
        calls.put(step(2, PowerStepKind.READ_POWER), 60)
        assert taken(calls, 1) == [PowerReport(2, PowerStepKind.READ_POWER, ACCEPTED, 60, PowerStatus.OFF)]
        assert not calls.is_busy(1)
        assert slow.asked == ["soft off node1", "status node2"]


def test_a_host_is_busy_until_its_answer_was_taken(slow: Slow) -> None:
    """It is not told the same again before the answer is written down."""
    slow.let_go.set()
    with closing(BackgroundPowerCalls(slow, 1)) as calls:
        calls.put(step(1, PowerStepKind.SWITCH_OFF), 50)
        calls.put(step(2, PowerStepKind.READ_POWER), 50)
        for _ in range(2):
            assert slow.answered.acquire(timeout=10)
        # The one thread has reported the first before it asked for the second.
        assert calls.is_busy(1)
        taken(calls, 2)
        assert not calls.is_busy(1)


def test_an_answer_that_was_not_taken_is_dropped(slow: Slow) -> None:
    slow.let_go.set()
    with closing(BackgroundPowerCalls(slow, 1)) as calls:
        calls.put(step(1, PowerStepKind.SWITCH_OFF), 50)
        assert slow.answered.acquire(timeout=10)
        calls.put(step(2, PowerStepKind.READ_POWER), 50)
        assert slow.answered.acquire(timeout=10)
        calls.drop()
        assert calls.take_reports() == []


def test_what_is_dropped_during_its_last_look_is_not_begun(slow: Slow) -> None:
    slow.let_go.set()
    found: list[BackgroundPowerCalls] = []

    def look(_: HostPowerStep) -> str:
        found[0].drop()
        return ""

    with closing(BackgroundPowerCalls(slow, 1, look)) as calls:
        found.append(calls)
        calls.put(replace(step(1, PowerStepKind.SWITCH_OFF), expected_states=(HostState.OFFLINE,)), 50)
        while calls.is_busy(1):
            pass
    assert slow.asked == []


def test_programs_under_way_are_ended(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    program = ("sh", "-c", f"echo > {begun}; sleep 600")
    with closing(BackgroundPowerCalls(CommandPowerControl(CommandSettings(off=program, timeout_s=600)), 1)) as calls:
        calls.put(step(1, PowerStepKind.SWITCH_OFF), 50)
        while not begun.exists():
            pass
        dropped_at_s = time.monotonic()
        calls.drop()
        while calls.is_busy(1):
            assert time.monotonic() - dropped_at_s < 60
        assert calls.take_reports() == []


def test_a_program_that_may_not_be_killed_keeps_nobody_from_stepping_down(monkeypatch: pytest.MonkeyPatch) -> None:
    running = Children()
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        try:
            running.enter(process, running.ends)
            with monkeypatch.context() as patch:
                patch.setattr("os.killpg", Mock(side_effect=PermissionError))
                running.end()
            assert process.poll() is None
            running.end()
            assert process.wait(60) < 0
        finally:
            process.kill()
