"""The scheduler as a process: cycles by the clock, or one for each line read (a rehearsal, and the tests).

By the clock means every `cycle_interval_s`, earlier where a plan says when it is due, and at once when the socket or
OpenNebula's event bus tells of a change, with a pause that keeps the daemon from doing nothing else.

A cycle that fails does not end the daemon: the cause is logged once, and the next one starts from a fresh
observation. SIGTERM and SIGINT end it between two cycles; SIGHUP is answered by a line.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import TextIO

from msgspec import Struct

from one_preempt.adapters.clock import FixedClock, SystemClock
from one_preempt.composition import open_cycle, open_event_bus, open_socket
from one_preempt.configuration.doubts import doubts
from one_preempt.configuration.settings import Settings
from one_preempt.entrypoints.alarm import Alarm
from one_preempt.entrypoints.cycle_log import CycleLog
from one_preempt.entrypoints.daemon_desk import Desk, failed, went
from one_preempt.entrypoints.daemon_log import log_to
from one_preempt.entrypoints.daemon_metrics import DaemonMetrics
from one_preempt.entrypoints.kept_socket import KeptSocket
from one_preempt.entrypoints.service_manager import notify
from one_preempt.errors import OnePreemptError
from one_preempt.ports import AnotherDaemonWrites
from one_preempt.scheduling_cycle import CycleReport, SchedulingCycle

LOGGER = logging.getLogger("one_preempt")
# Who comes back is waited for with this patience: a front-end whose oned was away may be the next to lead.
LONGEST_PAUSE_S = 60
# What wakes the daemon early comes in bursts: one cycle answers all of a second.
SHORTEST_PAUSE_S = 1.0
SIGN_OF_LIFE_S = 60
LATEST_STEP_S = 2**33


def run_daemon(settings: Settings) -> int:
    """Schedule by the system's clock until SIGTERM or SIGINT; the exit code."""
    log_to(settings.log)
    with ExitStack() as stack:
        alarm = stack.enter_context(Alarm())
        stack.enter_context(alarm.heeding_signals())
        bus = open_event_bus(settings, SystemClock(), alarm.ring) if settings.events.enabled else None
        metrics = stack.enter_context(DaemonMetrics(settings))
        cycle = stack.enter_context(open_cycle(settings, SystemClock(), events=bus, on_call=metrics.on_call))
        desk = Desk(settings.cycle_interval_s, alarm.ring)
        kept_socket = stack.enter_context(KeptSocket(lambda: open_socket(settings, desk.answer)))
        kept_socket.keep()
        metrics.keep()
        if bus is not None:
            _open_where_possible(stack, bus.listening())
        notify("READY=1")
        listeners = Listeners(CycleLog(LOGGER), desk, kept_socket, metrics)
        _run_by_the_clock(cycle, settings, alarm, listeners)
        notify("STOPPING=1")
    LOGGER.info("stopped")
    return 0


def _open_where_possible(stack: ExitStack, entrance: AbstractContextManager[None]) -> None:
    """What only wakes the daemon early may be missing: polling goes on without."""
    try:
        stack.enter_context(entrance)
    except OnePreemptError as error:
        LOGGER.warning("%s; going on without it", error)


def run_stepwise(settings: Settings, steps: TextIO, reports: TextIO) -> int:
    """One cycle for each line of `steps`, and a JSON object about it on `reports`; the exit code.

    A line is the instant of the cycle in seconds since the epoch, or empty for the system's.
    """
    log_to(settings.log)
    clock = FixedClock(SystemClock().now_s())
    cycle_log = CycleLog(LOGGER)
    with open_cycle(settings, clock) as cycle:
        for line in steps:
            text = line.strip()
            try:
                clock.set(_instant(text) if text else SystemClock().now_s())
            except ValueError:
                LOGGER.error("a step must be an instant in seconds since the epoch, not %r", text[:80])
                return 2
            reports.write(json.dumps(_step(cycle, cycle_log)) + "\n")
            reports.flush()
    return 0


def _instant(text: str) -> int:
    """Seconds since the epoch. Raises ValueError, also where no calendar has that day."""
    at_s = int(text)
    if not 0 <= at_s <= LATEST_STEP_S:
        raise ValueError
    return at_s


def _step(cycle: SchedulingCycle, cycle_log: CycleLog) -> dict[str, object]:
    try:
        report = cycle.run()
    except OnePreemptError as error:
        cycle_log.failed(error)
        return {"error": str(error)}
    cycle_log.report(report)
    return {
        "issued": [
            {"id": action.id, "kind": action.kind, "vm_id": action.vm_id, "outcome": result.outcome}
            for action, result in report.results
        ],
        "violations": [violation.text for violation in report.violations],
        "wake_at": report.plan.wake_at_s if report.plan is not None else None,
    }


class Listeners(Struct, frozen=True):
    """Who is told how cycles went: the log, those who ask at the socket, those who read metrics."""

    log: CycleLog
    desk: Desk
    kept_socket: KeptSocket
    metrics: DaemonMetrics


def _run_by_the_clock(cycle: SchedulingCycle, settings: Settings, alarm: Alarm, listeners: Listeners) -> None:
    interval_s = settings.cycle_interval_s
    LOGGER.info("scheduling every %d s; preemption: %s", interval_s, settings.preemption)
    for doubt in doubts(settings):
        LOGGER.warning("configuration: %s", doubt)
    pauses = _pauses(interval_s)
    while not alarm.stopped:
        began_s = time.monotonic()
        if alarm.take_hang_up():
            LOGGER.warning("SIGHUP is ignored: restart the daemon to have the configuration read")
        came_of_it = _cycle(cycle, listeners)
        listeners.metrics.keep()
        if isinstance(came_of_it, CycleReport):
            pauses = _pauses(interval_s)
            listeners.kept_socket.keep()
            _sleep(alarm, _wait_s(came_of_it, interval_s), max(SHORTEST_PAUSE_S, time.monotonic() - began_s))
        elif isinstance(came_of_it, AnotherDaemonWrites):
            # It leaves as soon as it sees that this front-end leads, and until then nobody schedules.
            pauses = _pauses(interval_s)
            _sleep(alarm, interval_s, interval_s)
        else:
            _sleep(alarm, next(pauses), interval_s)


def _cycle(cycle: SchedulingCycle, listeners: Listeners) -> CycleReport | Exception:
    """One cycle, told to all who listen; or why it failed."""
    began_s = time.monotonic()
    try:
        report = cycle.run()
    except OnePreemptError as error:
        if isinstance(error, AnotherDaemonWrites):
            # `place` must not ask the daemon that does not schedule.
            listeners.kept_socket.leave()
        listeners.desk.tell(failed(str(error), time.monotonic() - began_s))
        listeners.log.failed(error)
        listeners.metrics.failed()
        return error
    except Exception as defect:  # noqa: BLE001 - it is logged with its traceback there
        listeners.desk.tell(failed("a defect: see the log", time.monotonic() - began_s))
        listeners.log.defect(defect)
        listeners.metrics.failed(defect=True)
        return defect
    duration_s = time.monotonic() - began_s
    listeners.desk.tell(went(report, duration_s))
    listeners.log.report(report)
    listeners.metrics.report(report, duration_s)
    return report


def _sleep(alarm: Alarm, longest_s: float, shortest_s: float) -> None:
    """Sleep with a sign of life to systemd now and then: until rung, but for `shortest_s` at least.

    A ring never makes it longer: after a long cycle it would put off what is due before.
    """
    began_s = time.monotonic()
    shortest_s = min(shortest_s, longest_s)
    rung = False
    while not alarm.stopped:
        slept_s = time.monotonic() - began_s
        left_s = (shortest_s if rung else longest_s) - slept_s
        if left_s <= 0:
            break
        notify("WATCHDOG=1")
        slice_s = min(left_s, SIGN_OF_LIFE_S)
        rung = alarm.sleep(slice_s, min(slice_s, shortest_s - slept_s)) or rung


def _pauses(interval_s: int) -> Iterator[float]:
    """Growing pauses between cycles that fail."""
    pause_s = float(interval_s)
    while True:
        yield pause_s
        pause_s = min(pause_s * 2, max(LONGEST_PAUSE_S, interval_s))


def _wait_s(report: CycleReport, interval_s: int) -> float:
    wake_at_s = report.plan.wake_at_s if report.plan is not None else None
    if wake_at_s is None:
        return float(interval_s)
    return float(min(interval_s, max(1, wake_at_s - SystemClock().now_s())))
