"""When to try again what failed: growing pauses, then a long one. Values and instants only; no clock of its own."""

from __future__ import annotations

from msgspec.structs import replace

from one_preempt.configuration.power_control_settings import PatienceSettings
from one_preempt.core.model.power_standing import PowerAttempt, PowerStanding


def after_failure(standing: PowerStanding, why: str, now_s: int, patience: PatienceSettings) -> PowerStanding:
    """One failure more. The pauses double, and the breaker opens once there were `patience.failures` in a row.

    An open breaker lets one attempt through after `open_s`; its failure opens it again, its success closes it.
    """
    failures = standing.failures + 1
    if standing.attempt is PowerAttempt.LOGIN:
        pause_s = patience.login_pause_s
    elif failures >= patience.failures:
        pause_s = patience.open_s
    else:
        pause_s = min(patience.longest_pause_s, patience.first_pause_s * 2 ** (failures - 1))
    return PowerStanding(*standing.key, failures, now_s + pause_s, None, why)


def after_order(standing: PowerStanding, now_s: int) -> PowerStanding:
    """The order was taken. The failures stay counted until it shows; a repeated order does not extend the wait."""
    return standing if standing.ordered_at_s is not None else replace(standing, ordered_at_s=now_s)


def withdrawn(standing: PowerStanding) -> PowerStanding:
    """The contrary was ordered: nobody waits for it to show any more."""
    return replace(standing, ordered_at_s=None)


def is_overdue(standing: PowerStanding, effect_s: int, now_s: int) -> bool:
    """Whether an order was taken `effect_s` ago or longer and has not shown."""
    return standing.ordered_at_s is not None and now_s - standing.ordered_at_s >= effect_s
