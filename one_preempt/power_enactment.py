"""The part of a cycle that is about host power: what was answered, what is issued.

What is written before and after each call is as with actions: the intent, then the effect, then the answer. What
power control answers comes in a later cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from one_preempt.core.model.ledger import Outcome
from one_preempt.core.model.plan import Plan
from one_preempt.core.model.power import PowerAnswer, PowerOutcome
from one_preempt.core.model.power_sequence import (
    HostPowerStep,
    PowerPhase,
    PowerReport,
    PowerSequence,
    PowerStepKind,
)
from one_preempt.core.observe_power import TAKEN_OVER
from one_preempt.ports import BootWitness, CallResult, Clock, HostEnactor, LeaseStore, PowerCalls

PowerResults = tuple[tuple[HostPowerStep, CallResult], ...]
# What is not begun any more once an operator has paused.
_STOPPED_BY_PAUSE = frozenset({
    PowerStepKind.DISABLE, PowerStepKind.PUT_OFFLINE, PowerStepKind.SWITCH_OFF, PowerStepKind.CUT_POWER,
})  # fmt: skip
_NOT_UP = (PowerPhase.FAILED, PowerPhase.CUTTING_POWER)
_BATCH = 25


class PowerEnactment:
    """Carries out the power steps of plans, and remembers what was read last."""

    def __init__(
        self,
        store: LeaseStore,
        hosts: HostEnactor,
        calls: PowerCalls,
        clock: Clock,
        witness: BootWitness | None = None,
    ) -> None:
        """`witness` is told how boots end; None: nobody is."""
        self._store = store
        self._hosts = hosts
        self._calls = calls
        self._clock = clock
        self._witness = witness
        self._readings: dict[int, PowerReport] = {}

    @property
    def readings(self) -> Mapping[int, PowerReport]:
        """The last reading of power of each host of which there is one."""
        return self._readings.copy()

    def take_reports(self) -> None:
        """Write down what power control has answered to orders, and keep what was read."""
        for report in self._calls.take_reports():
            if report.kind is PowerStepKind.READ_POWER:
                self._readings[report.host_id] = report
            else:
                self._store.record_power_result(report.host_id, _result(report.outcome), self._clock.now_s())

    def tell_boots(self, before: Mapping[int, PowerSequence], changed: Iterable[PowerSequence]) -> None:
        """Say which hosts came up, or did not, now that sequences stand elsewhere than `before`."""
        if self._witness is None:
            return
        for after in changed:
            was = before.get(after.host_id)
            if was is None or not was.began_at_s or not (was.is_coming or was.phase in _NOT_UP):
                continue
            if after.phase is PowerPhase.AWAKE and after.reason_code != TAKEN_OVER:
                self._witness.came_up(after.host_name)
            elif after.phase is PowerPhase.FAILED and was.phase is PowerPhase.ENABLING:
                self._witness.did_not_come_up(after.host_name)

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
        self._store.begin_power_step(step, self._clock.now_s())
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
        self._store.begin_power_step(step, self._clock.now_s())
        self._calls.put(step, self._clock.now_s())
        return None


def _result(outcome: PowerOutcome) -> CallResult:
    """An answer of power control as that to a call. What may have been done counts as not answered."""
    if outcome.accepted:
        return CallResult(Outcome.ACCEPTED)
    known = outcome.answer is not PowerAnswer.NO_ANSWER
    return CallResult(Outcome.REFUSED if known else Outcome.UNKNOWN, outcome.answer.name, outcome.text)
