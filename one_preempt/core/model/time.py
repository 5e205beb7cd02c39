"""Instants and durations.

An instant is a whole number of seconds since the epoch (``*_at_s``), as oned writes it; a duration that
enters a decision is a whole number of milliseconds (``*_ms``), so that costs compare as integers and a plan
does not depend on the order of floating-point additions.
"""

from __future__ import annotations

MS_PER_S = 1000


def seconds_to_ms(duration_s: float) -> int:
    """Round a duration in seconds to whole milliseconds (half away from zero, the same on every machine)."""
    scaled = duration_s * MS_PER_S
    return int(scaled + 0.5) if scaled >= 0 else -int(-scaled + 0.5)


def ms_to_seconds(duration_ms: int) -> float:
    """A duration in seconds, for people and documents."""
    return duration_ms / MS_PER_S
