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
from one_preempt.simulation.workload.scaling import with_overruns_cut
from one_preempt.simulation.workload.swf import read_swf
from one_preempt.simulation.workload.swf_workload import SwfReading, workload_from_swf
from one_preempt.simulation.workload.trace_files import open_trace
from one_preempt.simulation.workload.workload import Workload

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
    """How a trace is read.

    Processors a VM stands for (SWF), ends at the requested time, bad lines left out; and a file of annotations (LWFA).
    """

    processors_per_vm: int = 1
    cut_overruns: bool = False
    skip_bad_lines: bool = False
    annotations: Path | None = None


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
    """The requests of a log, lease workload or accounting, annotated.

    Raises `OnePreemptError`, which names file, line and field.
    """
    reading = reading or TraceReading()
    workload = _read(path, reading)
    if reading.cut_overruns:
        workload = with_overruns_cut(workload)
    if reading.annotations is None:
        return workload
    return annotated(workload, read_annotations(reading.annotations, reading.skip_bad_lines), reading.skip_bad_lines)


def _read(path: Path, reading: TraceReading) -> Workload:
    kind = kind_of(path)
    if kind is not SourceKind.SWF and reading.processors_per_vm != 1:
        tells = "VMs (accounting)" if kind is SourceKind.ACCOUNTING else "nodes (LWF)"
        raise OnePreemptError(f"{path} tells {tells} and not processors: leave out processors per VM")
    if kind is SourceKind.ACCOUNTING:
        return read_accounting_file(path, reading.skip_bad_lines)
    if kind is SourceKind.LWF:
        if _beginning(path).startswith(b"<"):
            return read_lwf(path, reading.skip_bad_lines)
        return read_lwf_text(path, reading.skip_bad_lines)
    return workload_from_swf(read_swf(path, reading.skip_bad_lines), SwfReading(reading.processors_per_vm))
