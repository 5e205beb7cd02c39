"""The scheduler as a process: cycles by the clock, or one for each line read (a rehearsal, and the tests).

A cycle that fails does not end the daemon: the cause is logged once, and the next one starts from a fresh
observation. SIGTERM and SIGINT end it between two cycles.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
from collections.abc import Iterator
from typing import TextIO

from one_preempt.adapters.clock import FixedClock, SystemClock
from one_preempt.composition import open_cycle
from one_preempt.entrypoints.cycle_log import CycleLog
from one_preempt.errors import OnePreemptError
from one_preempt.scheduling_cycle import CycleReport, SchedulingCycle
from one_preempt.settings import LogSettings, Settings, doubts

LOGGER = logging.getLogger("one_preempt")
LONGEST_PAUSE_S = 300


def run_daemon(settings: Settings) -> int:
    """Schedule by the system's clock until SIGTERM or SIGINT; the exit code."""
    _log_to(settings.log)
    with open_cycle(settings, SystemClock()) as cycle:
        return _run_by_the_clock(cycle, settings)


def run_stepwise(settings: Settings, steps: TextIO, reports: TextIO) -> int:
    """One cycle for each line of `steps`, and a JSON object about it on `reports`; the exit code.

    A line is the instant of the cycle in seconds since the epoch, or empty for the system's.
    """
    _log_to(settings.log)
    clock = FixedClock(SystemClock().now_s())
    cycle_log = CycleLog(LOGGER)
    with open_cycle(settings, clock) as cycle:
        for line in steps:
            text = line.strip()
            try:
                clock.set(int(text) if text else SystemClock().now_s())
            except ValueError:
                LOGGER.error("a step must be an instant in seconds since the epoch, not %r", text[:80])
                return 2
            reports.write(json.dumps(_step(cycle, cycle_log)) + "\n")
            reports.flush()
    return 0


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


def _run_by_the_clock(cycle: SchedulingCycle, settings: Settings) -> int:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    LOGGER.info("scheduling every %d s; preemption: %s", settings.cycle_interval_s, settings.preemption)
    for doubt in doubts(settings):
        LOGGER.warning("configuration: %s", doubt)
    cycle_log = CycleLog(LOGGER)
    pauses = _pauses(settings.cycle_interval_s)
    while not stop.is_set():
        try:
            report = cycle.run()
        except OnePreemptError as error:
            cycle_log.failed(error)
            stop.wait(next(pauses))
            continue
        except Exception:
            LOGGER.exception("a cycle failed; the next one starts afresh")
            stop.wait(next(pauses))
            continue
        pauses = _pauses(settings.cycle_interval_s)
        cycle_log.report(report)
        stop.wait(_wait_s(report, settings.cycle_interval_s))
    LOGGER.info("stopped")
    return 0


def _pauses(interval_s: int) -> Iterator[float]:
    """Growing pauses between cycles that fail."""
    pause_s = float(interval_s)
    while True:
        yield pause_s
        pause_s = min(pause_s * 2, LONGEST_PAUSE_S)


def _wait_s(report: CycleReport, interval_s: int) -> float:
    wake_at_s = report.plan.wake_at_s if report.plan is not None else None
    if wake_at_s is None:
        return float(interval_s)
    return float(min(interval_s, max(1, wake_at_s - SystemClock().now_s())))


def _log_to(log: LogSettings) -> None:
    try:
        handler = logging.FileHandler(log.file) if log.file else logging.StreamHandler(sys.stderr)
    except OSError as error:
        raise OnePreemptError(f"cannot write the log {log.file}: {error.strerror}; see log.file") from error
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    LOGGER.handlers[:] = [handler]
    LOGGER.setLevel(log.level.upper())
    LOGGER.propagate = False
