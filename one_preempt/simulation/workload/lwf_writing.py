"""Haizea's Lease Workload Format, written: what `lwf` reads comes out again, and Haizea understands the file.

What the format has no word for (the lease type, where a request comes from, ...) stands under ``<extra>``, which Haizea
passes by.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lxml import etree
from lxml.etree import SubElement, _Element

from one_preempt.simulation.workload.lwf import (
    CPU,
    EXTERNAL,
    GROUP,
    LEASE_TYPE,
    MAX_SUSPENSIONS,
    MEMORY,
    QUEUE,
    UNKNOWN_DURATION,
)
from one_preempt.simulation.workload.trace_files import write_trace
from one_preempt.simulation.workload.workload import (
    SECONDS_PER_DAY,
    SECONDS_PER_HOUR,
    UNKNOWN_ID,
    MachineSet,
    StartKind,
    Workload,
    WorkloadRequest,
)


def write_lwf(workload: Workload, path: Path | str) -> None:
    """Write a workload, compressed where the name ends in ``.gz``; the same workload gives the same bytes.

    Raises:
        OnePreemptError: The file cannot be written.
    """
    write_trace(path, format_lwf(workload))


def format_lwf(workload: Workload) -> bytes:
    """A workload as a document."""
    root = etree.Element("lease-workload", name=workload.name)
    SubElement(root, "description").text = "; ".join(workload.provenance)
    if workload.site:
        site = SubElement(root, "site")
        SubElement(site, "resource-types", names=f"{CPU} {MEMORY}")
        _add_machines(site, workload.site)
    requests = SubElement(root, "lease-requests")
    for request in workload.requests:
        _add_request(requests, request)
    document: bytes = etree.tostring(root, xml_declaration=True, encoding="UTF-8", pretty_print=True)
    return document


def _add_request(parent: _Element, request: WorkloadRequest) -> None:
    element = SubElement(parent, "lease-request", arrival=_clock(request.submitted_at_s))
    if request.actual_duration_s != request.planned_duration_s:
        SubElement(element, "realduration", time=_clock(request.actual_duration_s))
    lease = SubElement(element, "lease", id=str(request.id), preemptible=str(request.preemptable).lower())
    if request.user != UNKNOWN_ID:
        lease.set("user", str(request.user))
    _add_machines(lease, request.vm_sets)
    start = SubElement(lease, "start")
    if request.start is StartKind.IMMEDIATE:
        SubElement(start, "now")
    elif request.start_at_s is not None:
        SubElement(start, "exact", time=_clock(request.start_at_s))
    SubElement(lease, "duration", time=_clock(request.planned_duration_s))
    if request.deadline_at_s is not None:
        SubElement(lease, "deadline", time=_clock(request.deadline_at_s))
    software = SubElement(lease, "software")
    if request.image:
        SubElement(software, "disk-image", id=request.image, size=str(request.image_mib))
    else:
        SubElement(software, "none")
    extra = SubElement(lease, "extra")
    for name, value in _extra_attributes(request):
        SubElement(extra, "attr", name=name, value=value)


def _extra_attributes(request: WorkloadRequest) -> Iterable[tuple[str, str]]:
    yield LEASE_TYPE, request.lease_type.value
    if request.external:
        yield EXTERNAL, "yes"
    if request.requested_duration_s is None:
        yield UNKNOWN_DURATION, "yes"
    if request.max_suspensions is not None:
        yield MAX_SUSPENSIONS, str(request.max_suspensions)
    if request.group != UNKNOWN_ID:
        yield GROUP, str(request.group)
    if request.queue != UNKNOWN_ID:
        yield QUEUE, str(request.queue)


def _add_machines(parent: _Element, machines: Iterable[MachineSet]) -> None:
    nodes = SubElement(parent, "nodes")
    for machine_set in machines:
        node_set = SubElement(nodes, "node-set", numnodes=str(machine_set.count))
        SubElement(node_set, "res", type=CPU, amount=str(machine_set.cpu_centi))
        SubElement(node_set, "res", type=MEMORY, amount=str(machine_set.memory_mib))


def _clock(duration_s: int) -> str:
    """``hh:mm:ss.00`` as Haizea writes times, with days in front where there are any."""
    days, rest_s = divmod(duration_s, SECONDS_PER_DAY)
    hours, minutes = rest_s // SECONDS_PER_HOUR, rest_s // 60 % 60
    clock = f"{hours:02}:{minutes:02}:{rest_s % 60:02}.00"
    return f"{days:02}:{clock}" if days else clock
