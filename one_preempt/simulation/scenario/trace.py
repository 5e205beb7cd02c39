"""A trace of any format as a workload: told by its name, else by its root element if it is XML."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from one_preempt.errors import OnePreemptError
from one_preempt.simulation.workload.accounting import read_accounting_file
from one_preempt.simulation.workload.accounting_records import ROOT
from one_preempt.simulation.workload.annotation_files import annotated, read_annotations
from one_preempt.simulation.workload.lwf import LEASE_WORKLOAD, read_lwf
from one_preempt.simulation.workload.lwf_text import read_lwf_text
from one_preempt.simulation.workload.scaling import (
    with_durations_scaled,
    with_load_scaled,
    with_overruns_cut,
    with_sizes_scaled,
)
from one_preempt.simulation.workload.swf import read_swf
from one_preempt.simulation.workload.swf_workload import SwfReading, workload_from_swf
from one_preempt.simulation.workload.trace_files import open_trace
from one_preempt.simulation.workload.workload import MOST_MACHINES, Workload

_LOOKED_AT_BYTES = 4096
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# What may stand before the root element; possessive, so that nothing makes it look back.
_ROOT_TAG = re.compile(rb"(?:\s++|<\?(?s:.*?)\?>|<!--(?s:.*?)-->)*+<([A-Za-z_][A-Za-z0-9_.-]*+)")


class SourceKind(StrEnum):
    """What a file holds."""

    SWF = "SWF"
    LWF = "LWF"
    ACCOUNTING = "accounting"
    SCENARIO = "scenario"


class TraceReading(Struct, frozen=True):
    """How a trace is read, and what is done to it, in this order.

    Attributes:
        swf: For logs alone; a reading that says something is refused with other traces.
        skip_bad_lines: What does not have the format is left out and counted.
        cut_overruns: Requests end at their requested time.
        annotations: A file (LWFA) with what the trace does not say.
        load_factor, size_factor, duration_factor: Arrivals so much denser, requests of so many times the VMs, and so
            many times as long.
    """

    swf: SwfReading = SwfReading()
    skip_bad_lines: bool = False
    cut_overruns: bool = False
    annotations: Path | None = None
    load_factor: float = 1.0
    size_factor: float = 1.0
    duration_factor: float = 1.0


def kind_of(path: Path) -> SourceKind:
    """By its name where that ends in .yaml, .yml, .lwf or .swf (.gz behind it or not), else by how it begins.

    XML is accounting if its root element says so, or its name ends in .xml and it is no lease workload. Raises
    `OnePreemptError` where it cannot be read.
    """
    suffix = path.with_suffix("").suffix if path.suffix.lower() == ".gz" else path.suffix
    by_name = {
        ".yaml": SourceKind.SCENARIO,
        ".yml": SourceKind.SCENARIO,
        ".lwf": SourceKind.LWF,
        ".swf": SourceKind.SWF,
    }
    if suffix.lower() in by_name:
        return by_name[suffix.lower()]
    beginning = _beginning(path)
    root = _ROOT_TAG.match(beginning)
    if root is not None and root[1] == ROOT.encode():
        return SourceKind.ACCOUNTING
    if suffix.lower() == ".xml" and (root is None or root[1] != LEASE_WORKLOAD.encode()):
        return SourceKind.ACCOUNTING
    return SourceKind.LWF if beginning.startswith(b"<") else SourceKind.SWF


def _beginning(path: Path) -> bytes:
    with open_trace(path) as stream:
        return stream.read(_LOOKED_AT_BYTES).removeprefix(_BYTE_ORDER_MARK).lstrip()


def read_trace(path: Path, reading: TraceReading | None = None) -> Workload:
    """The requests of a log, lease workload or accounting, annotated and scaled.

    Raises `OnePreemptError`, which names file, line and field, or what cannot be done to the requests.
    """
    reading = reading or TraceReading()
    workload = _read(path, reading)
    if reading.cut_overruns:
        workload = with_overruns_cut(workload)
    if reading.annotations is not None:
        annotations = read_annotations(reading.annotations, reading.skip_bad_lines)
        workload = annotated(workload, annotations, reading.skip_bad_lines)
    try:
        return _scaled(workload, reading)
    except ValueError as error:
        raise OnePreemptError(f"{path}: with these factors of load, size or duration, {error}") from error


def _scaled(workload: Workload, reading: TraceReading) -> Workload:
    if reading.load_factor != 1:
        workload = with_load_scaled(workload, reading.load_factor)
    if reading.size_factor != 1:
        workload = with_sizes_scaled(workload, reading.size_factor, MOST_MACHINES)
    if reading.duration_factor != 1:
        workload = with_durations_scaled(workload, reading.duration_factor)
    return workload


def _read(path: Path, reading: TraceReading) -> Workload:
    kind = kind_of(path)
    if kind is not SourceKind.SWF and reading.swf != SwfReading():
        raise OnePreemptError(
            f"{path} ({kind}) is no log (SWF): leave out processors per VM, queues and the window of submissions"
        )
    if kind is SourceKind.ACCOUNTING:
        return read_accounting_file(path, reading.skip_bad_lines)
    if kind is SourceKind.LWF:
        if _beginning(path).startswith(b"<"):
            return read_lwf(path, reading.skip_bad_lines)
        return read_lwf_text(path, reading.skip_bad_lines)
    return workload_from_swf(read_swf(path, reading.skip_bad_lines), reading.swf)
