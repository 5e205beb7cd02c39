"""Times as people write them: in a zone named by them, or in that of their machine, made an instant in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from one_preempt.core.model.written_time import utc_text
from one_preempt.errors import OnePreemptError

_LOCAL_TIME = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})[T ](?P<time>[0-9]{2}:[0-9]{2}(?::[0-9]{2})?)"
    r"(?: +(?P<zone>[A-Za-z][A-Za-z0-9_+/-]*))?"
)


def with_zone(text: str) -> str:
    """A local time in UTC, as "2026-12-01T08:00:00Z"; anything else comes back as it is, for others to judge.

    Raises `OnePreemptError` for a day, an hour or a zone that does not exist, and for a time that the change to or from
    daylight saving leaves out or repeats: nothing is guessed.
    """
    found = _LOCAL_TIME.fullmatch(text.strip())
    if found is None:
        return text
    try:
        local = datetime.fromisoformat(f"{found['day']}T{found['time']}")
    except ValueError:
        raise OnePreemptError(f"{text!r} is not usable: there is no such day, or no such hour") from None
    zone = _zone(found["zone"]) if found["zone"] else None
    try:
        return utc_text(int(_the_one_instant(local, zone, text).timestamp()))
    except (OverflowError, ValueError):  # before the first or after the last day that there is in UTC
        return text


def in_both(at_s: int) -> str:
    """An instant for people: in UTC, and on their own clock."""
    here = datetime.fromtimestamp(at_s, UTC).astimezone()
    return f"{utc_text(at_s)} ({here:%Y-%m-%d %H:%M:%S %z} here)"


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise OnePreemptError(
            f"there is no time zone {name!r}: write one like Europe/Madrid, or an offset as in 2026-12-01T09:00+01:00"
        ) from None


def _the_one_instant(naive: datetime, zone: tzinfo | None, text: str) -> datetime:
    instants = []
    for fold in (0, 1):
        instant = naive.replace(tzinfo=zone, fold=fold).astimezone(UTC)
        if instant.astimezone(zone).replace(tzinfo=None, fold=0) == naive and instant not in instants:
            instants.append(instant)
    if len(instants) == 1:
        return instants[0]
    what = "happens twice" if instants else "does not exist"
    raise OnePreemptError(
        f"{text!r} {what}, because the clocks change then: write it with an offset, as in 2026-12-01T09:00:00+01:00"
    )
