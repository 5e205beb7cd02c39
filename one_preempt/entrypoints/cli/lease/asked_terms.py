"""The terms that options ask for, as keys of a LEASE attribute and as values, judged as the scheduler judges them."""

from __future__ import annotations

from typing import TypedDict

import click
from msgspec import Struct

from one_preempt.core.admission.lease_attribute import MalformedLease, parse_lease_attribute
from one_preempt.core.admission.time_wish import impossible_wish
from one_preempt.core.model.lease import LeaseTerms, LeaseType
from one_preempt.core.model.written_time import utc_text
from one_preempt.entrypoints.cli.lease.local_time import with_zone
from one_preempt.errors import OnePreemptError


class TermOptions(TypedDict):
    """The values of the options, None where one was not given."""

    lease_type: str
    name: str | None
    size: str | None
    duration: str | None
    start: str | None
    deadline: str | None
    max_suspensions: str | None
    shutdown_ok: bool


class AskedTerms(Struct, frozen=True):
    """What goes into the attribute, and what it means."""

    texts: dict[str, str]
    terms: LeaseTerms


def asked_terms(options: TermOptions, now_s: int) -> AskedTerms:
    """The terms; raises `click.UsageError` in the words that LEASE_STATUS would have for them.

    A relative DEADLINE counts from `now_s`; a relative START from the admission, as in the attribute.
    """
    given = {
        "TYPE": options["lease_type"],
        "NAME": options["name"],
        "SIZE": options["size"],
        "DURATION": options["duration"],
        "START": _instant("--start", options["start"]),
        "DEADLINE": _deadline(options["deadline"], now_s),
        "MAX_SUSPENSIONS": options["max_suspensions"],
        "SHUTDOWN_OK": "YES" if options["shutdown_ok"] else None,
    }
    texts = {key: text for key, text in given.items() if text is not None}
    return AskedTerms(texts, _judged(texts, now_s))


def _judged(texts: dict[str, str], now_s: int) -> LeaseTerms:
    terms = parse_lease_attribute((texts,))
    if isinstance(terms, MalformedLease):
        raise click.UsageError(terms.text)
    impossible = impossible_wish(terms, now_s, "this machine's clock")
    if impossible is not None:
        raise click.UsageError(impossible.text)
    return terms


def _instant(option: str, text: str | None) -> str | None:
    try:
        return None if text is None else with_zone(text)
    except OnePreemptError as error:
        raise click.UsageError(f"{option}: {error}") from None


def _deadline(text: str | None, now_s: int) -> str | None:
    if text is None or not text.startswith("+"):
        return _instant("--deadline", text)
    after = parse_lease_attribute(({"TYPE": LeaseType.DC_NON_PREEMPTABLE, "DURATION": text[1:]},))
    if isinstance(after, MalformedLease) or after.duration_s is None:
        raise click.UsageError(
            f"--deadline: {text[:80]!r} is not usable: write +hours:minutes:seconds from now, such as +26:00:00, "
            "at most ten years"
        )
    return utc_text(now_s + after.duration_s)
