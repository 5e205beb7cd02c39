"""The terms that options ask for, as keys of a LEASE attribute and as values, judged as the scheduler judges them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict, TypeVar

import click
from msgspec import Struct

from one_preempt.core.admission.lease_attribute import MalformedLease, parse_lease_attribute
from one_preempt.core.admission.time_wish import impossible_wish
from one_preempt.core.model.lease import LeaseTerms, LeaseType
from one_preempt.core.model.written_time import utc_text
from one_preempt.entrypoints.cli.lease.local_time import with_zone
from one_preempt.errors import OnePreemptError

Command = TypeVar("Command", bound=Callable[..., Any])


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


_OPTIONS = (
    click.option("--type", "lease_type", required=True, metavar="TYPE", help=f"One of {', '.join(LeaseType)}."),
    click.option("--name", help="How you name the lease; needed if SIZE is above 1."),
    click.option("--size", metavar="NUMBER", help="How many VMs form the lease.  [default: 1]"),
    click.option("--duration", metavar="HH:MM:SS", help="How long it is to run; 1.12:00:00 is a day and a half."),
    click.option(
        "--start", metavar="WHEN", help="now, +hh:mm:ss, 2026-12-01T09:00:00Z or '2026-12-01 09:00 Europe/Madrid'."
    ),
    click.option("--deadline", metavar="WHEN", help="When it must have ended: +hh:mm:ss from now, or a time."),
    click.option("--max-suspensions", metavar="NUMBER", help="How often it may be preempted at most."),
    click.option("--shutdown-ok", is_flag=True, help="The guests may be shut down instead of saved."),
)


def term_options(command: Command) -> Command:
    """The options of `TermOptions`, as a decorator."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


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
