"""The demonstration: an emulated cloud, the production scheduler, and a story that happens before one's eyes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from one_preempt.entrypoints.demo import energy, preemption, reservation
from one_preempt.entrypoints.demo.stage import Stage, open_stage
from one_preempt.entrypoints.demo.story import Check, Ending, Narration, Tell
from one_preempt.errors import OnePreemptError

DEFAULT_SPEED = 15.0
ACTS: Mapping[str, Callable[[Stage], Ending]] = {
    "preemption": preemption.play,
    "reservation": reservation.play,
    "energy": energy.play,
}
# What is configured for an act besides what holds for all.
CONFIGURED = {"energy": "power.yaml"}


def run_demo(act: str, tell: Tell, speed: float = DEFAULT_SPEED) -> bool:
    """Play an act and tell it step by step; whether it ended well.

    `speed` seconds of the cloud pass in a second; 0 waits for nothing.
    """
    try:
        with _ended_by_signals(), open_stage(tell, speed, CONFIGURED.get(act, "")) as stage:
            tell(_opening(stage, speed))
            ending = ACTS[act](stage)
    except OnePreemptError as error:
        ending = Ending((Check(str(error), False),))
    tell(ending)
    return ending.well


def _opening(stage: Stage, speed: float) -> Narration:
    pace = f", {speed:g} times as fast as yours" if speed else ""
    return Narration(
        f"An emulated OpenNebula {stage.description.version} listens at {stage.cloud.endpoint}, on a clock of its own"
        f"{pace}. The scheduler is the real one; its database is in a temporary folder. No other cloud is touched."
    )


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the demonstration as Ctrl-C does, so that nothing is left behind."""
    taken = []
    if threading.current_thread() is threading.main_thread():
        taken = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
