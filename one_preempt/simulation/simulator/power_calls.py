"""Orders to power control within a simulation: answered at once, since no network lies between."""

from __future__ import annotations

from collections.abc import Sequence

from one_preempt.core.model.power_sequence import HostPowerStep, PowerReport, PowerStepKind
from one_preempt.ports import PowerControl


class ImmediatePowerCalls:
    """Implements `ports.PowerCalls` on a power control that answers at once."""

    def __init__(self, control: PowerControl) -> None:
        self._control = control
        self._reports: dict[int, PowerReport] = {}

    def is_busy(self, host_id: int) -> bool:
        """Its answer was not taken yet."""
        return host_id in self._reports

    def put(self, step: HostPowerStep, now_s: int) -> None:
        """Ask, and keep the answer until it is taken."""
        self._reports[step.host_id] = self._answer(step, now_s)

    def take_reports(self) -> Sequence[PowerReport]:
        """What was answered since the last call, by host id."""
        reports, self._reports = self._reports, {}
        return [reports[host_id] for host_id in sorted(reports)]

    def drop(self) -> None:
        """Forget the answers; nothing is ever under way."""
        self._reports = {}

    def _answer(self, step: HostPowerStep, now_s: int) -> PowerReport:
        match step.kind:
            case PowerStepKind.SWITCH_ON:
                outcome = self._control.switch_on(step.host_name)
            case PowerStepKind.SWITCH_OFF:
                outcome = self._control.switch_off(step.host_name, hard=False)
            case PowerStepKind.CUT_POWER:
                outcome = self._control.switch_off(step.host_name, hard=True)
            case PowerStepKind.READ_POWER:
                reading = self._control.status(step.host_name)
                return PowerReport(step.host_id, step.kind, reading.outcome, now_s, reading.status)
            case kind:
                raise ValueError(f"{step.id}: {kind} is not for power control")
        return PowerReport(step.host_id, step.kind, outcome, now_s)
