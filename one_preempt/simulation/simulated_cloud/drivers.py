"""The drivers: operations wait for a free place, run for their duration, and report."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from one_preempt.simulation.simulated_cloud.durations import TRANSFERS, DriverLimits, Operation
from one_preempt.simulation.simulated_cloud.virtual_time import EventQueue, VirtualClock


@dataclass(slots=True, eq=False)
class Job:
    """One driver operation of one VM. `start` is asked, when a place is free, for the duration in ms (None = it
    never ends); `finish` is called at the end, unless the job was cancelled."""

    operation: Operation
    vm_id: int
    host_id: int
    start: Callable[[], int | None]
    finish: Callable[[], None]
    running: bool = False
    cancelled: bool = False


@dataclass(slots=True)
class Drivers:
    """Two queues, first come first served; a virtualization job whose host is busy lets later ones pass."""

    clock: VirtualClock
    events: EventQueue
    limits: DriverLimits = field(default_factory=DriverLimits)
    _transfers_waiting: deque[Job] = field(default_factory=deque)
    _waiting: deque[Job] = field(default_factory=deque)
    _running: list[Job] = field(default_factory=list)
    _busy_on_host: Counter[int] = field(default_factory=Counter)
    _transfers_running: int = 0

    def submit(self, job: Job) -> None:
        """Queue `job` and start it at once where there is room."""
        self._queue_of(job).append(job)
        self._start_what_fits()

    def cancel(self, job: Job) -> None:
        """Forget `job`: it frees its place and reports nothing."""
        job.cancelled = True
        if job.running:
            self._free_place(job)
        else:
            self._queue_of(job).remove(job)
        self._start_what_fits()

    def running(self) -> list[Job]:
        """The operations under way, oldest first."""
        return list(self._running)

    def waiting(self) -> list[Job]:
        """The operations that wait for a place: transfers, then virtualization, each oldest first."""
        return [*self._transfers_waiting, *self._waiting]

    def _queue_of(self, job: Job) -> deque[Job]:
        return self._transfers_waiting if job.operation in TRANSFERS else self._waiting

    def _start_what_fits(self) -> None:
        while self._transfers_waiting and self._transfers_running < self.limits.transfers:
            self._start(self._transfers_waiting.popleft())
        passed_over: deque[Job] = deque()
        while self._waiting and len(self._running) - self._transfers_running < self.limits.virtualization:
            job = self._waiting.popleft()
            if self._busy_on_host[job.host_id] < self.limits.virtualization_per_host:
                self._start(job)
            else:
                passed_over.append(job)
        self._waiting.extendleft(reversed(passed_over))

    def _start(self, job: Job) -> None:
        job.running = True
        self._running.append(job)
        if job.operation in TRANSFERS:
            self._transfers_running += 1
        else:
            self._busy_on_host[job.host_id] += 1
        duration_ms = job.start()
        if duration_ms is not None:
            self.events.plan(self.clock.now_ms + duration_ms, partial(self._end, job))

    def _free_place(self, job: Job) -> None:
        self._running.remove(job)
        if job.operation in TRANSFERS:
            self._transfers_running -= 1
        else:
            self._busy_on_host[job.host_id] -= 1

    def _end(self, job: Job) -> None:
        if job.cancelled:
            return
        self._free_place(job)
        job.finish()
        self._start_what_fits()
