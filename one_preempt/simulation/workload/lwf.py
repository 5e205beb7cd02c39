"""Haizea's Lease Workload Format: leases in XML, read.

All instants are relative to the start of the workload; those with a leading ``+`` to the lease's arrival. `lwf_writing`
writes the format. A lease is

    best-effort            <start/>                          immediate    <start><now/></start>
    advance reservation    <start><exact time="..."/></start>
    with a deadline        any of these, and <deadline time="..."/>

Files are not trusted: no entities, no document type, no huge texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from lxml import etree
from lxml.etree import _Element

from one_preempt.core.model.lease import LeaseType
from one_preempt.core.model.plain_words import plain_words
from one_preempt.errors import OnePreemptError
from one_preempt.simulation.workload.trace_files import BadLineCollector, ByteStream, open_trace
from one_preempt.simulation.workload.workload import (
    SECONDS_PER_DAY,
    SECONDS_PER_HOUR,
    UNKNOWN_ID,
    LeftOut,
    MachineSet,
    StartKind,
    Workload,
    WorkloadRequest,
)

CPU, MEMORY = "CPU", "Memory"
# Attributes below <extra>, which Haizea passes by: what its format has no word for.
LEASE_TYPE, EXTERNAL, MAX_SUSPENSIONS, GROUP, QUEUE, UNKNOWN_DURATION = (
    "lease-type", "external", "max-suspensions", "group", "queue", "unknown-duration",
)  # fmt: skip
MOST_MACHINES = 1_000_000
_BLOCK_BYTES = 1 << 20

_TIME = re.compile(r"(\+)?(?:(\d{1,6})[:. ])?(\d{1,6}):(\d{1,2}):(\d{1,2}(?:\.\d{1,9})?)")
_WHOLE_NUMBER = re.compile(r"-?\d{1,15}")


class _Wrong(Exception):
    """An element that cannot be understood: its line, and what is wrong with it."""

    def __init__(self, element: _Element, what: str) -> None:
        super().__init__(what)
        self.line = int(element.sourceline or 0)
        self.what = what


@dataclass(slots=True)
class _Found:
    """What has been read so far; `unnamed` are requests to which the file gives no id."""

    name: str = ""
    site: tuple[MachineSet, ...] = ()
    requests: dict[int, WorkloadRequest] = field(default_factory=dict)
    unnamed: list[WorkloadRequest] = field(default_factory=list)
    other_resources: set[str] = field(default_factory=set)


def read_lwf(path: Path | str, skip_bad_requests: bool = False, cut_overruns: bool = False) -> Workload:
    """The workload in a file, plain or compressed with gzip.

    Args:
        path: Where it is.
        skip_bad_requests: Leave out and count requests that cannot be understood, instead of refusing the file.
        cut_overruns: Leases end at their requested duration even where the file states a longer real one, as in
            Haizea. Else they run longer.

    Raises:
        OnePreemptError: The file cannot be read, or is bad: file, line, element and attribute.
    """
    with open_trace(path) as stream:
        workload = parse_lwf(stream, str(path), skip_bad_requests)
    return workload.after("over-runs cut", map(_cut, workload.requests)) if cut_overruns else workload


def _cut(request: WorkloadRequest) -> WorkloadRequest:
    return replace(request, actual_duration_s=min(request.actual_duration_s, request.planned_duration_s))


def parse_lwf(stream: ByteStream, source: str, skip_bad_requests: bool = False) -> Workload:
    """The workload in a stream of bytes. `source` names it in messages; see `read_lwf`."""
    found, bad = _Found(), BadLineCollector(source, skip_bad_requests)
    try:
        for element in _elements(stream):
            if element.tag == "lease-workload":
                found.name = element.get("name", "")
            elif element.tag == "site":
                found.site = _machines(element.find("nodes"), element, found.other_resources)
            else:
                _add_request(element, found, bad)
    except _Wrong as wrong:
        raise OnePreemptError(f"{source}:{wrong.line}: {wrong.what}") from None
    except etree.XMLSyntaxError as error:
        raise OnePreemptError(f"{source}:{error.lineno}: not XML: {plain_words(str(error.msg), 120)}") from None
    next_id = max(found.requests, default=0) + 1
    named = (replace(request, id=next_id + number) for number, request in enumerate(found.unnamed))
    ignored = f", without {', '.join(sorted(found.other_resources))}" if found.other_resources else ""
    return Workload(
        requests=(*found.requests.values(), *named),
        name=found.name,
        site=found.site,
        provenance=(f"read from {source}{ignored}",),
        left_out=(LeftOut("bad requests", bad.found.count),) if bad.found.count else (),
    )


def _elements(stream: ByteStream) -> Iterator[_Element]:
    """The root, the site and each request once it is whole; they are forgotten after their turn."""
    parser = etree.XMLPullParser(
        ("start", "end"), resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False,
        remove_comments=True, remove_pis=True,
    )  # fmt: skip
    while block := stream.read(_BLOCK_BYTES):
        parser.feed(block)
        for event, element in parser.read_events():
            if event == "start" and element.getparent() is None:
                if element.tag != "lease-workload" or element.getroottree().docinfo.internalDTD is not None:
                    raise _Wrong(element, f"{_shown(element)} is not a <lease-workload> without a DOCTYPE, as LWF is")
                yield element
            elif event == "end" and element.tag in ("site", "lease-request"):
                yield element
                element.clear()
    parser.close()


def _add_request(element: _Element, found: _Found, bad: BadLineCollector) -> None:
    try:
        request = _request(element, found.other_resources)
        if request.id in found.requests:
            raise _Wrong(element, f"lease {request.id} is there twice")
    except _Wrong as wrong:
        bad.add(wrong.line, wrong.what)
    else:
        if request.id == UNKNOWN_ID:
            found.unnamed.append(request)
        else:
            found.requests[request.id] = request


def _request(element: _Element, other_resources: set[str]) -> WorkloadRequest:
    lease = _child(element, "lease")
    extra = {attribute.get("name", ""): attribute for attribute in lease.iterfind("extra/attr")}
    arrival_s = _time_s(element, "arrival", relative_to_s=0)
    duration_s = _time_s(_child(lease, "duration"), "time", relative_to_s=0)
    real = element.find("realduration")
    start, start_at_s, deadline_at_s = _start(lease, arrival_s)
    image, image_mib = _image(lease)
    try:
        return WorkloadRequest(
            id=_number(lease, "id", least=0) if "id" in lease.attrib else UNKNOWN_ID,
            submitted_at_s=arrival_s,
            vm_sets=_machines(_child(lease, "nodes"), lease, other_resources),
            requested_duration_s=None if UNKNOWN_DURATION in extra else duration_s,
            actual_duration_s=duration_s if real is None else _time_s(real, "time", relative_to_s=0),
            start=start,
            start_at_s=start_at_s,
            deadline_at_s=deadline_at_s,
            lease_type=_lease_type(lease, start, extra.get(LEASE_TYPE)),
            external=EXTERNAL in extra,
            max_suspensions=_number(extra[MAX_SUSPENSIONS], "value", 0) if MAX_SUSPENSIONS in extra else None,
            image=image,
            image_mib=image_mib,
            user=_number(lease, "user", UNKNOWN_ID) if "user" in lease.attrib else UNKNOWN_ID,
            group=_number(extra[GROUP], "value", UNKNOWN_ID) if GROUP in extra else UNKNOWN_ID,
            queue=_number(extra[QUEUE], "value", UNKNOWN_ID) if QUEUE in extra else UNKNOWN_ID,
        )
    except ValueError as error:
        raise _Wrong(lease, f"<lease>: {error}") from None


def _start(lease: _Element, arrival_s: int) -> tuple[StartKind, int | None, int | None]:
    """Kind, start and deadline. A deadline makes a lease one that is ready at its start."""
    start, deadline = _child(lease, "start"), lease.find("deadline")
    exact, now = start.find("exact"), start.find("now")
    if len(start) and exact is None and now is None:
        raise _Wrong(start, f"<start> holds {_shown(start[0])}: leave it empty, or write <exact time='...'/> or <now/>")
    start_at_s = None if exact is None else _time_s(exact, "time", relative_to_s=arrival_s)
    if deadline is not None:
        return StartKind.DEADLINE, start_at_s, _time_s(deadline, "time", relative_to_s=arrival_s)
    if exact is not None:
        return StartKind.EXACT, start_at_s, None
    return (StartKind.BEST_EFFORT if now is None else StartKind.IMMEDIATE), None, None


def _lease_type(lease: _Element, start: StartKind, stated: _Element | None) -> LeaseType:
    if stated is not None:
        try:
            return LeaseType(stated.get("value", ""))
        except ValueError:
            known = ", ".join(LeaseType)
            raise _Wrong(stated, f"{LEASE_TYPE} {_quoted(stated, 'value')} is none of {known}") from None
    preemptible = lease.get("preemptible", "").lower()
    if preemptible in ("false", "no"):
        return LeaseType.DC_NON_PREEMPTABLE
    if preemptible not in ("true", "yes"):
        raise _Wrong(lease, f"<lease> preemptible={_quoted(lease, 'preemptible')}: write true or false")
    return LeaseType.DC_MIGRATABLE if start is StartKind.DEADLINE else LeaseType.BE_SUSPENDABLE


def _image(lease: _Element) -> tuple[str, int]:
    image = lease.find("software/disk-image")
    if image is None:
        return "", 0
    return plain_words(image.get("id", ""), 200), _number(image, "size", least=0)


def _machines(nodes: _Element | None, parent: _Element, other_resources: set[str]) -> tuple[MachineSet, ...]:
    """The sets of equal nodes; the amounts of a resource's instances are added up."""
    node_sets = [] if nodes is None else nodes.findall("node-set")
    if not node_sets:
        raise _Wrong(parent, f"{_shown(parent)} has no <nodes> with a <node-set>")
    machines = []
    for node_set in node_sets:
        amounts = {CPU: 0, MEMORY: 0}
        for resource in node_set.iterfind("res"):
            name = plain_words(resource.get("type", ""), 40)
            instances = resource.findall("instance") or [resource]
            amounts[name] = amounts.get(name, 0) + sum(_number(instance, "amount", least=0) for instance in instances)
        other_resources |= amounts.keys() - {CPU, MEMORY}
        machines.append(MachineSet(_number(node_set, "numnodes", 1, MOST_MACHINES), amounts[CPU], amounts[MEMORY]))
    return tuple(machines)


def _child(element: _Element, tag: str) -> _Element:
    child = element.find(tag)
    if child is None:
        raise _Wrong(element, f"{_shown(element)} has no <{tag}>")
    return child


def _number(element: _Element, attribute: str, least: int, most: int = 10**15) -> int:
    text = element.get(attribute, "").strip()
    if not _WHOLE_NUMBER.fullmatch(text) or not least <= int(text) <= most:
        shown = _quoted(element, attribute)
        raise _Wrong(element, f"{_shown(element)} {attribute}={shown} is not a whole number from {least} to {most}")
    return int(text)


def _time_s(element: _Element, attribute: str, relative_to_s: int) -> int:
    """Seconds of ``[+][d:]hh:mm:ss[.fff]``, halves up; ``+`` counts from `relative_to_s`."""
    found = _TIME.fullmatch(element.get(attribute, "").strip())
    if found is None:
        shown = _quoted(element, attribute)
        raise _Wrong(element, f"{_shown(element)} {attribute}={shown} is not a time: write hh:mm:ss or d:hh:mm:ss")
    relative, days, hours, minutes, seconds = found.groups(default="0")
    whole_s = (
        int(days) * SECONDS_PER_DAY + int(hours) * SECONDS_PER_HOUR + int(minutes) * 60 + int(float(seconds) + 0.5)
    )
    return whole_s + (relative_to_s if relative == "+" else 0)


def _shown(element: _Element) -> str:
    return f"<{plain_words(str(element.tag), 40)}>"


def _quoted(element: _Element, attribute: str) -> str:
    return f"'{plain_words(element.get(attribute, ''), 40)}'"
