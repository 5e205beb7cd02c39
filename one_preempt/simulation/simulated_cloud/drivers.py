"""The drivers: operations wait for a free place, run for their duration, and report.

Operations that take no time still end after the call that began them, one after the other at the same instant.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from functools import partial

from msgspec import Struct, field

from one_preempt.simulation.simulated_cloud.durations import TRANSFERS, DriverLimits, Operation
from one_preempt.simulation.simulated_cloud.virtual_time import EventQueue, VirtualClock


class Job(Struct, eq=False):
    """One driver operation of one VM. `start` is asked, when a place is free, for the duration in ms (None = it
    never ends); `finish` is called at the end, unless the job was cancelled. `fails` is for the two to agree upon."""

    operation: Operation
    vm_id: int
    host_id: int
    start: Callable[[Job], int | None]
    finish: Callable[[Job], None]
    fails: bool = False
    running: bool = False
    cancelled: bool = False


class Drivers(Struct):
    """Two queues, first come first served; a virtualization job whose host is busy lets later ones pass.

    `at_work` are the jobs under way, oldest first. `is_ending`: operations that take no time are ending just now, so
    that nobody waits for the answer to a call.
    """

    clock: VirtualClock
    events: EventQueue
    limits: DriverLimits = field(default_factory=DriverLimits)
    _transfers_waiting: deque[Job] = field(default_factory=deque)
    _waiting: deque[Job] = field(default_factory=deque)
    at_work: dict[Job, None] = field(default_factory=dict)
    _busy_on_host: Counter[int] = field(default_factory=Counter)
    _transfers_running: int = 0
    is_ending: bool = False
    _ending_now: deque[Job] = field(default_factory=deque)

    def submit(self, job: Job) -> None:
        """Queue `job` and start it at once where there is room."""
        if self.has_place(job.operation, job.host_id):
            self._start(job)
            return
        self._queue_of(job).append(job)
        self._start_what_fits()

    def end_soon(self, job: Job) -> None:
        """Let `job`, which takes no time and for which there is a place, end after the present call."""
        if not self._ending_now:
            self.events.plan(self.clock.now_ms, self._end_all)
        self._ending_now.append(job)

    def end_after(self, job: Job, duration_ms: int) -> None:
        """Let `job`, of which the start told no duration, end after one."""
        if duration_ms == 0:
            self.end_soon(job)
        else:
            self.events.plan(self.clock.now_ms + duration_ms, partial(self._end, job))

    def end_now(self, job: Job) -> None:
        """End `job`, which takes no time, in the place of one that is ending just now."""
        self._end(job)

    @property
    def is_idle(self) -> bool:
        """Nothing is under way that takes time, and nothing waits for its turn."""
        return not (self.at_work or self._waiting or self._transfers_waiting)

    def has_place(self, operation: Operation, host_id: int) -> bool:
        """A job would start at once: none waits before it, and not too many run."""
        if operation in TRANSFERS:
            return not self._transfers_waiting and self._transfers_running < self.limits.transfers
        if self._waiting or len(self.at_work) - self._transfers_running >= self.limits.virtualization:
            return False
        return self._busy_on_host.get(host_id, 0) < self.limits.virtualization_per_host

    def cancel(self, job: Job) -> None:
        """Forget `job`: it frees its place and reports nothing."""
        job.cancelled = True
        if job.running:
            self._free_place(job)
        elif job in self._queue_of(job):
            self._queue_of(job).remove(job)
        self._start_what_fits()

    def running(self) -> list[Job]:
        """The operations under way, oldest first."""
        return list(self.at_work)

    def waiting(self) -> list[Job]:
        """The operations that wait for a place: transfers, then virtualization, each oldest first."""
        return [*self._transfers_waiting, *self._waiting]

    def _queue_of(self, job: Job) -> deque[Job]:
        return self._transfers_waiting if job.operation in TRANSFERS else self._waiting

    def _start_what_fits(self) -> None:
        while self._transfers_waiting and self._transfers_running < self.limits.transfers:
            self._start(self._transfers_waiting.popleft())
        if not self._waiting:
            return
        passed_over: deque[Job] = deque()
        while self._waiting and len(self.at_work) - self._transfers_running < self.limits.virtualization:
            job = self._waiting.popleft()
            if self._busy_on_host[job.host_id] < self.limits.virtualization_per_host:
                self._start(job)
            else:
                passed_over.append(job)
        self._waiting.extendleft(reversed(passed_over))

    def _start(self, job: Job) -> None:
        job.running = True
        self.at_work[job] = None
        if job.operation in TRANSFERS:
            self._transfers_running += 1
        else:
            self._busy_on_host[job.host_id] += 1
        duration_ms = job.start(job)
        if duration_ms is not None:
            self.end_after(job, duration_ms)

    def _end_all(self) -> None:
        """Everything that takes no time, and what it sets off; the last one leaves the queue when it is done."""
        self.is_ending = True
        ending = self._ending_now
        while ending:
            self._end(ending[0])
            ending.popleft()
        self.is_ending = False

    def _free_place(self, job: Job) -> None:
        del self.at_work[job]
        if job.operation in TRANSFERS:
            self._transfers_running -= 1
        else:
            self._busy_on_host[job.host_id] -= 1

    def _end(self, job: Job) -> None:
        if job.cancelled:
            return
        if job.running:
            self._free_place(job)
        job.finish(job)
        if self._waiting or self._transfers_waiting:
            self._start_what_fits()
