"""The daemon's pause, and what it says of itself."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from contextlib import nullcontext
from itertools import islice, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from msgspec import convert
from msgspec.structs import replace

from one_preempt.adapters.daemon_socket.messages import Message
from one_preempt.configuration.settings import Settings
from one_preempt.core.model.pool_snapshot import RaftState
from one_preempt.core.verify import Violation
from one_preempt.entrypoints import daemon
from one_preempt.entrypoints.alarm import Alarm
from one_preempt.entrypoints.cycle_log import CycleLog
from one_preempt.entrypoints.daemon_desk import Desk, LastCycle, failed, went
from one_preempt.entrypoints.daemon_metrics import DaemonMetrics
from one_preempt.entrypoints.kept_socket import KeptSocket
from one_preempt.entrypoints.service_manager import notify
from one_preempt.ports import AnotherDaemonWrites, CloudUnavailable
from one_preempt.scheduling_cycle import CycleReport, SchedulingCycle

LONG_S = 60.0


def slept_s(alarm: Alarm, longest_s: float, shortest_s: float = 0.0) -> tuple[bool, float]:
    began_s = time.monotonic()
    return alarm.sleep(longest_s, shortest_s), time.monotonic() - began_s


def test_a_ring_ends_the_sleep_and_one_that_came_before_the_next() -> None:
    with Alarm() as alarm:
        threading.Timer(0.02, alarm.ring).start()
        assert slept_s(alarm, LONG_S)[0]
        alarm.ring()
        rung, duration_s = slept_s(alarm, LONG_S)
    assert rung
    assert duration_s < LONG_S / 2


def test_a_burst_counts_once_and_not_before_the_shortest_pause() -> None:
    with Alarm() as alarm:
        for _ in range(50):
            alarm.ring()
        rung, duration_s = slept_s(alarm, LONG_S, 0.05)
        assert rung
        assert 0.05 <= duration_s < LONG_S / 2
        assert not alarm.sleep(0.01)


def test_stopping_ends_every_sleep_even_the_shortest_pause() -> None:
    with Alarm() as alarm:
        alarm.ring()
        threading.Timer(0.02, alarm.stop).start()
        assert slept_s(alarm, LONG_S, LONG_S)[1] < LONG_S / 2
        assert alarm.stopped
        assert slept_s(alarm, LONG_S, LONG_S)[1] < LONG_S / 2


def test_a_signal_can_stop_the_sleep_of_its_own_thread() -> None:
    with Alarm() as alarm:
        former = signal.signal(signal.SIGUSR1, lambda _number, _frame: alarm.stop())
        timer = threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGUSR1))
        timer.start()
        assert slept_s(alarm, LONG_S)[1] < LONG_S / 2
        timer.join()
        signal.signal(signal.SIGUSR1, former)


class AlarmOnVirtualTime:
    """An alarm that rings once; its sleeps take no time of ours."""

    stopped = False

    def __init__(self, rings_at_s: float) -> None:
        self.now_s, self._rings_at_s = 0.0, rings_at_s

    def sleep(self, longest_s: float, shortest_s: float) -> bool:
        rings_in_s = self._rings_at_s - self.now_s
        rung = 0 <= rings_in_s < longest_s
        self.now_s += max(rings_in_s, shortest_s) if rung else longest_s
        return rung


@pytest.mark.parametrize(
    ("rings_at_s", "shortest_s", "ends_at_s"),
    [(20, 1, 20), (20, 1800, 1800), (20, 90, 90), (100, 90, 100), (9999, 1, 1800), (20, 3600, 1800)],
)
def test_systemd_has_a_sign_of_life_a_minute_however_long_a_ring_has_to_wait(
    rings_at_s: float, shortest_s: float, ends_at_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    alarm = AlarmOnVirtualTime(rings_at_s)
    signs: list[float] = []
    monkeypatch.setattr(daemon, "time", SimpleNamespace(monotonic=lambda: alarm.now_s))
    monkeypatch.setattr(daemon, "notify", lambda _sign: signs.append(alarm.now_s))
    daemon._sleep(cast(Alarm, alarm), 1800, shortest_s)
    assert alarm.now_s == ends_at_s
    assert signs[0] == 0
    assert max(later - sign for sign, later in pairwise([*signs, ends_at_s])) <= 60


def test_where_cycles_fail_the_pauses_between_them_grow_up_to_the_longest() -> None:
    assert list(islice(daemon._pauses(10), 5)) == [10, 20, 40, daemon.LONGEST_PAUSE_S, daemon.LONGEST_PAUSE_S]
    assert list(islice(daemon._pauses(240), 2)) == [240, 240]


class AlarmOfSomeSleeps:
    """An alarm that does not ring, and is stopped after so many sleeps; how long they were to be."""

    def __init__(self, sleeps: int) -> None:
        self.slept_s: list[float] = []
        self._sleeps = sleeps

    @property
    def stopped(self) -> bool:
        return len(self.slept_s) == self._sleeps

    def take_hang_up(self) -> bool:
        return False

    def sleep(self, longest_s: float, _shortest_s: float) -> bool:
        self.slept_s.append(longest_s)
        return False


@pytest.mark.parametrize(
    ("failure", "pauses_s"),
    [
        (CloudUnavailable("oned is away"), [10, 20, 40, 60, 60]),
        # This front-end leads, and nobody schedules until the one that led has seen that.
        (AnotherDaemonWrites("another daemon writes"), [10, 10, 10, 10, 10]),
    ],
)
def test_who_leads_looks_in_each_cycle_whether_the_former_leader_has_let_go(
    failure: Exception, pauses_s: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Fails:
        def run(self) -> None:
            raise failure

    alarm = AlarmOfSomeSleeps(len(pauses_s))
    monkeypatch.setattr(daemon, "_sleep", lambda _alarm, longest_s, shortest_s: alarm.sleep(longest_s, shortest_s))
    kept = KeptSocket(lambda: nullcontext(lambda: True))
    log, desk = CycleLog(logging.getLogger("of a test")), Desk(10, lambda: None)
    listeners = daemon.Listeners(log, desk, kept, DaemonMetrics(Settings()))
    settings = convert({"cycle_interval_s": 10}, Settings)
    daemon._run_by_the_clock(cast(SchedulingCycle, Fails()), settings, cast(Alarm, alarm), listeners)
    assert alarm.slept_s == pauses_s


class Woken:
    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


@pytest.fixture
def woken() -> Woken:
    return Woken()


@pytest.fixture
def desk(woken: Woken) -> Desk:
    return Desk(10, woken)


def good_cycle() -> LastCycle:
    return LastCycle(ended_s=time.monotonic(), duration_s=2.0, raft_state=RaftState.LEADER)


def schedules(desk: Desk, last: LastCycle | None) -> bool:
    if last is not None:
        desk.tell(last)
    answer = desk.answer(Message.PLACE)
    assert answer in (None, {"ok": True, "schedules": True})
    return answer is not None


def test_placing_may_be_left_to_a_daemon_that_leads_and_whose_last_cycle_went_well(desk: Desk) -> None:
    assert schedules(desk, None) is False
    assert schedules(desk, good_cycle()) is True
    assert schedules(desk, replace(good_cycle(), raft_state=RaftState.SOLO)) is True
    assert schedules(desk, replace(good_cycle(), raft_state=RaftState.FOLLOWER)) is False
    assert schedules(desk, failed("oned is away", 1.0)) is False
    assert schedules(desk, good_cycle()) is True


def test_a_cycle_long_ago_does_not_count(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.tell(good_cycle())
    now_s = time.monotonic()
    monkeypatch.setattr("one_preempt.entrypoints.daemon_desk.time.monotonic", lambda: now_s + 35)
    assert schedules(desk, None) is True
    monkeypatch.setattr("one_preempt.entrypoints.daemon_desk.time.monotonic", lambda: now_s + 37)
    assert schedules(desk, None) is False


def test_a_plan_that_its_own_check_refused_places_nothing(desk: Desk) -> None:
    report = CycleReport(RaftState.SOLO, violations=(Violation("capacity", "host 1 is full"),), is_refused=True)
    assert schedules(desk, went(report, 1.0)) is False
    assert schedules(desk, went(CycleReport(RaftState.SOLO), 1.0)) is True


def test_all_messages_but_status_wake_the_daemon(desk: Desk, woken: Woken) -> None:
    assert desk.answer(Message.STATUS) == {"ok": True, "schedules": False, "last_cycle": None}
    assert woken.times == 0
    for kind in ("place", "hook", "wake"):
        desk.answer(Message(kind))
    assert woken.times == 3


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_is_told_at_the_address_it_gave(
    abstract: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"{'@' if abstract else ''}{tmp_path}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(address.replace("@", "\0", 1))
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        notify("READY=1")
        systemd.settimeout(LONG_S)
        assert systemd.recv(100) == b"READY=1"


def test_without_systemd_or_where_it_is_gone_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    notify("READY=1")
