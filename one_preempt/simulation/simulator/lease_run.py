"""One request while it is simulated: how far its VMs have run, and what interrupted it."""

from __future__ import annotations

from msgspec import Struct, field

from one_preempt.simulation.simulated_cloud.objects import Caller
from one_preempt.simulation.simulator.result import Fate, Interruption, RequestRecord
from one_preempt.simulation.workload.workload import WorkloadRequest


class VmRun(Struct, eq=False):
    """How long one VM has run: `served_ms`, and since `since_ms` where it runs now. `mark` counts its runs."""

    lease: LeaseRun
    served_ms: int = 0
    since_ms: int | None = None
    mark: int = 0
    is_running: bool = False
    had_its_time: bool = False


class LeaseRun(Struct, eq=False):
    """A request with its VMs, from its submission on. `preemptor` is who was last said to preempt it.

    Of its VMs some are `running`, some `finished` (had their time, and are still being shut down) and some `gone`.
    `runs` are those of its VMs, in the order of `vm_ids`, until all are gone. `marks` are those that its VMs had when
    they last began to run all at one instant.
    """

    request: WorkloadRequest
    owner: Caller
    submitted_at_ms: int
    vm_ids: tuple[int, ...] = ()
    runs: tuple[VmRun, ...] = ()
    running: int = 0
    finished: int = 0
    gone: int = 0
    served_vm_ms: int = 0
    cut_short: bool = False
    preemptor: int | None = None
    started_at_ms: int | None = None
    ended_at_ms: int | None = None
    rejection: str = ""
    interruptions: list[Interruption] = field(default_factory=list)
    marks: tuple[int, ...] = ()
    _interrupted_at_ms: int | None = None
    _moved: bool = False
    _terminated: bool = False

    @property
    def runs_as_marked(self) -> bool:
        """Since all of its VMs last began to run at one instant, none of them has stopped."""
        for run, mark in zip(self.runs, self.marks, strict=True):
            if run.mark != mark or not run.is_running:
                return False
        return True

    def runs_again(self, now_ms: int, *, finished: bool) -> None:
        """One more of its VMs runs; once all do, it has started, or an interruption is over.

        One that was `finished` could not be shut down. Those that have run before the last one did are no obstacle.
        """
        self.finished -= finished
        self._run(1, now_ms)

    def all_run(self, now_ms: int) -> None:
        """None of its VMs ran, and all of them do."""
        self._run(len(self.vm_ids), now_ms)

    def _run(self, more: int, now_ms: int) -> None:
        self.running += more
        if self.running + self.finished + self.gone < len(self.vm_ids):
            return
        if self.started_at_ms is None:
            self.started_at_ms = now_ms
        self._close_interruption(now_ms)

    def stops(self, now_ms: int, *, moved: bool, terminated: bool, finished: bool) -> None:
        """One of its VMs runs no more: it is `finished`, or else interrupted."""
        self.running -= 1
        self.finished += finished
        if not finished and self._interrupted_at_ms is None and self.started_at_ms is not None:
            self._interrupted_at_ms = now_ms
            self._moved, self._terminated = moved, terminated

    def is_spared(self) -> None:
        """A preemption that it was a victim of is over: what interrupts it from now on is something else."""
        if self._interrupted_at_ms is None:
            self.preemptor = None

    def loses(self, now_ms: int, *, had_its_time: bool) -> None:
        """One of its VMs is gone for good."""
        self.gone += 1
        self.finished -= had_its_time
        self.cut_short |= not had_its_time
        if self.gone == len(self.vm_ids):
            self.ended_at_ms = now_ms
            self._close_interruption(None)

    def all_end(self, now_ms: int) -> None:
        """All of its VMs ran, had their time, and are gone."""
        self.running, self.gone = 0, len(self.vm_ids)
        self.ended_at_ms = now_ms
        self._close_interruption(None)

    def _close_interruption(self, now_ms: int | None) -> None:
        if self._interrupted_at_ms is not None:
            by, moved, terminated = self.preemptor, self._moved, self._terminated
            self.interruptions.append(Interruption(self._interrupted_at_ms, now_ms, by, moved, terminated))
            self._interrupted_at_ms = self.preemptor = None

    def record(self, origin_ms: int) -> RequestRecord:
        """What became of it so far; instants counted from `origin_ms`."""
        self._close_interruption(None)
        return RequestRecord(
            request_id=self.request.id,
            lease_id=self.vm_ids[0],
            virtual_machines=len(self.vm_ids),
            submitted_at_ms=self.submitted_at_ms - origin_ms,
            started_at_ms=None if self.started_at_ms is None else self.started_at_ms - origin_ms,
            ended_at_ms=None if self.ended_at_ms is None else self.ended_at_ms - origin_ms,
            fate=self._fate(),
            interruptions=tuple(
                Interruption(
                    one.from_ms - origin_ms,
                    None if one.until_ms is None else one.until_ms - origin_ms,
                    one.by_request_id,
                    one.moved,
                    one.terminated,
                )
                for one in self.interruptions
            ),
            served_vm_ms=self.served_vm_ms,
            rejection=self.rejection,
        )

    def _fate(self) -> Fate:
        if self.rejection:
            return Fate.REJECTED
        if self.ended_at_ms is None:
            return Fate.UNFINISHED
        return Fate.CUT_SHORT if self.cut_short else Fate.COMPLETED
