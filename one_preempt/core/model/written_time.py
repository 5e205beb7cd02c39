"""Instants and durations in the forms in which a LEASE attribute has them, for sentences that owners read."""

from __future__ import annotations

_DAY_S = 86_400


def utc_text(at_s: int) -> str:
    """An instant in UTC, as in "2026-12-01T09:00:00Z"."""
    # Here, for values that are read by commands which need no numpy tell times, too.
    import numpy as np

    return f"{np.datetime64(at_s, 's')}Z"


def duration_text(duration_s: int) -> str:
    """A duration of at least 0 s, as in "02:00:00", or "1.12:00:00" for a day and a half."""
    days, rest_s = divmod(duration_s, _DAY_S)
    clock = f"{rest_s // 3600:02}:{rest_s // 60 % 60:02}:{rest_s % 60:02}"
    return f"{days}.{clock}" if days else clock
