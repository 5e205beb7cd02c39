"""Haizea's Lease Workload Format, written: what `lwf` reads comes out again, and Haizea understands the file.

What the format has no word for (the lease type, where a request comes from, ...) stands under ``<extra>``, which Haizea
passes by.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lxml import etree
from lxml.etree import SubElement, _Element

from one_preempt.simulation.workload.lwf import CPU, MEMORY
from one_preempt.simulation.workload.lwf_elements import (
    EXTERNAL,
    GROUP,
    LEASE_TYPE,
    MAX_SUSPENSIONS,
    QUEUE,
    UNKNOWN_DURATION,
    Extra,
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
    element = SubElement(parent, "lease-request", arrival=clock_text(request.submitted_at_s))
    if request.actual_duration_s != request.planned_duration_s:
        SubElement(element, "realduration", time=clock_text(request.actual_duration_s))
    lease = SubElement(element, "lease", id=str(request.id), preemptible=str(request.preemptable).lower())
    if request.user != UNKNOWN_ID:
        lease.set("user", str(request.user))
    _add_machines(lease, request.vm_sets)
    exact = None if request.start_at_s is None else clock_text(request.start_at_s)
    add_start(lease, exact, now=request.start is StartKind.IMMEDIATE)
    SubElement(lease, "duration", time=clock_text(request.planned_duration_s))
    if request.deadline_at_s is not None:
        SubElement(lease, "deadline", time=clock_text(request.deadline_at_s))
    add_software(lease, request.image, request.image_mib)
    add_extra(lease, extra_of(request))


def add_start(parent: _Element, exact: str | None, *, now: bool) -> None:
    """A <start>: at an instant, at once, or when there is room."""
    start = SubElement(parent, "start")
    if now:
        SubElement(start, "now")
    elif exact is not None:
        SubElement(start, "exact", time=exact)


def add_software(parent: _Element, image: str, image_mib: int) -> None:
    """A <software>: the disk image, or none."""
    software = SubElement(parent, "software")
    if image:
        SubElement(software, "disk-image", id=image, size=str(image_mib))
    else:
        SubElement(software, "none")


def extra_of(request: WorkloadRequest) -> Extra:
    """What a request has that Haizea has no word for."""
    return Extra(
        lease_type=request.lease_type,
        external=request.external,
        max_suspensions=request.max_suspensions,
        group=None if request.group == UNKNOWN_ID else request.group,
        queue=None if request.queue == UNKNOWN_ID else request.queue,
        unknown_duration=request.requested_duration_s is None,
    )


def add_extra(parent: _Element, said: Extra) -> None:
    """An <extra> with what is said."""
    extra = SubElement(parent, "extra")
    values = (
        (LEASE_TYPE, said.lease_type),
        (EXTERNAL, "yes" if said.external else None),
        (UNKNOWN_DURATION, "yes" if said.unknown_duration else None),
        (MAX_SUSPENSIONS, said.max_suspensions),
        (GROUP, said.group),
        (QUEUE, said.queue),
    )
    for name, value in values:
        if value is not None:
            SubElement(extra, "attr", name=name, value=str(value))


def _add_machines(parent: _Element, machines: Iterable[MachineSet]) -> None:
    nodes = SubElement(parent, "nodes")
    for machine_set in machines:
        node_set = SubElement(nodes, "node-set", numnodes=str(machine_set.count))
        SubElement(node_set, "res", type=CPU, amount=str(machine_set.cpu_centi))
        SubElement(node_set, "res", type=MEMORY, amount=str(machine_set.memory_mib))


def clock_text(duration_s: int) -> str:
    """``hh:mm:ss.00`` as Haizea writes times, with days in front where there are any."""
    days, rest_s = divmod(duration_s, SECONDS_PER_DAY)
    hours, minutes = rest_s // SECONDS_PER_HOUR, rest_s // 60 % 60
    clock = f"{hours:02}:{minutes:02}:{rest_s % 60:02}.00"
    return f"{days:02}:{clock}" if days else clock
