"""Read a LEASE attribute: terms, or what is wrong with it and how to write it.

    LEASE = [ TYPE = "DC-MIGRATABLE", NAME = "sweep-42", SIZE = "8", DURATION = "02:00:00",
              START = "2026-12-01T09:00:00Z", DEADLINE = "2026-12-02T09:00:00Z",
              MAX_SUSPENSIONS = "2", SHUTDOWN_OK = "NO" ]

START alone is the exact start, or "now": at once or not at all. With a DEADLINE it is the earliest start. Its owner may
write anything here. Nothing is guessed: what is not understood, or has no zone, is refused by name.
"""

from __future__ import annotations

import re
from calendar import monthrange, timegm
from collections.abc import Callable, Mapping
from functools import lru_cache

from msgspec import Struct

from one_preempt.core.model.lease import LeaseTerms, LeaseType
from one_preempt.core.model.virtual_machine import AttributeValue

LEASE = "LEASE"
AT_ONCE = "NOW"
MAX_SIZE = 10_000
MAX_SUSPENSIONS = 1_000_000
MAX_DURATION_S = 10 * 365 * 86_400
FIRST_YEAR, LAST_YEAR = 1971, 2200
MAX_CHARACTERS = 2_000
QUOTED_CHARACTERS = 32

_TYPE_BY_NAME = {lease_type.value: lease_type for lease_type in LeaseType}
TYPES = ", ".join(_TYPE_BY_NAME)
_DURATION_FORM = 'hours:minutes:seconds as in "02:00:00", or "1.12:00:00" for a day and a half'
_OFFSET_FORM = '+hours:minutes:seconds from its admission as in "+02:00:00", or "+1.12:00:00" for a day and a half'
_INSTANT_FORM = 'a time with its zone, as in "2026-12-01T09:00:00Z" or "2026-12-01T09:00:00+01:00"'

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}")
_WHOLE_NUMBER = re.compile(r"[0-9]{1,12}")
_DURATION = re.compile(
    r"(?:(?P<days>[0-9]{1,4})\.)?(?P<hours>[0-9]{1,5}):(?P<minutes>[0-5][0-9]):(?P<seconds>[0-5][0-9])"
)
_INSTANT = re.compile(
    r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})[T ]"
    r"(?P<hour>[01][0-9]|2[0-3]):(?P<minute>[0-5][0-9])(?::(?P<second>[0-5][0-9]))?"
    r"(?:Z|(?P<sign>[+-])(?P<zone_hours>[01][0-9]):?(?P<zone_minutes>[0-5][0-9]))"
)


class MalformedLease(Struct, frozen=True):
    """Why a LEASE attribute cannot be read: a code, and what to write instead, fit for its owner's eyes."""

    code: str
    text: str


class _Unreadable(Exception):
    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.problem = MalformedLease(code, text)


def parse_lease_attribute(values: tuple[AttributeValue, ...]) -> LeaseTerms | MalformedLease:
    """The terms that the LEASE values of one user template ask for."""
    if len(values) != 1:
        return MalformedLease("lease-repeated", f"LEASE is written {len(values)} times: keep one")
    value = values[0]
    if isinstance(value, str):
        return MalformedLease("lease-not-vector", 'LEASE is not in brackets: write LEASE = [ TYPE = "BE-SUSPENDABLE" ]')
    if sum(map(len, value)) + sum(map(len, value.values())) > MAX_CHARACTERS:
        return MalformedLease("lease-too-long", f"LEASE is longer than {MAX_CHARACTERS} characters: shorten it")
    return _parsed(tuple(value.items()))


def quoted(words: str) -> str:
    """A user's words, short and printable, for a message."""
    cut = words if len(words) <= QUOTED_CHARACTERS else words[: QUOTED_CHARACTERS - 3] + "..."
    return "'" + "".join(c if c.isprintable() and c not in "<>&\"'\\" else "?" for c in cut) + "'"


@lru_cache(maxsize=4096)
def _parsed(items: tuple[tuple[str, str], ...]) -> LeaseTerms | MalformedLease:
    """Remembered, for thousands of VMs ask for the same and ask again in every cycle."""
    try:
        return _terms(_by_known_key(items))
    except _Unreadable as unreadable:
        return unreadable.problem


def _by_known_key(items: tuple[tuple[str, str], ...]) -> dict[str, str]:
    found = {key.upper(): text.strip() for key, text in items}
    if not found.keys() <= _KNOWN_KEYS:
        unknown = [quoted(key) for key, _ in items if key.upper() not in _KNOWN_KEYS]
        what = f"LEASE has the unknown keys {', '.join(unknown[:3])}"
        if len(unknown) == 1:
            what = f"LEASE has the unknown key {unknown[0]}"
        raise _Unreadable("lease-unknown-key", f"{what}; it may have {', '.join(_KEYS)}")
    if len(found) < len(items):
        written = [key.upper() for key, _ in items]
        twice = next(key for key in written if written.count(key) > 1)
        raise _Unreadable("lease-repeated-key", f"{twice} is written twice in LEASE: keep one")
    return found


def _terms(texts: Mapping[str, str]) -> LeaseTerms:
    if "TYPE" not in texts:
        raise _Unreadable("lease-type", f"LEASE has no TYPE: write one of {TYPES}")
    start = texts.get("START", "")
    relative, at_once = start.startswith("+"), start.upper() == AT_ONCE
    terms = LeaseTerms(
        type=_type(texts["TYPE"]),
        name=_name(texts["NAME"]) if "NAME" in texts else "",
        size=_number("SIZE", texts["SIZE"], 1, MAX_SIZE) if "SIZE" in texts else 1,
        duration_s=_optional(texts, "DURATION", _duration_s),
        start_at_s=None if relative or at_once else _optional(texts, "START", _instant_s),
        start_offset_s=_duration_s("START", start[1:]) if relative else None,
        deadline_at_s=_optional(texts, "DEADLINE", _instant_s),
        max_suspensions=_optional(texts, "MAX_SUSPENSIONS", lambda key, text: _number(key, text, 0, MAX_SUSPENSIONS)),
        shutdown_ok=_yes("SHUTDOWN_OK", texts.get("SHUTDOWN_OK", "NO")),
        at_once=at_once,
    )
    _check_together(terms)
    return terms


def _check_together(terms: LeaseTerms) -> None:
    if terms.size > 1 and not terms.name:
        raise _Unreadable("lease-name", 'SIZE above 1 needs a NAME that all its VMs share: add NAME = "my-job"')
    if terms.deadline_at_s is None:
        return
    if terms.duration_s is None or terms.type.best_effort:
        raise _Unreadable(
            "lease-deadline",
            'DEADLINE needs a DURATION and a DC type: write TYPE = "DC-MIGRATABLE", DURATION = "02:00:00" and DEADLINE',
        )
    if terms.at_once:
        raise _Unreadable("lease-deadline", "DEADLINE and START 'now' do not go together: leave one of them out")
    if terms.deadline_at_s < (terms.start_at_s or 0) + terms.duration_s:
        raise _Unreadable("lease-deadline", "DEADLINE comes before START plus DURATION: move one of them")


def _optional(texts: Mapping[str, str], key: str, read: Callable[[str, str], int]) -> int | None:
    return read(key, texts[key]) if key in texts else None


def _type(text: str) -> LeaseType:
    found = _TYPE_BY_NAME.get(text.upper())
    if found is None:
        raise _Unreadable("lease-type", f"TYPE {quoted(text)} is unknown: write one of {TYPES}")
    return found


def _name(text: str) -> str:
    if _NAME.fullmatch(text) is None:
        raise _Unreadable(
            "lease-name",
            f"NAME {quoted(text)} is not usable: write 1 to 64 letters, digits and _ . : - (a letter or digit first)",
        )
    return text


def _number(key: str, text: str, lowest: int, highest: int) -> int:
    if _WHOLE_NUMBER.fullmatch(text) is None or not lowest <= int(text) <= highest:
        raise _Unreadable(
            f"lease-{key.lower()}",
            f"{key} {quoted(text)} is not usable: write a whole number from {lowest} to {highest}",
        )
    return int(text)


def _duration_s(key: str, text: str) -> int:
    found = _DURATION.fullmatch(text)
    if found is not None:
        days, hours, minutes, seconds = map(int, found.groups("0"))
        duration_s = days * 86_400 + hours * 3600 + minutes * 60 + seconds
        if 0 < duration_s <= MAX_DURATION_S:
            return duration_s
    is_start = key == "START"
    form = _OFFSET_FORM if is_start else _DURATION_FORM
    told = f"{quoted('+' + text if is_start else text)} is not usable: write {form}, more than 0 and at most ten years"
    raise _Unreadable(f"lease-{key.lower()}", f"{key} {told}")


def _instant_s(key: str, text: str) -> int:
    found = _INSTANT.fullmatch(text.upper())
    if found is not None:
        part = {name: int(digits or 0) for name, digits in found.groupdict().items() if name != "sign"}
        if _is_on_the_calendar(part["year"], part["month"], part["day"]):
            local_s = timegm(tuple(part[name] for name in ("year", "month", "day", "hour", "minute", "second")))
            zone_s = part["zone_hours"] * 3600 + part["zone_minutes"] * 60
            return local_s + zone_s if found["sign"] == "-" else local_s - zone_s
        told = f"{key} {quoted(text)} is not usable: write a date that exists, from {FIRST_YEAR} to {LAST_YEAR}"
        raise _Unreadable(f"lease-{key.lower()}", told)
    also = ', or "+02:00:00" from now, or "now"' if key == "START" else ""
    raise _Unreadable(f"lease-{key.lower()}", f"{key} {quoted(text)} is not usable: write {_INSTANT_FORM}{also}")


def _is_on_the_calendar(year: int, month: int, day: int) -> bool:
    return FIRST_YEAR <= year <= LAST_YEAR and 1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1]


def _yes(key: str, text: str) -> bool:
    if text.upper() not in ("YES", "NO"):
        raise _Unreadable(f"lease-{key.lower()}", f"{key} {quoted(text)} is not usable: write YES or NO")
    return text.upper() == "YES"


_KEYS = ("TYPE", "NAME", "SIZE", "DURATION", "START", "DEADLINE", "MAX_SUSPENSIONS", "SHUTDOWN_OK")
_KNOWN_KEYS = frozenset(_KEYS)
