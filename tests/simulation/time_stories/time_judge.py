"""What must be true after every story about time, read from the log of the cloud and from what was said to owners."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from one_preempt.core.model.lease import LeaseType
from one_preempt.core.model.plan import ActionKind
from one_preempt.core.model.reservation import Verdict
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.faults import Misbehaviour
from one_preempt.simulation.simulator.result import Fate, RequestRecord, SimulationResult
from one_preempt.simulation.simulator.timed_fault import DriverFails
from one_preempt.simulation.workload.workload import StartKind, WorkloadRequest
from tests.simulation.time_stories.drawn_story import DrawnStory
from tests.simulation.time_stories.happenings import OwnerEnds
from tests.simulation.time_stories.told_lives import LeaseLife, told_lives
from tests.simulation.time_stories.watched_cycle import Looked, WatchedCycle

# The daemon takes a cycle every 15 seconds at least; what is due starts in the first one.
ONE_CYCLE_MS = 15_000
IN_DANGER = "reservation-in-danger"
SUSPENSIONS = frozenset({ActionKind.STOP, ActionKind.UNDEPLOY})


def judge(
    story: DrawnStory,
    watched: WatchedCycle,
    result: SimulationResult,
    cloud: SimulatedCloud,
    late_ms: int = ONE_CYCLE_MS,
) -> list[str]:
    """All that is wrong. What is due may start so late, unless its owner was told before."""
    trial = _Trial(story, watched, result, cloud, late_ms)
    wrong = [*watched.wrong, *cloud.audit(), *map(str, cloud.overcommits)]
    for record in result.records:
        wrong += trial.of_lease(record)
    return wrong + list(trial.of_preemptions())


@dataclass(frozen=True, slots=True)
class _Case:
    """One request: what it asked for, what it was told, and what became of it. Instants in milliseconds."""

    request: WorkloadRequest
    record: RequestRecord
    life: LeaseLife
    verdict: Verdict
    judged_ms: int

    @property
    def name(self) -> str:
        return f"r{self.request.id} (lease {self.record.lease_id})"


class _Trial:
    def __init__(
        self,
        story: DrawnStory,
        watched: WatchedCycle,
        result: SimulationResult,
        cloud: SimulatedCloud,
        late_ms: int,
    ) -> None:
        self._story, self._looked, self._late_ms = story, watched.looked, late_ms
        self._origin_ms = 1000 * story.site.start_s
        self._requests = {one.id: one for one in story.workload.requests}
        self._ended_by_owners = {one.request_id for one in story.happenings if isinstance(one, OwnerEnds)}
        told = told_lives(
            cloud,
            {one.request_id: range(one.lease_id, one.lease_id + one.virtual_machines) for one in result.records},
            [
                (self._origin_ms + 1000 * one.at_s, one.fault.operation)
                for one in story.happenings
                if isinstance(one, DriverFails) and one.fault.misbehaviour is Misbehaviour.SLOW
            ],
        )
        self._lives, self._mishaps_ms = told.leases, told.mishaps_ms

    def of_lease(self, record: RequestRecord) -> Iterator[str]:
        """What is wrong with one request."""
        verdicts = [
            (looked.at_s, looked.verdicts[record.lease_id])
            for looked in self._looked
            if record.lease_id in looked.verdicts
        ]
        judged_s, verdict = verdicts[0] if verdicts else (0, Verdict.NONE)
        request, life = self._requests[record.request_id], self._lives[record.request_id]
        case = _Case(request, record, life, verdict, 1000 * judged_s)
        if len(verdicts) > 1:
            yield f"{case.name} was told {[str(one) for _, one in verdicts]}, one after the other"
        yield from self._never_early(case)
        yield from self._refused_never_starts(case)
        yield from self._starts_as_promised(case)
        yield from self._done_by_deadline(case)
        yield from self._limit_is_kept(case)
        yield from self._ends_well(case)

    # -- what was promised -----------------------------------------------------------------------------------

    def _start_ms(self, request: WorkloadRequest) -> int:
        return self._origin_ms + 1000 * request.ready_at_s

    def _never_early(self, case: _Case) -> Iterator[str]:
        """What was turned down and waits in the queue has given up its START."""
        first_ms = case.life.first_deploy_ms
        if case.verdict is Verdict.ACCEPTED and first_ms is not None and first_ms < self._start_ms(case.request):
            yield f"{case.name} was started at {first_ms} before its START {self._start_ms(case.request)}"

    def _refused_never_starts(self, case: _Case) -> Iterator[str]:
        if case.verdict is Verdict.REFUSED and case.life.first_deploy_ms is not None:
            yield f"{case.name} was refused at {case.judged_ms} and started at {case.life.first_deploy_ms}"

    def _starts_as_promised(self, case: _Case) -> Iterator[str]:
        request, life, start_ms = case.request, case.life, self._start_ms(case.request)
        if case.verdict is not Verdict.ACCEPTED or request.start is not StartKind.EXACT:
            return
        if life.gone_ms is not None and life.gone_ms <= start_ms + ONE_CYCLE_MS and life.started_ms is None:
            return
        if life.started_ms is not None and life.started_ms <= max(start_ms, case.judged_ms) + self._late_ms:
            return
        last = self._last_look_before(start_ms, case.judged_ms)
        said = last.waits.get(case.record.lease_id) if last is not None else None
        if said is not None and said[0] == IN_DANGER:
            return
        since_ms = 1000 * last.at_s if last is not None else case.judged_ms
        if self._could_not_be_known(since_ms, start_ms):
            return
        yield f"{case.name} was to start at {start_ms // 1000}, started at {life.started_ms}; before it was said {said}"

    def _done_by_deadline(self, case: _Case) -> Iterator[str]:
        request = case.request
        if case.verdict is not Verdict.ACCEPTED or request.deadline_at_s is None:
            return
        if request.id in self._ended_by_owners:
            return
        takes_s = min(request.actual_duration_s, request.planned_duration_s)
        done_ms, deadline_ms = case.life.done_ms(1000 * takes_s), self._origin_ms + 1000 * request.deadline_at_s
        if done_ms is not None and done_ms <= deadline_ms:
            return
        said = any(
            looked.waits.get(case.record.lease_id, ("", ""))[0] == IN_DANGER
            for looked in self._looked
            if 1000 * looked.at_s < deadline_ms
        )
        if said or any(case.judged_ms <= at_ms <= deadline_ms for at_ms in self._mishaps_ms):
            return
        yield f"{case.name} had its DEADLINE at {deadline_ms // 1000} and was done at {done_ms}"

    def _last_look_before(self, start_ms: int, judged_ms: int) -> Looked | None:
        looks = [one for one in self._looked if judged_ms <= 1000 * one.at_s < start_ms]
        return looks[-1] if looks else None

    def _could_not_be_known(self, since_ms: int, until_ms: int) -> bool:
        """Something went wrong, or somebody outlived his DURATION, between the last cycle before a start and it."""
        if any(since_ms < at_ms <= until_ms + ONE_CYCLE_MS for at_ms in self._mishaps_ms):
            return True
        for request_id, life in self._lives.items():
            request = self._requests[request_id]
            if request.requested_duration_s is None or request.actual_duration_s <= request.requested_duration_s:
                continue
            claimed_ms = life.believed_done_ms(1000 * request.requested_duration_s)
            if claimed_ms is not None and since_ms < claimed_ms <= until_ms:
                return True
        return False

    # -- what nobody may do to it ----------------------------------------------------------------------------

    def _limit_is_kept(self, case: _Case) -> Iterator[str]:
        limit, request = case.request.max_suspensions, case.request
        if limit is None or request.requested_duration_s is None:
            return
        overrun_ms = case.life.done_ms(1000 * request.requested_duration_s)
        suspended_by = {
            action.preemption_id
            for looked in self._looked
            for action in looked.done
            if action.lease_id == case.record.lease_id and action.kind in SUSPENSIONS and action.preemption_id
            if overrun_ms is None or 1000 * looked.at_s < overrun_ms
        }
        if len(suspended_by) > limit:
            yield f"{case.name} was suspended for {sorted(map(str, suspended_by))} with MAX_SUSPENSIONS {limit}"

    def of_preemptions(self) -> Iterator[str]:
        """Nobody is suspended for a start to come whom the administrator's rule spares."""
        allowed = self._story.settings.time.suspension
        for looked in self._looked:
            for preemption in looked.plan.preemptions:
                lease = looked.state.leases[preemption.preemptor_lease_id]
                if lease.verdict is not Verdict.ACCEPTED or (lease.terms.start_at_s or 0) <= looked.at_s:
                    continue
                gangs = [one for one in preemption.victim_lease_ids if looked.state.leases[one].terms.size > 1]
                if allowed == "none" or (allowed == "serial-only" and gangs):
                    yield f"at {looked.at_s} {preemption.id} suspends {preemption.victim_lease_ids} despite {allowed}"

    # -- how it ends -----------------------------------------------------------------------------------------

    def _ends_well(self, case: _Case) -> Iterator[str]:
        request, fate = case.request, case.record.fate
        # A guest on a host that is lost has its time as well, as far as anybody can tell.
        outlives = request.requested_duration_s is not None and (
            request.actual_duration_s > request.requested_duration_s or bool(self._mishaps_ms)
        )
        rule = self._story.settings.time.overrun
        if fate is Fate.COMPLETED or (fate is Fate.REJECTED and case.record.rejection):
            return
        if fate is Fate.CUT_SHORT and (
            request.id in self._ended_by_owners
            or request.lease_type is LeaseType.BE_CANCELLABLE
            or (outlives and rule == "terminate")
        ):
            return
        if fate is Fate.UNFINISHED and (case.verdict is Verdict.REFUSED or (outlives and rule == "stop")):
            return
        yield f"{case.name} ended as {fate}"
