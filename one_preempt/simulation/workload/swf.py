"""The Standard Workload Format of the Parallel Workloads Archive, version 2.2, read and written.

One job a line with 18 numbers, -1 where one is unknown; lines with a leading ``;`` are comments, of which those of the
form ``; Label: value`` describe the machine. `swf_workload` makes a workload out of a log.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Mapping, Sequence
from enum import IntEnum
from pathlib import Path

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from one_preempt.core.model.plain_words import plain_words
from one_preempt.simulation.workload.trace_files import (
    BadLineCounter,
    ByteStream,
    blocks_of_lines,
    open_trace,
    write_trace,
)

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

_GREATEST_VALUE = 10.0**12  # exact as a float, and so are products with what a reading multiplies by
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


class SwfField(IntEnum):
    """The columns of a job; its number in the format's description is one more. Times in s, memory in KiB."""

    JOB_NUMBER = 0
    SUBMIT_TIME = 1
    WAIT_TIME = 2
    RUN_TIME = 3
    ALLOCATED_PROCESSORS = 4
    AVERAGE_CPU_TIME = 5
    USED_MEMORY = 6
    REQUESTED_PROCESSORS = 7
    REQUESTED_TIME = 8
    REQUESTED_MEMORY = 9
    STATUS = 10
    USER = 11
    GROUP = 12
    EXECUTABLE = 13
    QUEUE = 14
    PARTITION = 15
    PRECEDING_JOB = 16
    THINK_TIME = 17

    @property
    def title(self) -> str:
        """How a message names it: ``field 4 (run time)``."""
        return f"field {self + 1} ({self.name.lower().replace('_', ' ')})"


class SwfStatus(IntEnum):
    """Field 11. A job that was checkpointed has one line of its own and a PARTIAL line for each of its runs."""

    UNKNOWN = -1
    FAILED = 0
    COMPLETED = 1
    PARTIAL = 2
    LAST_PARTIAL_COMPLETED = 3
    LAST_PARTIAL_FAILED = 4
    CANCELLED = 5


PARTIAL_RUNS = (SwfStatus.PARTIAL, SwfStatus.LAST_PARTIAL_COMPLETED, SwfStatus.LAST_PARTIAL_FAILED)
_MAY_BE_FRACTIONS = (SwfField.AVERAGE_CPU_TIME, SwfField.USED_MEMORY)
_MUST_BE_KNOWN = (SwfField.JOB_NUMBER, SwfField.SUBMIT_TIME)


class SwfHeader(Struct, frozen=True):
    """All comments of a log in their order, without the semicolon: conditions of use stay with every copy."""

    lines: tuple[str, ...] = ()

    def texts(self, label: str) -> tuple[str, ...]:
        """The values of ``; label: value``, in their order."""
        parts = (line.partition(":") for line in self.lines)
        return tuple(text.strip() for name, _, text in parts if name.strip().lower() == label.lower())

    def number(self, label: str) -> int | None:
        """The whole number that the first value of `label` begins with, 1,152 as well; None where there is none."""
        found = re.match(r"\d{1,3}(?:,\d{3}){1,4}(?!\d)|\d{1,15}", next(iter(self.texts(label)), ""))
        return int(found[0].replace(",", "")) if found else None

    @property
    def max_nodes(self) -> int | None:
        """Nodes of the machine."""
        return self.number("MaxNodes")

    @property
    def max_procs(self) -> int | None:
        """Processors of the machine."""
        return self.number("MaxProcs")

    @property
    def unix_start_time(self) -> int | None:
        """Seconds since the epoch at submit time 0."""
        return self.number("UnixStartTime")

    @property
    def queue_names(self) -> Mapping[int, str]:
        """Names of queues by their numbers in field 15."""
        found = (re.match(r"(\d{1,15})\s+(\S+)", text) for text in self.texts("Queue"))
        return {int(match[1]): match[2] for match in found if match is not None}


class SwfLog(Struct, frozen=True, eq=False):
    """A log as it stands: `jobs` has shape (jobs, 18), columns as `SwfField`; `bad_lines` were left out."""

    header: SwfHeader
    jobs: FloatArray
    source: str = ""
    bad_lines: int = 0

    def column(self, name: SwfField) -> IntArray:
        """One column in whole numbers."""
        return self.jobs[:, name].astype(np.int64)


def read_swf(path: Path | str, skip_bad_lines: bool = False) -> SwfLog:
    """The log in a file, plain or compressed with gzip.

    Args:
        path: Where it is.
        skip_bad_lines: Leave out and count what is not of the format, instead of refusing the file.

    Raises:
        OnePreemptError: The file cannot be read or, without `skip_bad_lines`, a line is bad: file, line and field.
    """
    with open_trace(path) as stream:
        return parse_swf(stream, str(path), skip_bad_lines)


def parse_swf(stream: ByteStream, source: str, skip_bad_lines: bool = False) -> SwfLog:
    """The log in a stream of bytes, read once, a block at a time. `source` names it in messages; see `read_swf`."""
    comments: list[str] = []
    bad = BadLineCounter(source, skip_bad_lines)
    parts = [_parse_block(lines, first, comments, bad) for first, lines in blocks_of_lines(stream, source)]
    jobs = np.concatenate([np.empty((0, len(SwfField))), *(rows for rows, _ in parts)])
    numbers = np.concatenate([np.empty(0, dtype=np.int64), *(lines for _, lines in parts)])
    once = _first_of_each_job(jobs, numbers, bad)
    return SwfLog(SwfHeader(tuple(comments)), jobs[once], source, bad.count)


def _parse_block(
    lines: Sequence[bytes], first: int, comments: list[str], bad: BadLineCounter
) -> tuple[FloatArray, IntArray]:
    """The good jobs of a block and the numbers of their lines; comments are added to `comments`."""
    texts: list[str] = []
    numbers: list[int] = []
    for number, line in enumerate(lines, first):
        bare = line.removeprefix(BOM_UTF8) if number == 1 else line
        text = bare.decode("latin-1")
        if not text or text.isspace():
            continue
        if bare.lstrip().startswith(b";"):
            comments.append(_comment(bare))
        else:
            texts.append(text)
            numbers.append(number)
    line_numbers = np.array(numbers, dtype=np.int64)
    rows = _rows(texts)
    if rows is None:
        rows, line_numbers = _rows_one_by_one(texts, line_numbers, bad)
    good = ~_unusable(rows).any(axis=1)
    for index in np.flatnonzero(~good).tolist():
        bad.add(int(line_numbers[index]), _what_is_unusable(rows[index]))
    return rows[good], line_numbers[good]


def _comment(line: bytes) -> str:
    body = line.lstrip()[1:].rstrip(b"\r")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return body.decode("latin-1")


def _rows(texts: Sequence[str]) -> FloatArray | None:
    """All lines at once, or None where at least one has not 18 numbers."""
    if not texts:
        return np.empty((0, len(SwfField)))
    try:
        rows = np.loadtxt(texts, dtype=np.float64, comments=None, ndmin=2)
    except ValueError:
        return None
    return rows if rows.shape == (len(texts), len(SwfField)) else None


def _rows_one_by_one(texts: Sequence[str], line_numbers: IntArray, bad: BadLineCounter) -> tuple[FloatArray, IntArray]:
    rows: list[list[float]] = []
    good: list[int] = []
    for text, number in zip(texts, line_numbers.tolist(), strict=True):
        words = text.split()
        wrong = next((index for index, word in enumerate(words) if not _NUMBER.fullmatch(word)), None)
        if len(words) != len(SwfField):
            bad.add(number, f"{len(words)} fields where a job has {len(SwfField)}: '{plain_words(text, 60)}'")
        elif wrong is not None:
            bad.add(number, f"{SwfField(wrong).title}: '{plain_words(words[wrong], 40)}' is not a number")
        else:
            rows.append([float(word) for word in words])
            good.append(number)
    return np.array(rows, dtype=np.float64).reshape(-1, len(SwfField)), np.array(good, dtype=np.int64)


def _unusable(rows: FloatArray) -> BoolArray:
    """Which values no log may have, in the shape of `rows`; NaN is among them."""
    unusable = ~((rows >= -1) & (rows <= _GREATEST_VALUE))
    fractions = rows != np.floor(rows)
    fractions[:, _MAY_BE_FRACTIONS] = False
    unusable |= fractions
    for known in _MUST_BE_KNOWN:
        unusable[:, known] |= rows[:, known] < 0
    return unusable


def _what_is_unusable(row: FloatArray) -> str:
    name = SwfField(int(np.argmax(_unusable(row[np.newaxis])[0])))
    least = 0 if name in _MUST_BE_KNOWN else -1
    kind = "number" if name in _MAY_BE_FRACTIONS else "whole number"
    unknown = "" if name in _MUST_BE_KNOWN else " (-1: unknown)"
    return f"{name.title}: {row[name]:.15g} is not a {kind} from {least} to {_GREATEST_VALUE:.0e}{unknown}"


def _first_of_each_job(jobs: FloatArray, line_numbers: IntArray, bad: BadLineCounter) -> BoolArray:
    """Rows of the log without those that repeat a job number; partial runs repeat theirs by right."""
    kept = np.isin(jobs[:, SwfField.STATUS], PARTIAL_RUNS)
    own_lines = np.flatnonzero(~kept)
    _, first_rows = np.unique(jobs[own_lines, SwfField.JOB_NUMBER], return_index=True)
    kept[own_lines[first_rows]] = True
    for row in np.flatnonzero(~kept).tolist():
        number = int(jobs[row, SwfField.JOB_NUMBER])
        bad.add(int(line_numbers[row]), f"{SwfField.JOB_NUMBER.title}: {number} was the number of an earlier job")
    return kept


def write_swf(log: SwfLog, path: Path | str) -> None:
    """Write a log, compressed where the name ends in ``.gz``; the same log gives the same bytes.

    Raises:
        OnePreemptError: The file cannot be written.
    """
    write_trace(path, format_swf(log).encode("utf-8"))


def format_swf(log: SwfLog) -> str:
    """A log as text: the comments, then the jobs in their order."""
    columns = (map(str, _shortest(log.jobs[:, name], name)) for name in SwfField)
    comments = "".join(f";{line}\n" for line in log.header.lines)
    return comments + "".join(" ".join(words) + "\n" for words in zip(*columns, strict=True))


def _shortest(column: FloatArray, name: SwfField) -> list[int] | list[int | float]:
    if name not in _MAY_BE_FRACTIONS:
        whole: list[int] = column.astype(np.int64).tolist()
        return whole
    return [int(value) if value.is_integer() else value for value in column.tolist()]
