"""No power control: says what would be done, and does nothing. As shipped."""

from __future__ import annotations

from one_preempt.core.model.power import PowerAnswer, PowerOutcome, PowerReading, PowerStatus


class AdviceOnlyPowerControl:
    """Implements `PowerControl` without touching anything."""

    def switch_on(self, host: str) -> PowerOutcome:
        """Say that `host` would be switched on."""
        return _advice(f"would switch on {host}; no power control is configured for it")

    def switch_off(self, host: str, hard: bool) -> PowerOutcome:
        """Say that `host` would be shut down, or its power taken away."""
        order = "take the power of" if hard else "shut down"
        return _advice(f"would {order} {host}; no power control is configured for it")

    def status(self, host: str) -> PowerReading:
        """Nobody can know."""
        return PowerReading(PowerStatus.UNKNOWN, _advice(f"no power control is configured for {host}"))


def _advice(text: str) -> PowerOutcome:
    return PowerOutcome(PowerAnswer.ADVICE_ONLY, text)
