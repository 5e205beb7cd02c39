"""The simulator: a workload, a cloud and a scheduler on one virtual clock (see `event_heap` for the order)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

from one_preempt.core.memory.quiet_changes import NOTHING_QUIET
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.plan import Plan
from one_preempt.core.model.time import MS_PER_S
from one_preempt.errors import OnePreemptError
from one_preempt.simulation.garbage_collection import rare_garbage_collection
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.cloud_state import SharedChange, StateChange
from one_preempt.simulation.simulated_cloud.errors import OnedError
from one_preempt.simulation.simulated_cloud.objects import Caller
from one_preempt.simulation.simulated_cloud.states import LcmState, VmState
from one_preempt.simulation.simulator.event_heap import EventHeap, EventKind
from one_preempt.simulation.simulator.lease_run import LeaseRun, VmRun
from one_preempt.simulation.simulator.owners import Origin, origin_of
from one_preempt.simulation.simulator.plan_reading import Preemptions, taken_back
from one_preempt.simulation.simulator.result import RequestRecord, SimulationResult
from one_preempt.simulation.simulator.scheduler import Report, Scheduler
from one_preempt.simulation.simulator.site import EXTERNALS, LOCALS
from one_preempt.simulation.simulator.submission import submit
from one_preempt.simulation.simulator.timed_fault import TimedFault
from one_preempt.simulation.workload.workload import Workload

# A guest that is moved while it runs goes on running.
_SERVED = frozenset({LcmState.RUNNING, LcmState.MIGRATE})
_MOVES = frozenset({LcmState.SAVE_MIGRATE, LcmState.PROLOG_MIGRATE})
# The guest has started anew: what it had done is lost.
_FRESH_STARTS = frozenset({
    LcmState.BOOT, LcmState.BOOT_UNDEPLOY, LcmState.BOOT_POWEROFF, LcmState.BOOT_UNKNOWN, LcmState.BOOT_FAILURE,
    LcmState.BOOT_UNDEPLOY_FAILURE,
})  # fmt: skip
_ACTIVE, _DONE, _RUNNING = VmState.ACTIVE, VmState.DONE, LcmState.RUNNING
_END, _SUBMISSION = EventKind.END, EventKind.SUBMISSION
_COMING = frozenset({LcmState.PROLOG, LcmState.BOOT, LcmState.RUNNING})
_GOING = frozenset({LcmState.SHUTDOWN, LcmState.EPILOG})
_CYCLES_AT_ONE_INSTANT = 10_000
_IDLE_CYCLES = 1_000
_PUT_OFF_MS = 3_600_000
_PATIENCE_MS = 60_000


class SimulationStuck(OnePreemptError):
    """The scheduler acts again and again and time does not move on; the message says when and what it does."""


class Simulator:
    """Plays one workload to its end.

    A VM ends when it has run for its request's actual duration, whatever was planned: its owner terminates it. A
    request that is refused, or wants to be served at once and is not, is withdrawn by its owner after the cycle that
    said so. What a fault leaves broken stays so, for nobody mends it.

    The scheduler runs after every instant at which something changed, at the next whole second where that is not one,
    and when its plan says it is due; not because of what its own calls changed at once, never twice at an instant
    without another change, and not because VMs run at the instant of the cycle that started them, a whole lease ends at
    one instant, or what was refused is withdrawn at once, where the last cycle said that nothing depends on it.
    """

    def __init__(
        self,
        cloud: SimulatedCloud,
        scheduler: Scheduler,
        workload: Workload,
        faults: Sequence[TimedFault] = (),
        until_s: int | None = None,
        on_cycle: Callable[[int, Report], None] | None = None,
        *,
        plays_on: bool = False,
        owners: Mapping[Origin, Caller] = MappingProxyType({}),
    ) -> None:
        """`cloud` has users named as `site` names them, to whom all requests belong but those of `owners`. `until_s`,
        since the start of the workload, ends it early.

        `plays_on`: not before that, though nobody is left: hosts may still have to go to sleep.
        `on_cycle` is told of each cycle and when it ran, in milliseconds since the start of the workload.
        """
        self._cloud = cloud
        self._scheduler = scheduler
        self._on_cycle = on_cycle
        self._origin_ms = cloud.clock.now_ms
        self._end_ms = None if until_s is None else self._origin_ms + 1000 * until_s
        self._plays_on = plays_on and until_s is not None
        self._cut_at_ms: int | None = None
        self._happened_at_ms = self._origin_ms
        self._requests = workload.requests
        self._faults = tuple(faults)
        self._heap = EventHeap()
        self._runs: dict[int, VmRun] = {}
        self._records: list[RequestRecord] = []
        self._lease_by_id: dict[int, LeaseRun] = {}
        self._new: list[LeaseRun] = []
        self._to_forget: list[int] = []
        self._preemptions = Preemptions(self._lease_by_id)
        self._wake_at_ms: int | None = None
        self._changed = False
        self._anything = False
        self._quiet = NOTHING_QUIET
        self._quiet_at_ms = self._origin_ms
        self._ending_vms = 0
        self._parting: set[int] = set()
        self._cycles = 0
        ids = {user.name: user.id for user in cloud.users.values()}
        self._owners = owners
        self._local, self._external = (cloud.caller(ids[name]) for name in (LOCALS, EXTERNALS))
        cloud.on_transition(self._observe, passing=False, shared=self._observe_shared)

    def run(self) -> SimulationResult:
        """Play to the end: all requests are over, or nothing more can happen, or `until_s` has come.

        Where somebody waits in vain the simulation ends with the last instant at which anything happened, and not when
        it was given up to look for more.
        """
        with rare_garbage_collection():
            self._play()
        ended_at_ms = self._cut_at_ms or (self._cloud.clock.now_ms if self._plays_on else self._happened_at_ms)
        for run in self._runs.values():
            if run.since_ms is not None:
                run.lease.served_vm_ms += ended_at_ms - run.since_ms
        unfinished = (lease.record(self._origin_ms) for lease in self._lease_by_id.values())
        records = sorted((*self._records, *unfinished), key=lambda record: record.request_id)
        return SimulationResult(tuple(records), self._cycles, ended_at_ms - self._origin_ms)

    def _play(self) -> None:
        for number, fault in enumerate(self._faults):
            self._heap.push(self._origin_ms + 1000 * fault.at_s, EventKind.FAULT, number)
        self._await_submission(0)
        idle, awaited_ms = 0, self._last_wish_ms()
        while self._plays_on or (idle < _IDLE_CYCLES and len(self._records) < len(self._requests)):
            at_ms = self._next_at_ms()
            if at_ms is None:
                break
            if self._end_ms is not None and at_ms > self._end_ms:
                self._cut_at_ms = self._end_ms
                break
            # As long as somebody comes, ends, or has a time to come there is something to wait for, however often the
            # scheduler looks; and for a while longer, for it may have put something off.
            happened = self._play_instant(at_ms)
            if happened:
                self._happened_at_ms = at_ms
            if happened or self._heap.next_at_ms() is not None:
                idle, awaited_ms = 0, max(awaited_ms, at_ms)
            elif at_ms > awaited_ms + _PUT_OFF_MS:
                idle += 1

    # ---------------------------------------------------------------- time

    def _last_wish_ms(self) -> int:
        """The last instant that any request names for its start or its end."""
        wishes_s = (request.deadline_at_s or request.ready_at_s for request in self._requests)
        return self._origin_ms + 1000 * max(wishes_s, default=0)

    def _next_at_ms(self) -> int | None:
        first_ms = self._wake_at_ms
        for at_ms in (self._heap.next_at_ms(), self._cloud.events.next_at_ms()):
            if at_ms is not None and (first_ms is None or at_ms < first_ms):
                first_ms = at_ms
        return first_ms

    def _play_instant(self, at_ms: int) -> bool:
        """All that is due at `at_ms`, at a whole second with a cycle after each wave of changes; whether any came."""
        anything = False
        for _ in range(_CYCLES_AT_ONE_INSTANT):
            self._happen(at_ms)
            anything |= self._anything
            self._anything = False
            due = self._wake_at_ms is not None and self._wake_at_ms <= at_ms
            # A lease that goes VM by VM, or takes its time, is looked at.
            if not (self._changed or due or self._parting):
                return anything
            if at_ms % MS_PER_S:
                # The scheduler counts whole seconds: what it began now would end later than it thinks.
                self._wake_at_ms = at_ms - at_ms % MS_PER_S + MS_PER_S
                return anything
            self._cycle(at_ms)
        raise SimulationStuck(f"{(at_ms - self._origin_ms) / 1000:g} s after the start the scheduler acts without end")

    def _happen(self, at_ms: int) -> None:
        cloud, heap = self._cloud, self._heap
        while True:
            cloud.run_until_ms(at_ms)
            event = heap.pop_due(at_ms)
            if event is None:
                return
            while event is not None:
                _, kind, number, mark = event
                if kind == _END:
                    self._end(number, mark)
                elif kind == _SUBMISSION:
                    self._submit(number)
                else:
                    self._faults[number].strike(cloud)
                event = heap.pop_due(at_ms)

    def _cycle(self, at_ms: int) -> None:
        self._wake_at_ms = None
        report = self._scheduler.run()
        self._quiet, self._quiet_at_ms = report.quiet, at_ms
        self._ending_vms = 0
        self._changed = False
        self._parting.clear()
        self._cycles += 1
        if report.plan is not None:
            if not report.is_refused:
                self._preemptions.read(report.plan)
                if report.state is not None:
                    self._withdraw_refused(report.plan, report.state)
            if report.plan.wake_at_s is not None:
                self._wake_at_ms = max(1000 * report.plan.wake_at_s, at_ms + 1)
        self._cloud.forget_vms(self._to_forget)
        self._to_forget.clear()
        if self._on_cycle is not None:
            self._on_cycle(at_ms - self._origin_ms, report)

    # ---------------------------------------------------------------- events

    def _await_submission(self, number: int) -> None:
        """They come in their order: only the next one waits in the heap."""
        if number < len(self._requests):
            self._heap.push(self._origin_ms + 1000 * self._requests[number].submitted_at_s, _SUBMISSION, number)

    def _submit(self, number: int) -> None:
        request = self._requests[number]
        owner = self._external if request.external else self._local
        if self._owners:
            owner = self._owners.get(origin_of(request), owner)
        lease = LeaseRun(request, owner, self._cloud.clock.now_ms)
        lease.vm_ids = submit(self._cloud, owner, request, self._origin_ms // 1000)
        lease.runs = tuple([VmRun(lease) for _ in lease.vm_ids])
        self._runs.update(zip(lease.vm_ids, lease.runs, strict=True))
        self._lease_by_id[lease.vm_ids[0]] = lease
        self._new.append(lease)
        self._anything = self._changed = True
        self._await_submission(number + 1)

    def _end(self, vm_id: int, mark: int) -> None:
        """A VM has run its time, unless it was interrupted since; one that is being moved ends when it is there."""
        if mark < 0:
            self._end_lease(vm_id, -mark)
            return
        run = self._runs.get(vm_id)
        if run is None or run.mark != mark or not run.is_running:
            return
        run.had_its_time = True
        self._cloud.vm_action(run.lease.owner, "terminate", vm_id)

    def _end_lease(self, lease_id: int, mark: int) -> None:
        """The VMs that began to run together, the first of them with this mark, have run their time."""
        lease = self._lease_by_id.get(lease_id)
        if lease is None or lease.marks[0] != mark:
            return
        if lease.runs_as_marked and self._cloud.terminate_together(lease.owner, lease.vm_ids):
            for run in lease.runs:
                run.had_its_time = True
        else:
            for vm_id, one in zip(lease.vm_ids, lease.marks, strict=True):
                self._end(vm_id, one)

    def _observe(self, change: StateChange) -> None:
        """A transition of the cloud."""
        _, kind, vm_id, _, new_state, old_lcm_state, new_lcm_state = change
        self._anything = True
        run = self._runs.get(vm_id) if kind == "VM" else None
        if not (self._changed or (run is not None and self._is_quiet(change, run))):
            self._changed = True
        if run is None:
            return
        lcm_state = new_lcm_state if new_state == _ACTIVE else None
        if lcm_state in _SERVED:
            if old_lcm_state in _FRESH_STARTS:
                run.served_ms = 0
            self._serve(vm_id, run, is_running=lcm_state == _RUNNING)
            return
        if run.since_ms is not None:
            self._interrupt(run, moved=lcm_state in _MOVES, terminated=new_state == _DONE or lcm_state in _GOING)
        if new_state == _DONE:
            self._gone(vm_id, run)

    def _observe_shared(self, change: SharedChange) -> None:
        """A transition of several VMs: told in one go where they are a whole lease, one after the other elsewhere."""
        if self._runs.keys().isdisjoint(change.vm_ids):
            self._anything = self._changed = True
            return
        lease = self._lease_by_id.get(change.vm_ids[0])
        if lease is None or lease.vm_ids != change.vm_ids:
            told = False
        elif change.new_lcm_state == _RUNNING and change.old_lcm_state in _FRESH_STARTS:
            told = self._lease_starts(change, lease)
        else:
            told = change.new_state == _DONE and self._lease_ends(change, lease)
        if not told:
            for one in change.of_each():
                self._observe(one)

    def _lease_starts(self, change: SharedChange, lease: LeaseRun) -> bool:
        """All VMs of a lease begin to run at one instant; False where not all of them were at rest."""
        runs = lease.runs
        for run in runs:
            if run.since_ms is not None or run.had_its_time:
                return False
        quiet = self._quiet_at_ms == change.at_ms and self._quiet.started_vm_ids.issuperset(change.vm_ids)
        self._anything = True
        self._changed |= not quiet
        for run in runs:
            run.served_ms, run.since_ms, run.is_running = 0, change.at_ms, True
            run.mark += 1
        lease.all_run(change.at_ms)
        lease.marks = tuple([run.mark for run in runs])
        ends_at_ms = change.at_ms + 1000 * lease.request.actual_duration_s
        self._heap.push(ends_at_ms, _END, change.vm_ids[0], -lease.marks[0])
        return True

    def _lease_ends(self, change: SharedChange, lease: LeaseRun) -> bool:
        """All VMs of a lease, which ran, are gone at one instant; False where not all of them had their time."""
        for run in lease.runs:
            if not run.had_its_time or run.since_ms is None:
                return False
        self._anything = True
        self._changed |= not self._ends_quietly(lease)
        for vm_id, run in zip(change.vm_ids, lease.runs, strict=True):
            lease.served_vm_ms += change.at_ms - (run.since_ms or 0)
            del self._runs[vm_id]
        self._to_forget += change.vm_ids
        lease.all_end(change.at_ms)
        self._over(lease)
        return True

    def _is_quiet(self, change: StateChange, run: VmRun) -> bool:
        """It begins to run, ends as one of a lease of which the others have to end at once, or was refused and goes."""
        if change.new_lcm_state in _COMING:
            return change.object_id in self._quiet.started_vm_ids and change.at_ms == self._quiet_at_ms
        if change.new_state == _DONE and change.object_id in self._quiet.refused_vm_ids:
            return change.at_ms == self._quiet_at_ms
        ends = change.new_state == _DONE or (change.new_state == _ACTIVE and change.new_lcm_state in _GOING)
        if not (ends and run.had_its_time and self._ends_quietly(run.lease)):
            return False
        self._parting.add(run.lease.vm_ids[0])
        return True

    def _ends_quietly(self, lease: LeaseRun) -> bool:
        """Need it not be looked at if all of a lease ends, after what has ended since the last cycle?"""
        if lease.vm_ids[0] not in self._parting:
            self._ending_vms += len(lease.vm_ids)
        return self._ending_vms <= self._quiet.ending_vms

    def _serve(self, vm_id: int, run: VmRun, *, is_running: bool) -> None:
        now_ms = self._cloud.clock.now_ms
        run.is_running = is_running
        if run.since_ms is None:
            run.since_ms = now_ms
            run.lease.runs_again(now_ms, finished=run.had_its_time)
        if is_running:
            run.mark += 1
            left_ms = 1000 * run.lease.request.actual_duration_s - run.served_ms
            # One that could not be shut down is tried again after a while.
            earliest_ms = now_ms + _PATIENCE_MS if run.had_its_time else now_ms
            self._heap.push(max(run.since_ms + left_ms, earliest_ms), _END, vm_id, run.mark)

    def _interrupt(self, run: VmRun, *, moved: bool, terminated: bool) -> None:
        assert run.since_ms is not None
        now_ms = self._cloud.clock.now_ms
        stay_ms, run.since_ms, run.is_running = now_ms - run.since_ms, None, False
        run.served_ms += stay_ms
        run.lease.served_vm_ms += stay_ms
        run.lease.stops(now_ms, moved=moved, terminated=terminated, finished=run.had_its_time)

    def _gone(self, vm_id: int, run: VmRun) -> None:
        run.lease.loses(self._cloud.clock.now_ms, had_its_time=run.had_its_time)
        del self._runs[vm_id]
        self._to_forget.append(vm_id)
        if run.lease.ended_at_ms is not None:
            self._over(run.lease)

    def _over(self, lease: LeaseRun) -> None:
        """No VM of the lease is left."""
        del self._lease_by_id[lease.vm_ids[0]]
        # They know their lease: together they would wait for the garbage collector.
        lease.runs = ()
        self._parting.discard(lease.vm_ids[0])
        self._records.append(lease.record(self._origin_ms))

    def _withdraw_refused(self, plan: Plan, state: ClusterState) -> None:
        """Owners take back what was refused for good, and what was to be served at once and waits."""
        refused = taken_back(plan, state, self._new)
        self._new.clear()
        for lease_id, why in refused.items():
            lease = self._lease_by_id.get(lease_id)
            if lease is None:
                continue
            lease.rejection = why
            for vm_id in lease.vm_ids:
                if vm_id in self._runs:
                    with suppress(OnedError):
                        self._cloud.vm_action(lease.owner, "terminate", vm_id)
