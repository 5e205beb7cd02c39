"""When to try again what failed: growing pauses, then a long one. Values and instants only; no clock of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from one_preempt.power_settings import PatienceSettings


class Attempt(Enum):
    """What can fail again and again, each counted by itself for each host."""

    LOGIN = "login"
    """Getting let in by the controller; every order and question needs it."""
    ON = "on"
    """The order to start, until the power is seen on."""
    OFF = "off"
    """The order to stop, until the power is seen off."""
    BOOT = "boot"
    """Coming up after the power is on, which only OpenNebula sees."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What happened lately to one attempt at one host.

    `failures` in a row; `not_before_s`: not again before, in seconds since the epoch; `ordered_at_s`: taken then,
    and not seen to show yet; `why`: the last failure, as a sentence.
    """

    failures: int = 0
    not_before_s: int = 0
    ordered_at_s: int | None = None
    why: str = ""


def after_failure(standing: Standing, attempt: Attempt, why: str, now_s: int, patience: PatienceSettings) -> Standing:
    """One failure more. The pauses double, and the breaker opens once there were `patience.failures` in a row.

    An open breaker lets one attempt through after `open_s`; its failure opens it again, its success closes it.
    """
    failures = standing.failures + 1
    if attempt is Attempt.LOGIN:
        pause_s = patience.login_pause_s
    elif failures >= patience.failures:
        pause_s = patience.open_s
    else:
        pause_s = min(patience.longest_pause_s, patience.first_pause_s * 2 ** (failures - 1))
    return Standing(failures, now_s + pause_s, None, why)


def after_order(standing: Standing, now_s: int) -> Standing:
    """The order was taken. The failures stay counted until it shows; a repeated order does not extend the wait."""
    return standing if standing.ordered_at_s is not None else replace(standing, ordered_at_s=now_s)


def withdrawn(standing: Standing) -> Standing:
    """The contrary was ordered: nobody waits for it to show any more."""
    return replace(standing, ordered_at_s=None)


def is_overdue(standing: Standing, effect_s: int, now_s: int) -> bool:
    """Whether an order was taken `effect_s` ago or longer and has not shown."""
    return standing.ordered_at_s is not None and now_s - standing.ordered_at_s >= effect_s
