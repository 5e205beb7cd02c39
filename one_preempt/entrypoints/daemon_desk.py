"""What the daemon says at its socket: whether it schedules, how the last cycle went. And it is woken there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from msgspec import Struct

from one_preempt.adapters.daemon_socket.messages import Message
from one_preempt.core.model.pool_snapshot import RaftState
from one_preempt.scheduling_cycle import CycleReport

# A cycle that ended well counts for so many intervals, and for so many times its own length.
RECENT_INTERVALS = 3
RECENT_LENGTHS = 3


class LastCycle(Struct, frozen=True):
    """How a cycle went; `error` is empty where it went well. `ended_s` is of the monotonic clock."""

    ended_s: float
    duration_s: float
    raft_state: RaftState | None = None
    paused: bool = False
    waiting_leases: int = 0
    open_preemptions: int = 0
    actions: int = 0
    error: str = ""

    @property
    def leads(self) -> bool:
        """This front-end is the one to act."""
        return self.raft_state is not None and self.raft_state.leads


def went(report: CycleReport, duration_s: float) -> LastCycle:
    """The facts of a report."""
    state, plan = report.state, report.plan
    return LastCycle(
        ended_s=time.monotonic(),
        duration_s=duration_s,
        raft_state=report.raft_state,
        paused=state is not None and state.paused,
        waiting_leases=len(plan.refusals) if plan is not None else 0,
        open_preemptions=len(state.preemptions) if state is not None else 0,
        actions=len(report.results),
        error="the plan was refused by its own check" if report.is_refused else "",
    )


def failed(error: str, duration_s: float) -> LastCycle:
    """A cycle that could not be carried out."""
    return LastCycle(ended_s=time.monotonic(), duration_s=duration_s, error=error)


class Desk:
    """Answers messages from what the scheduling thread last told; safe between threads."""

    def __init__(self, interval_s: float, wake: Callable[[], None]) -> None:
        self._interval_s = interval_s
        self._wake = wake
        self._lock = threading.Lock()
        self._last: LastCycle | None = None

    def tell(self, last: LastCycle) -> None:
        """A cycle has ended."""
        with self._lock:
            self._last = last

    def answer(self, message: Message) -> dict[str, object] | None:
        """The reply to a message; all but ``status`` wake the daemon.

        ``place`` gets none where the daemon does not schedule: then it places by itself, as it does without a daemon.
        """
        with self._lock:
            last = self._last
        if message is Message.STATUS:
            return {"ok": True, "schedules": self._schedules(last), "last_cycle": _described(last)}
        self._wake()
        if message is Message.PLACE:
            return {"ok": True, "schedules": True} if self._schedules(last) else None
        return {"ok": True}

    def _schedules(self, last: LastCycle | None) -> bool:
        """The last cycle was recent, acted, and went well: whoever asks may leave placing to the daemon."""
        if last is None or last.error or not last.leads:
            return False
        valid_s = RECENT_INTERVALS * self._interval_s + RECENT_LENGTHS * last.duration_s
        return time.monotonic() - last.ended_s <= valid_s


def _described(last: LastCycle | None) -> dict[str, object] | None:
    if last is None:
        return None
    return {
        "ended_ago_s": round(time.monotonic() - last.ended_s, 3),
        "duration_s": round(last.duration_s, 3),
        "leads": last.leads,
        "paused": last.paused,
        "waiting_leases": last.waiting_leases,
        "open_preemptions": last.open_preemptions,
        "actions": last.actions,
        "error": last.error,
    }
