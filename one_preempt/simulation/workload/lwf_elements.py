"""What Haizea's documents have in common: how they are read, their numbers, times, starts, images and extras.

Files are not trusted: no entities, no document type, no huge texts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from lxml import etree
from lxml.etree import _Element

from one_preempt.core.model.lease import LeaseType
from one_preempt.core.model.plain_words import plain_words
from one_preempt.errors import OnePreemptError
from one_preempt.simulation.workload.trace_files import ByteStream
from one_preempt.simulation.workload.workload import SECONDS_PER_DAY, SECONDS_PER_HOUR, UNKNOWN_ID, StartKind

# Attributes below <extra>, which Haizea passes by: what its format has no word for.
LEASE_TYPE, EXTERNAL, MAX_SUSPENSIONS, GROUP, QUEUE, UNKNOWN_DURATION = (
    "lease-type", "external", "max-suspensions", "group", "queue", "unknown-duration",
)  # fmt: skip
_BLOCK_BYTES = 1 << 20

_TIME = re.compile(r"(\+)?(?:(\d{1,6})[:. ])?(\d{1,6}):(\d{1,2}):(\d{1,2}(?:\.\d{1,9})?)")
_WHOLE_NUMBER = re.compile(r"-?\d{1,15}")
_GREATEST = 10**15 - 1


class WrongElement(Exception):
    """An element that cannot be understood: its line, and what is wrong with it."""

    def __init__(self, element: _Element, what: str) -> None:
        super().__init__(what)
        self.line = int(element.sourceline or 0)
        self.what = what


class Extra(NamedTuple):
    """What stands below <extra>, as far as it is understood; None where nothing is said."""

    lease_type: LeaseType | None = None
    external: bool = False
    max_suspensions: int | None = None
    group: int | None = None
    queue: int | None = None
    unknown_duration: bool = False


NOTHING_MORE = Extra()


def elements(
    stream: ByteStream, source: str, root_tag: str, tags: Collection[str], as_written: str = "as Haizea writes it"
) -> Iterator[_Element]:
    """The root, and each element with one of the tags once it is whole; it is forgotten after its turn.

    `as_written` says in messages where such a document comes from.

    Raises:
        OnePreemptError: It is not XML, has another root or a DOCTYPE; `source` and the line are named.
    """
    parser = etree.XMLPullParser(
        ("start", "end"), resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False,
        remove_comments=True, remove_pis=True,
    )  # fmt: skip
    try:
        is_whole = False
        while not is_whole:
            if block := stream.read(_BLOCK_BYTES):
                parser.feed(block)
            else:
                # What the parser had kept back for want of more comes now.
                parser.close()
                is_whole = True
            for event, element in parser.read_events():
                if event == "start" and element.getparent() is None:
                    if element.tag != root_tag or element.getroottree().docinfo.internalDTD is not None:
                        what = f"{shown(element)} is not a <{root_tag}> without a DOCTYPE, {as_written}"
                        raise OnePreemptError(f"{source}:{element.sourceline}: {what}")
                    yield element
                elif event == "end" and element.tag in tags:
                    yield element
                    element.clear()
    except etree.XMLSyntaxError as error:
        raise OnePreemptError(f"{source}:{error.lineno}: not XML: {plain_words(str(error.msg), 120)}") from None


def child(element: _Element, tag: str) -> _Element:
    """The first child of that tag, which must be there."""
    found = element.find(tag)
    if found is None:
        raise WrongElement(element, f"{shown(element)} has no <{tag}>")
    return found


def number(element: _Element, attribute: str, least: int, most: int = _GREATEST) -> int:
    """A whole number between the two."""
    text = element.get(attribute, "").strip()
    if not _WHOLE_NUMBER.fullmatch(text) or not least <= int(text) <= most:
        what = f"{attribute}={quoted(element, attribute)} is not a whole number from {least} to {most}"
        raise WrongElement(element, f"{shown(element)} {what}")
    return int(text)


def time_s(element: _Element, attribute: str, relative_to_s: int) -> int:
    """Seconds of ``[+][d:]hh:mm:ss[.fff]``, halves up; ``+`` counts from `relative_to_s`."""
    found = _TIME.fullmatch(element.get(attribute, "").strip())
    if found is None:
        what = f"{attribute}={quoted(element, attribute)} is not a time: write hh:mm:ss or d:hh:mm:ss"
        raise WrongElement(element, f"{shown(element)} {what}")
    relative, days, hours, minutes, seconds = found.groups(default="0")
    whole_s = (
        int(days) * SECONDS_PER_DAY + int(hours) * SECONDS_PER_HOUR + int(minutes) * 60 + int(float(seconds) + 0.5)
    )
    return whole_s + (relative_to_s if relative == "+" else 0)


def start(element: _Element, relative_to_s: int) -> tuple[StartKind, int | None]:
    """What a <start> says, no deadline considered: the kind, and the instant where it is an exact one."""
    exact, now = element.find("exact"), element.find("now")
    if len(element) and exact is None and now is None:
        what = f"<start> holds {shown(element[0])}: leave it empty, or write <exact time='...'/> or <now/>"
        raise WrongElement(element, what)
    if exact is not None:
        return StartKind.EXACT, time_s(exact, "time", relative_to_s)
    return (StartKind.BEST_EFFORT if now is None else StartKind.IMMEDIATE), None


def image(parent: _Element) -> tuple[str, int]:
    """Name and size in MiB of the disk image below <software>; ('', 0) where there is none."""
    found = parent.find("software/disk-image")
    if found is None:
        return "", 0
    return plain_words(found.get("id", ""), 200), number(found, "size", least=0)


def extra(parent: _Element) -> Extra:
    """What stands below <extra>."""
    found = {attribute.get("name", ""): attribute for attribute in parent.iterfind("extra/attr")}

    def whole(name: str, least: int) -> int | None:
        return number(found[name], "value", least) if name in found else None

    def is_so(name: str) -> bool:
        return name in found and _yes_or_no(found[name], name)

    return Extra(
        lease_type=_lease_type(found[LEASE_TYPE]) if LEASE_TYPE in found else None,
        external=is_so(EXTERNAL),
        max_suspensions=whole(MAX_SUSPENSIONS, 0),
        group=whole(GROUP, UNKNOWN_ID),
        queue=whole(QUEUE, UNKNOWN_ID),
        unknown_duration=is_so(UNKNOWN_DURATION),
    )


def _lease_type(attribute: _Element) -> LeaseType:
    try:
        return LeaseType(attribute.get("value", ""))
    except ValueError:
        known = ", ".join(LeaseType)
        raise WrongElement(attribute, f"{LEASE_TYPE} {quoted(attribute, 'value')} is none of {known}") from None


def _yes_or_no(attribute: _Element, name: str) -> bool:
    text = attribute.get("value", "").strip().lower()
    if text not in ("yes", "true", "no", "false"):
        raise WrongElement(attribute, f"{name} {quoted(attribute, 'value')}: write yes or no")
    return text in ("yes", "true")


def shown(element: _Element) -> str:
    """An element as a message names it."""
    return f"<{plain_words(str(element.tag), 40)}>"


def quoted(element: _Element, attribute: str) -> str:
    """An attribute as a message quotes it."""
    return f"'{plain_words(element.get(attribute, ''), 40)}'"
