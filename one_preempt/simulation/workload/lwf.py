"""Haizea's Lease Workload Format: leases in XML, read.

All instants are relative to the start of the workload; those with a leading ``+`` to the lease's arrival. `lwf_writing`
writes the format. A lease is

    best-effort            <start/>                          immediate    <start><now/></start>
    advance reservation    <start><exact time="..."/></start>
    with a deadline        any of these, and <deadline time="..."/>
"""

from __future__ import annotations

from pathlib import Path

from lxml.etree import _Element
from msgspec import Struct, field
from msgspec.structs import replace

from one_preempt.core.model.lease import LeaseType
from one_preempt.core.model.plain_words import plain_words
from one_preempt.errors import OnePreemptError
from one_preempt.simulation.workload.lwf_elements import (
    WrongElement,
    child,
    elements,
    extra,
    image,
    number,
    quoted,
    shown,
    start,
    time_s,
)
from one_preempt.simulation.workload.trace_files import BadLineCounter, ByteStream, open_trace
from one_preempt.simulation.workload.workload import (
    MOST_NODES,
    UNKNOWN_ID,
    LeftOut,
    MachineSet,
    StartKind,
    Workload,
    WorkloadRequest,
    promisable,
)

LEASE_WORKLOAD = "lease-workload"
CPU, MEMORY = "CPU", "Memory"


class _Found(Struct):
    """What has been read so far; `unnamed` are requests to which the file gives no id, None where one is bad."""

    name: str = ""
    site: tuple[MachineSet, ...] = ()
    requests: dict[int, WorkloadRequest] = field(default_factory=dict)
    unnamed: list[WorkloadRequest | None] = field(default_factory=list)
    greatest_id: int = 0
    other_resources: set[str] = field(default_factory=set)


def read_lwf(path: Path | str, skip_bad_lines: bool = False) -> Workload:
    """The workload in a file, plain or compressed with gzip.

    Leases without an id are numbered in their order after the greatest id; bad ones count in both, so that the others
    keep theirs where such are left out.

    Args:
        path: Where it is.
        skip_bad_lines: Leave out and count requests that cannot be understood, instead of refusing the file.

    Raises:
        OnePreemptError: The file cannot be read, or is bad: file, line, element and attribute.
    """
    with open_trace(path) as stream:
        return parse_lwf(stream, str(path), skip_bad_lines)


def parse_lwf(stream: ByteStream, source: str, skip_bad_lines: bool = False) -> Workload:
    """The workload in a stream of bytes. `source` names it in messages; see `read_lwf`."""
    found, bad = _Found(), BadLineCounter(source, skip_bad_lines)
    try:
        for element in elements(stream, source, LEASE_WORKLOAD, ("site", "lease-request")):
            if element.tag == LEASE_WORKLOAD:
                found.name = element.get("name", "")
            elif element.tag == "site":
                found.site = _machines(element.find("nodes"), element, found.other_resources)
            else:
                _add_request(element, found, bad)
    except WrongElement as wrong:
        raise OnePreemptError(f"{source}:{wrong.line}: {wrong.what}") from None
    numbered = enumerate(found.unnamed, found.greatest_id + 1)
    named = (replace(request, id=number) for number, request in numbered if request is not None)
    ignored = f", without {', '.join(sorted(found.other_resources))}" if found.other_resources else ""
    return Workload(
        requests=(*found.requests.values(), *named),
        name=found.name,
        site=found.site,
        provenance=(f"read from {source}{ignored}",),
        left_out=(LeftOut("bad requests", bad.count),) if bad.count else (),
    )


def _add_request(element: _Element, found: _Found, bad: BadLineCounter) -> None:
    lease = element.find("lease")
    is_named = lease is not None and "id" in lease.attrib
    request: WorkloadRequest | None = None
    try:
        lease = child(element, "lease")
        id = number(lease, "id", least=0) if is_named else UNKNOWN_ID
        found.greatest_id = max(found.greatest_id, id)
        request = _request(id, element, lease, found.other_resources)
        if id in found.requests:
            raise WrongElement(element, f"lease {id} is there twice")
        if is_named:
            found.requests[id] = request
    except WrongElement as wrong:
        bad.add(wrong.line, wrong.what)
    if not is_named:
        found.unnamed.append(request)


def _request(id: int, element: _Element, lease: _Element, other_resources: set[str]) -> WorkloadRequest:
    said = extra(lease)
    arrival_s = time_s(element, "arrival", relative_to_s=0)
    duration_s = time_s(child(lease, "duration"), "time", relative_to_s=0)
    real, deadline = element.find("realduration"), lease.find("deadline")
    kind, start_at_s = start(child(lease, "start"), arrival_s)
    if deadline is not None:
        kind = StartKind.DEADLINE
    image_name, image_mib = image(lease)
    try:
        request = WorkloadRequest(
            id=id,
            submitted_at_s=arrival_s,
            vm_sets=_machines(child(lease, "nodes"), lease, other_resources),
            requested_duration_s=None if said.unknown_duration else duration_s,
            actual_duration_s=duration_s if real is None else time_s(real, "time", relative_to_s=0),
            start=kind,
            start_at_s=start_at_s,
            deadline_at_s=None if deadline is None else time_s(deadline, "time", relative_to_s=arrival_s),
            lease_type=said.lease_type or _lease_type(lease, kind),
            external=said.external,
            max_suspensions=said.max_suspensions,
            image=image_name,
            image_mib=image_mib,
            user=number(lease, "user", UNKNOWN_ID) if "user" in lease.attrib else UNKNOWN_ID,
            group=UNKNOWN_ID if said.group is None else said.group,
            queue=UNKNOWN_ID if said.queue is None else said.queue,
        )
        return promisable(request)
    except ValueError as error:
        raise WrongElement(lease, f"<lease>: {error}") from None


def _lease_type(lease: _Element, start: StartKind) -> LeaseType:
    preemptible = lease.get("preemptible", "").lower()
    if preemptible in ("false", "no"):
        return LeaseType.DC_NON_PREEMPTABLE
    if preemptible not in ("true", "yes"):
        raise WrongElement(lease, f"<lease> preemptible={quoted(lease, 'preemptible')}: write true or false")
    return LeaseType.DC_MIGRATABLE if start is StartKind.DEADLINE else LeaseType.BE_SUSPENDABLE


def _machines(nodes: _Element | None, parent: _Element, other_resources: set[str]) -> tuple[MachineSet, ...]:
    """The sets of equal nodes; the amounts of a resource's instances are added up."""
    node_sets = [] if nodes is None else nodes.findall("node-set")
    if not node_sets:
        raise WrongElement(parent, f"{shown(parent)} has no <nodes> with a <node-set>")
    machines = []
    for node_set in node_sets:
        amounts = {CPU: 0, MEMORY: 0}
        for resource in node_set.iterfind("res"):
            name = plain_words(resource.get("type", ""), 40)
            instances = resource.findall("instance") or [resource]
            amounts[name] = amounts.get(name, 0) + sum(number(instance, "amount", least=0) for instance in instances)
        other_resources |= amounts.keys() - {CPU, MEMORY}
        machines.append(MachineSet(number(node_set, "numnodes", 1, MOST_NODES), amounts[CPU], amounts[MEMORY]))
    return tuple(machines)
