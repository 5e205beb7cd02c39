"""The daemon's log: one line for each thing that happened or was noticed, once; a quiet cycle says nothing."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator

from one_preempt.clock_leaps import DOUBTED_S, dated_ahead
from one_preempt.core.host_power.phase_transitions import TAKEN_OVER
from one_preempt.core.model.cluster_state import ClusterState, Discrepancy
from one_preempt.core.model.image_transfer import ImageOrder, ImageOrderKind, TransferPhase
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import Action, ActionKind, Plan, Preemption
from one_preempt.core.model.pool_snapshot import RaftState
from one_preempt.core.model.power_sequence import DELETED_UNPOWERED, PowerPhase
from one_preempt.core.model.reservation import Booking, Reservation
from one_preempt.core.model.time import ms_to_seconds
from one_preempt.core.model.written_time import utc_text
from one_preempt.entrypoints.log_throttle import FailureThrottle
from one_preempt.errors import OnePreemptError
from one_preempt.explanation.explain import printable
from one_preempt.ports import CHANGED_HANDS, CallResult
from one_preempt.scheduling_cycle import CycleReport

LINE_LENGTH = 500
# What NTP takes back at once is nothing to tell.
CLOCK_BACK_S = 10
LEAPT = (
    "the clock leapt ahead by {} s: for {} minutes nothing is stopped or ended because its DURATION is over; "
    "look whether the clock is right"
)
AHEAD = (
    "the clock of this machine is {} s {} that of OpenNebula: until they agree nobody is sent out anew to make room, "
    "and nothing is stopped or ended because its DURATION is over; look which of them is wrong, and check NTP"
)
ACTION_FAILED = "action-failed"
DATED_AHEAD = "look whether the clock of this machine is right, and check NTP: {}"
REFUSED = "plan refused by its own check, decided again without what is at fault"
PAUSED = "paused: no preempting, no power actions, no images brought to hosts; see: one-preempt resume"
RESUMED = "resumed: preempting, power actions and bringing images to hosts are allowed again, as configured"
_AT_REST = (PowerPhase.ASLEEP, PowerPhase.AWAKE)
REFUSED_TWICE = "plan refused by its own check, nothing was done"


class CycleLog:
    """Writes reports to a logger; what stays as it was is not said again. Users' words are made printable."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._said: dict[int, frozenset[str]] = {}
        self._failures = FailureThrottle()
        self._failure = ""
        self._leads: bool | None = None
        self._paused = False
        self._last_at_s = 0
        self._clocks_agree = True

    def failed(self, error: OnePreemptError) -> None:
        """A cycle could not be carried out."""
        if str(error) != self._failure:
            self._failure = str(error)
            self._say(logging.ERROR, self._failure)

    def defect(self, defect: Exception) -> None:
        """A cycle ended in a defect of ours: where, once for as long as it is the same."""
        where = "".join(traceback.format_exception(defect))
        if where != self._failure:
            self._failure = where
            self._logger.error("a cycle failed; the next one starts afresh", exc_info=defect)

    def report(self, report: CycleReport) -> None:
        """A cycle was carried out."""
        if self._failure:
            self._failure = ""
            self._say(logging.INFO, "the trouble is over: cycles go on")
        self._tell_who_schedules(report)
        if report.plan is None:
            return
        self._tell_dates(report.state, report.clock_ahead_s)
        self._tell_clock(report.plan.made_at_s, report.clock_leapt_s)
        self._tell_difference(report.clock_ahead_s)
        self._tell_pause(report.state is not None and report.state.paused)
        refused = REFUSED_TWICE if report.is_refused else REFUSED
        self._say_once({f"{refused}: {violation.text}" for violation in report.violations}, logging.ERROR)
        self._say_once(self._noticed(report) | _advice(report.plan) | _advised_images(report.plan))
        for line in _decisions(report.plan):
            self._say(logging.INFO, line)
        self._failures.forget_old(report.plan.made_at_s)
        for action, result in report.results:
            self._tell_result(action, result, report.plan.made_at_s)
        for level, line in (*_power(report), *_images(report)):
            self._say(level, line)

    def _tell_who_schedules(self, report: CycleReport) -> None:
        front_end = f"this front-end is {RaftState(report.raft_state).name}"
        if report.plan is None:
            self._leads = False
            who = "none leads yet" if report.raft_state is RaftState.CANDIDATE else "another one schedules"
            self._say_once({f"{front_end}: {who}"})
            return
        # A front-end that is alone has nobody to be told from.
        if not self._leads and (self._leads is False or report.raft_state is RaftState.LEADER):
            self._say(logging.INFO, f"{front_end}: this daemon schedules")
        self._leads = True

    def _noticed(self, report: CycleReport) -> set[str]:
        """What was not as expected; of a call that came to nothing no second time, where its answer was told."""
        return {
            _not_as_expected(found)
            for found in report.discrepancies
            if not (found.code == ACTION_FAILED and self._failures.has_logged(found.vm_id, found.text))
        }

    def _tell_result(self, action: Action, result: CallResult, now_s: int) -> None:
        """What came of a call; one that fails again and again is not logged each time."""
        level, suppressed = _level(action, result), 0
        if result.outcome is Outcome.ACCEPTED:
            self._failures.succeeded(action)
        elif level > logging.DEBUG:
            times = self._failures.times_suppressed(action, result, now_s)
            if times is None:
                return
            suppressed = times
        self._say(level, _done(action, result, suppressed))

    def _tell_pause(self, paused: bool) -> None:
        if paused and not self._paused:
            self._say(logging.WARNING, PAUSED)
        elif self._paused and not paused:
            self._say(logging.INFO, RESUMED)
        self._paused = paused

    def _tell_clock(self, now_s: int, leapt_s: int) -> None:
        if leapt_s:
            self._say(logging.WARNING, LEAPT.format(leapt_s, DOUBTED_S // 60))
        back_s = self._last_at_s - now_s
        if back_s >= CLOCK_BACK_S:
            line = "the clock was set back by {} s or more: times later than it count from now, reservations follow it"
            self._say(logging.WARNING, line.format(back_s))
        self._last_at_s = now_s

    def _tell_dates(self, state: ClusterState | None, ahead_s: int) -> None:
        """At the start; what goes wrong later is seen as it happens."""
        if self._last_at_s or state is None or ahead_s:
            return
        found = dated_ahead(state.snapshot.vms.values(), state.now_s)
        if found is not None:
            self._say(logging.WARNING, DATED_AHEAD.format(found.text))

    def _tell_difference(self, ahead_s: int) -> None:
        if ahead_s and self._clocks_agree:
            self._say(logging.WARNING, AHEAD.format(abs(ahead_s), "ahead of" if ahead_s > 0 else "behind"))
        elif not (ahead_s or self._clocks_agree):
            self._say(logging.INFO, "the clocks of this machine and of OpenNebula agree again")
        self._clocks_agree = not ahead_s

    def _say_once(self, lines: set[str], level: int = logging.WARNING) -> None:
        for line in sorted(lines - self._said.get(level, frozenset())):
            self._say(level, line)
        self._said[level] = frozenset(lines)

    def _say(self, level: int, line: str) -> None:
        self._logger.log(level, "%s", printable(line, LINE_LENGTH))


def _not_as_expected(found: Discrepancy) -> str:
    of_vm = f", VM {found.vm_id}" if found.vm_id is not None else ""
    # What became of the VM is seen; why, only oned has heard from its drivers.
    see = f"; see: onelog get-vm {found.vm_id}" if found.code == ACTION_FAILED else ""
    return f"{found.code}{of_vm}: {found.text}{see}"


def _advice(plan: Plan) -> set[str]:
    leaving = {
        f"advice only: {_leases(advised)} would leave for lease {advised.preemptor_lease_id}"
        for advised in plan.advised
    }
    return leaving | {
        f"advice only: host {step.host_name} could sleep: {step.reason_text}" for step in plan.advised_power_steps
    }


def _advised_images(plan: Plan) -> set[str]:
    return {f"advice only: {_to_be_done(order)}: {order.reason_text}" for order in plan.advised_image_orders}


def _power(report: CycleReport) -> Iterator[tuple[int, str]]:
    """Hosts that begin to be switched in this cycle, or were seen to have come to rest; and what was not done."""
    plan, state = report.plan, report.state
    if plan is not None and state is not None:
        # Of what may be without power, asleep when somebody took it over or deleted, there is a warning already.
        at_rest = (
            one
            for one in state.power.sequences.values()
            if one.phase in _AT_REST and one.reason_code not in (DELETED_UNPOWERED, TAKEN_OVER)
        )
        # What came to rest was seen before anything else was begun with it.
        told = [one for one in at_rest if one.since_s == state.now_s]
        told += [one for one in plan.power_sequences if one.since_s == plan.made_at_s]
        for one in told:
            is_ = "" if one.is_deleted else f" is {one.phase}"
            yield logging.INFO, f"host {one.host_name}{is_}: {one.reason_text}"
    for step, result in report.power_results:
        if result.outcome is not Outcome.ACCEPTED:
            yield logging.WARNING, f"{step.id}: {result.outcome} {result.error_text}"


def _images(report: CycleReport) -> Iterator[tuple[int, str]]:
    """Images that begin to be brought to hosts or removed there; which are there, which are not, and why."""
    for record in report.image_results:
        order, kind = record.order, record.order.kind
        where = f"image {order.image_id} on host {order.host_name}"
        if record.phase is TransferPhase.DONE:
            yield logging.INFO, f"{where}: {'is there' if kind is ImageOrderKind.BRING else 'was removed'}"
        else:
            yield logging.WARNING, f"{where}: {record.id} failed (attempt {record.attempts}): {record.text}"
    for order in report.image_orders:
        yield logging.INFO, f"{_to_be_done(order)}: {order.reason_text}"


def _to_be_done(order: ImageOrder) -> str:
    what = "is brought to" if order.kind is ImageOrderKind.BRING else "is removed from"
    return f"image {order.image_id} {what} host {order.host_name}"


def _decided(preemption: Preemption) -> str:
    overhead_s = ms_to_seconds(preemption.overhead_ms)
    leave = "leave" if len(preemption.victim_lease_ids) > 1 else "leaves"
    return (
        f"preemption {preemption.id}: {_leases(preemption)} {leave} for lease {preemption.preemptor_lease_id}, "
        f"chosen by {preemption.policy}, overhead {overhead_s:.1f} s"
    )


def _reserved(booking: Booking) -> str:
    stays = (f"from {utc_text(one.start_at_s)} {_until(one)}" for one in booking.reservations if one.firm)
    return f"lease {booking.lease_id} has firmly reserved {', and '.join(stays)}"


def _until(one: Reservation) -> str:
    until = "without an end" if one.end_at_s is None else f"until {utc_text(one.end_at_s)}"
    hosts = sorted(set(one.host_ids))
    return until + (f" on host{'s' if len(hosts) > 1 else ''} {', '.join(map(str, hosts))}" if hosts else "")


def _leases(preemption: Preemption) -> str:
    lease_ids = preemption.victim_lease_ids
    return f"lease{'s' if len(lease_ids) > 1 else ''} {', '.join(map(str, lease_ids))}"


def _decisions(plan: Plan) -> Iterator[str]:
    """Answers to owners, firm reservations, and preemptions that begin and end."""
    for given in plan.verdicts:
        yield f"lease {given.lease_id} is {given.verdict}: {given.text}"
    for booking in plan.bookings:
        if any(one.firm for one in booking.reservations):
            yield _reserved(booking)
    yield from map(_decided, plan.preemptions)
    for end in plan.ended_preemptions:
        yield f"preemption {end.preemption_id} is over: {end.reason.text}"


def _level(action: Action, result: CallResult) -> int:
    if action.kind is ActionKind.MESSAGE and result.error_code == CHANGED_HANDS:
        # Its VM ended since it was seen, as VMs do: there is nobody left to be told, and nothing to be mended.
        return logging.DEBUG
    if result.outcome is not Outcome.ACCEPTED:
        return logging.WARNING
    return logging.DEBUG if action.kind is ActionKind.MESSAGE else logging.INFO


def _done(action: Action, result: CallResult, times_suppressed: int = 0) -> str:
    where = f" {action.kind.host_word} host {action.host_id}" if action.host_id is not None else ""
    answer = f"{result.outcome} {result.error_text}".strip()
    again = f", so it did {times_suppressed} more times since that was logged" if times_suppressed else ""
    return f"{action.kind} VM {action.vm_id}{where}: {answer}{again} ({action.reason.text})"
