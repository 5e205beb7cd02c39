"""The drivers: operations wait for a free place, run for their duration, and report."""

from __future__ import annotations

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
    _waiting: list[Job] = field(default_factory=list)
    _running: list[Job] = field(default_factory=list)

    def submit(self, job: Job) -> None:
        """Queue `job` and start it at once where there is room."""
        self._waiting.append(job)
        self._start_what_fits()

    def cancel(self, job: Job) -> None:
        """Forget `job`: it frees its place and reports nothing."""
        job.cancelled = True
        if job.running:
            self._running.remove(job)
        else:
            self._waiting.remove(job)
        self._start_what_fits()

    def running(self) -> list[Job]:
        """The operations under way, oldest first."""
        return list(self._running)

    def waiting(self) -> list[Job]:
        """The operations that wait for a place, oldest first."""
        return list(self._waiting)

    def _start_what_fits(self) -> None:
        for job in [job for job in self._waiting if self._has_place(job)]:
            if not self._has_place(job):
                continue
            self._waiting.remove(job)
            self._running.append(job)
            job.running = True
            duration_ms = job.start()
            if duration_ms is not None:
                self.events.plan(self.clock.now_ms + duration_ms, partial(self._end, job))

    def _has_place(self, job: Job) -> bool:
        if job.operation in TRANSFERS:
            return sum(other.operation in TRANSFERS for other in self._running) < self.limits.transfers
        busy = [other for other in self._running if other.operation not in TRANSFERS]
        on_host = sum(other.host_id == job.host_id for other in busy)
        return len(busy) < self.limits.virtualization and on_host < self.limits.virtualization_per_host

    def _end(self, job: Job) -> None:
        if job.cancelled:
            return
        self._running.remove(job)
        job.finish()
        self._start_what_fits()
