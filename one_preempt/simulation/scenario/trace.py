"""A trace of any format as a workload: told by its name, else by its first character, as Haizea's XML and text are."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from one_preempt.errors import OnePreemptError
from one_preempt.simulation.workload.annotation_files import annotated, read_annotations
from one_preempt.simulation.workload.lwf import read_lwf
from one_preempt.simulation.workload.lwf_text import read_lwf_text
from one_preempt.simulation.workload.swf import read_swf
from one_preempt.simulation.workload.swf_workload import SwfReading, workload_from_swf
from one_preempt.simulation.workload.trace_files import open_trace
from one_preempt.simulation.workload.workload import Workload

_LOOKED_AT_BYTES = 4096
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class SourceKind(StrEnum):
    """What a file holds."""

    SWF = "SWF"
    LWF = "LWF"
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
    """By its name where that ends in .yaml, .yml, .lwf or .swf (.gz behind it or not), else by its first character.

    Raises `OnePreemptError` where it cannot be read.
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
    return SourceKind.LWF if _begins_with_markup(path) else SourceKind.SWF


def _begins_with_markup(path: Path) -> bool:
    with open_trace(path) as stream:
        beginning = stream.read(_LOOKED_AT_BYTES).removeprefix(_BYTE_ORDER_MARK).lstrip()
    return beginning.startswith(b"<")


def read_trace(path: Path, reading: TraceReading | None = None) -> Workload:
    """The requests of an SWF or LWF file, annotated. Raises `OnePreemptError`, which names file, line and field."""
    reading = reading or TraceReading()
    workload = _read(path, reading)
    if reading.annotations is None:
        return workload
    return annotated(workload, read_annotations(reading.annotations, reading.skip_bad_lines), reading.skip_bad_lines)


def _read(path: Path, reading: TraceReading) -> Workload:
    if kind_of(path) is SourceKind.LWF:
        if reading.processors_per_vm != 1:
            raise OnePreemptError(f"{path} tells nodes (LWF) and not processors: leave out processors per VM")
        if _begins_with_markup(path):
            return read_lwf(path, reading.skip_bad_lines, reading.cut_overruns)
        return read_lwf_text(path, reading.skip_bad_lines, reading.cut_overruns)
    swf = SwfReading(processors_per_vm=reading.processors_per_vm, cut_overruns=reading.cut_overruns)
    return workload_from_swf(read_swf(path, reading.skip_bad_lines), swf)
