"""The part of a cycle that is about host power: what was answered, what is issued.

What is written before and after each call is as with actions: the intent, then the effect, then the answer. What
power control answers comes in a later cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from one_preempt.core.host_power.phase_transitions import TAKEN_OVER
from one_preempt.core.model.ledger import LedgerChanges
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import Plan
from one_preempt.core.model.power import PowerAnswer, PowerOutcome
from one_preempt.core.model.power_sequence import (
    ORDERED,
    HostPowerStep,
    PowerPhase,
    PowerReport,
    PowerSequence,
    PowerStepKind,
)
from one_preempt.core.model.power_standing import PowerStanding, PowerStandings
from one_preempt.ports import CallResult, Clock, HostEnactor, LeaseStore, PowerCalls, PowerMemory

PowerResults = tuple[tuple[HostPowerStep, CallResult], ...]
# What is not begun any more once an operator has paused.
_STOPPED_BY_PAUSE = frozenset({
    PowerStepKind.DISABLE, PowerStepKind.PUT_OFFLINE, PowerStepKind.SWITCH_OFF, PowerStepKind.CUT_POWER,
})  # fmt: skip
_NOT_UP = (PowerPhase.FAILED, PowerPhase.CUTTING_POWER)
_PHASES = {
    PowerStepKind.SWITCH_OFF: PowerPhase.SWITCHING_OFF,
    PowerStepKind.CUT_POWER: PowerPhase.CUTTING_POWER,
    PowerStepKind.SWITCH_ON: PowerPhase.SWITCHING_ON,
}
_NOT_ACCEPTED = {
    PowerAnswer.NO_ANSWER: Outcome.UNKNOWN,
    PowerAnswer.CHANGED_HANDS: Outcome.DROPPED,
    PowerAnswer.HELD_BACK: Outcome.HELD_BACK,
}
_BATCH = 25


class PowerEnactment:
    """Carries out the power steps of plans, and remembers what was read last."""

    def __init__(
        self,
        store: LeaseStore,
        hosts: HostEnactor,
        calls: PowerCalls,
        clock: Clock,
        memory: PowerMemory | None = None,
    ) -> None:
        """`memory` is told how boots end, and kept in the store; None: power control remembers nothing."""
        self._store = store
        self._hosts = hosts
        self._calls = calls
        self._clock = clock
        self._memory = memory
        # What the store has of it; None: not looked at since this process began to act.
        self._kept: PowerStandings | None = None
        self._readings: dict[int, PowerReport] = {}
        self._taken_at_s = 0
        self._unwritten_orders: list[PowerReport] = []

    @property
    def readings(self) -> Mapping[int, PowerReport]:
        """The last reading of power of each host of which there is one."""
        return self._readings.copy()

    def take_reports(self) -> None:
        """Write down what power control has answered to orders, and keep what was read.

        What it remembers comes first: who dies in between counts a failure, and the order is put again.
        """
        reports, now_s = self._calls.take_reports(), self._clock.now_s()
        if now_s < self._taken_at_s:
            # The clock was set back: whether what was read came before an order or after it, nobody knows any more.
            self._readings.clear()
        self._taken_at_s = now_s
        self._readings |= {
            report.host_id: report
            for report in reports
            if report.kind is PowerStepKind.READ_POWER and report.asked_at_s <= now_s
        }
        # Nobody hands them out again: they are kept until they are written, though the database fails.
        self._unwritten_orders += [report for report in reports if report.kind is not PowerStepKind.READ_POWER]
        self._keep_memory()
        phases = {one.host_id: one for one in self._store.power_sequences()} if self._unwritten_orders else {}
        while self._unwritten_orders:
            report = self._unwritten_orders[0]
            if _is_answered_by(phases.get(report.host_id), report):
                self._store.record_power_result(report.host_id, _result(report.outcome), self._clock.now_s())
            del self._unwritten_orders[0]

    def step_down(self) -> None:
        """Another process may act from now on, and write down what fails there.

        No order of ours may come after its own; and answers are dropped, for to that one they were none.
        """
        self._kept = None
        self._calls.drop()
        self._readings.clear()
        self._unwritten_orders.clear()

    def tell_boots(
        self, before: Mapping[int, PowerSequence], changed: Iterable[PowerSequence]
    ) -> tuple[PowerStanding, ...]:
        """Say which hosts came up, or did not, now that sequences stand elsewhere than `before`.

        What power control remembers since then is to be written with the sequences.
        """
        if self._memory is None:
            return ()
        for after in changed:
            was = before.get(after.host_id)
            if was is None or not was.began_at_s or not (was.is_coming or was.phase in _NOT_UP):
                continue
            if after.phase is PowerPhase.AWAKE and after.reason_code != TAKEN_OVER:
                self._memory.came_up(after.host_name)
            elif after.phase is PowerPhase.FAILED and was.phase is PowerPhase.ENABLING:
                self._memory.did_not_come_up(after.host_name)
        return self._unwritten(self._memory.standings())

    def forgive(self, plan: Plan) -> None:
        """Before `plan` is written down: what failed at hosts that an administrator orders on counts no more."""
        if self._memory is None:
            return
        ordered = [
            one.host_name
            for one in plan.power_sequences
            if one.phase is PowerPhase.SWITCHING_ON and one.reason_code == ORDERED and not one.attempts
        ]
        for host_name in ordered:
            self._memory.forgive(host_name)
        if ordered:
            self._keep_memory()

    def _keep_memory(self) -> None:
        """Write down what power control remembers, or, at first, remind it of what was written."""
        if self._memory is None:
            return
        if self._kept is None:
            self._kept = {one.key: one for one in self._store.power_standings()}
            self._memory.remember(self._kept)
        standings = self._memory.standings()
        if standings == self._kept:
            return
        changed = self._unwritten(standings)
        if changed:
            self._store.apply(LedgerChanges(power_standings=changed))
        self._kept = standings

    def _unwritten(self, standings: PowerStandings) -> tuple[PowerStanding, ...]:
        """What of these the store has otherwise, and, cleared, what it has and they have not."""
        kept = self._kept or {}
        gone = (PowerStanding(*key) for key in kept.keys() - standings.keys())
        return tuple(sorted((*gone, *(one for key, one in standings.items() if kept.get(key) != one)), key=_key))

    def enact(self, plan: Plan, may_act: Callable[[], bool]) -> PowerResults:
        """Issue the power steps of `plan`, in order; `may_act` is asked again now and then."""
        results: list[tuple[HostPowerStep, CallResult]] = []
        for number, step in enumerate(plan.power_steps):
            if number % _BATCH == 0 and not may_act():
                break
            if step.kind.is_for_power_control and self._calls.is_busy(step.host_id):
                continue
            if step.kind in _STOPPED_BY_PAUSE and self._store.is_paused():
                continue
            result = self._put(step) if step.kind.is_for_power_control else self._issue(step)
            if result is not None:
                results.append((step, result))
                if result.outcome is Outcome.UNKNOWN:
                    # oned does not answer: observe afresh first.
                    break
        return tuple(results)

    def _issue(self, step: HostPowerStep) -> CallResult:
        self._store.begin_power_step(step)
        result = self._hosts.perform(step)
        self._store.record_power_result(step.host_id, result, self._clock.now_s())
        return result

    def _put(self, step: HostPowerStep) -> CallResult | None:
        """Put it to power control, unless the host changed hands; None where all is as it should be."""
        if step.kind is PowerStepKind.READ_POWER:
            self._calls.put(step, self._clock.now_s())
            return None
        if step.expected_states:
            checked = self._hosts.perform(step)
            if checked.outcome is not Outcome.ACCEPTED:
                return checked
        self._store.begin_power_step(step)
        self._calls.put(step, self._clock.now_s())
        return None


def _key(standing: PowerStanding) -> tuple[str, str]:
    return standing.key


def _is_answered_by(sequence: PowerSequence | None, report: PowerReport) -> bool:
    """The order is still the one that is waited for: while a controller took its time the host may have moved on."""
    return sequence is not None and sequence.attempts > 0 and sequence.phase is _PHASES[report.kind]


def _result(outcome: PowerOutcome) -> CallResult:
    """An answer of power control as that to a call. What may have been done counts as not answered."""
    if outcome.accepted:
        return CallResult(Outcome.ACCEPTED)
    kind = _NOT_ACCEPTED.get(outcome.answer, Outcome.REFUSED)
    return CallResult(kind, outcome.answer.name, outcome.text, outcome.retry_at_s)
