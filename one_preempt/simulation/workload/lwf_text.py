"""Haizea's old plain-text lease workloads, read: the form of its injected advance reservations.

One lease a line, comments with ``#``: submission, start (-1: best-effort), duration, real duration (all in s), nodes,
CPUs a node, MiB a node, MiB of disk, image, MiB of the image. An advance reservation cannot be preempted.
"""

from __future__ import annotations

import re
from pathlib import Path

from one_preempt.core.model.lease import LeaseType
from one_preempt.core.model.plain_words import plain_words
from one_preempt.simulation.workload.trace_files import BadLineCounter, ByteStream, blocks_of_lines, open_trace
from one_preempt.simulation.workload.workload import (
    LONGEST_S,
    MOST_MACHINES,
    LeftOut,
    MachineSet,
    StartKind,
    Workload,
    WorkloadRequest,
)

_FIELDS = (
    "submission", "start", "duration", "real duration", "nodes", "CPUs", "memory", "disk", "image", "image size",
)  # fmt: skip
_IMAGE = _FIELDS.index("image")
_WHOLE_NUMBER = re.compile(r"-?\d{1,12}", re.ASCII)
_GREATEST = 10**12 - 1
# From where to where a field goes; a start may lie before instant 0.
_BOUNDS = dict.fromkeys(_FIELDS, (0, _GREATEST)) | {
    "start": (-_GREATEST, _GREATEST), "duration": (1, LONGEST_S), "nodes": (1, MOST_MACHINES),
    "CPUs": (1, _GREATEST), "memory": (1, _GREATEST),
}  # fmt: skip


def read_lwf_text(path: Path | str, skip_bad_lines: bool = False) -> Workload:
    """The workload in a file, plain or compressed with gzip; requests are numbered from 1 by their lines, bad ones
    counted, comments not.

    Haizea's generator drew some starts before instant 0: they are moved to it.

    Args:
        path: Where it is.
        skip_bad_lines: Leave out and count what is not of the format, instead of refusing the file.

    Raises:
        OnePreemptError: The file cannot be read or, without `skip_bad_lines`, a line is bad: file, line and field.
    """
    with open_trace(path) as stream:
        return parse_lwf_text(stream, str(path), skip_bad_lines)


def parse_lwf_text(stream: ByteStream, source: str, skip_bad_lines: bool = False) -> Workload:
    """The workload in a stream of bytes. `source` names it in messages; see `read_lwf_text`."""
    bad = BadLineCounter(source, skip_bad_lines)
    requests: list[WorkloadRequest] = []
    id = 0
    for first, lines in blocks_of_lines(stream, source):
        for line_number, line in enumerate(lines, first):
            words = line.decode("latin-1").split()
            if not words or words[0].startswith("#"):
                continue
            # A bad line has its number, too: who annotates the others by theirs means the same ones.
            id += 1
            try:
                requests.append(_request(id, words))
            except ValueError as error:
                bad.add(line_number, str(error))
    left_out = (LeftOut("bad lines", bad.count),) if bad.count else ()
    return Workload(tuple(requests), source, provenance=(f"read from {source}",), left_out=left_out)


def _request(id: int, words: list[str]) -> WorkloadRequest:
    if len(words) != len(_FIELDS):
        raise ValueError(f"{len(words)} fields where a lease has {len(_FIELDS)}: '{plain_words(' '.join(words), 60)}'")
    for index, word in enumerate(words):
        if index == _IMAGE:
            continue
        least, most = _BOUNDS[_FIELDS[index]]
        if not _WHOLE_NUMBER.fullmatch(word) or not least <= int(word) <= most:
            raise ValueError(
                f"field {index + 1} ({_FIELDS[index]}): '{plain_words(word, 40)}' is not a whole number from {least} "
                f"to {most}"
            )
    submitted_s, start_s, duration_s, real_s, nodes, cpus, memory_mib, _ = map(int, words[:_IMAGE])
    reserved = start_s != -1
    return WorkloadRequest(
        id=id,
        submitted_at_s=submitted_s,
        vm_sets=(MachineSet(nodes, 100 * cpus, memory_mib),),
        requested_duration_s=duration_s,
        actual_duration_s=real_s,
        start=StartKind.EXACT if reserved else StartKind.BEST_EFFORT,
        start_at_s=max(0, start_s) if reserved else None,
        lease_type=LeaseType.DC_NON_PREEMPTABLE if reserved else LeaseType.BE_SUSPENDABLE,
        image=plain_words(words[_IMAGE].strip("'"), 200),
        image_mib=int(words[-1]),
    )
