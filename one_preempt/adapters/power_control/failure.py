"""How failures travel inside the adapters, and how they become values at their edge."""

from __future__ import annotations

from collections.abc import Callable

from one_preempt.adapters.power_control.secret import SecretError
from one_preempt.core.model.power import PowerAnswer, PowerOutcome, PowerReading, PowerStatus
from one_preempt.ports import CloudUnavailable


class PowerFailure(Exception):
    """An order or question that failed; it never leaves an adapter."""

    def __init__(self, answer: PowerAnswer, text: str) -> None:
        super().__init__(text)
        self.outcome = PowerOutcome(answer, text)


def outcome_of(order: Callable[[], str]) -> PowerOutcome:
    """Carry out `order`, which returns what it did as a sentence, and tell the answer as a value."""
    try:
        return PowerOutcome(PowerAnswer.ACCEPTED, order())
    except PowerFailure as failure:
        return failure.outcome
    except SecretError as error:
        return PowerOutcome(PowerAnswer.MISCONFIGURED, str(error))
    except CloudUnavailable as error:
        return PowerOutcome(
            PowerAnswer.UNREACHABLE, f"OpenNebula does not say where the host is to be reached: {error}"
        )


def reading_of(question: Callable[[], tuple[PowerStatus, str]]) -> PowerReading:
    """Ask `question`, which returns the status and how it was found, and tell the answer as a value."""
    found: list[PowerStatus] = []

    def ask() -> str:
        status, text = question()
        found.append(status)
        return text

    outcome = outcome_of(ask)
    return PowerReading(found[0] if found else PowerStatus.UNKNOWN, outcome)
