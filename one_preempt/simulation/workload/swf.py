"""The Standard Workload Format of the Parallel Workloads Archive, version 2.2, read and written.

One job a line with 18 numbers, -1 where one is unknown; lines with a leading ``;`` are comments, of which those of the
form ``; Label: value`` describe the machine. `swf_workload` makes a workload out of a log.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

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
Column = npt.NDArray[np.float64] | npt.NDArray[np.signedinteger[Any]]

_GREATEST_VALUE = 10.0**12  # exact as a float, and so are products with what a reading multiplies by
_WHOLE: tuple[type[np.signedinteger[Any]], ...] = (np.int8, np.int16, np.int32, np.int64)
_JOBS_OF_A_PIECE = 50_000
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
    """A log as it stands: `columns` as `SwfField`, each of the smallest type that holds it; without `bad_lines`."""

    header: SwfHeader
    columns: tuple[Column, ...]
    source: str = ""
    bad_lines: int = 0

    def __len__(self) -> int:
        return len(self.columns[0])

    def column(self, name: SwfField) -> IntArray:
        """One column in whole numbers."""
        return self.columns[name].astype(np.int64)

    def pieces(self) -> Iterator[SwfLog]:
        """The log in pieces of its jobs, in their order: what is made of a long one is made of a piece at a time."""
        for first in range(0, len(self), _JOBS_OF_A_PIECE):
            yield self.only(slice(first, first + _JOBS_OF_A_PIECE))

    def only(self, rows: slice | BoolArray) -> SwfLog:
        """The same log with these jobs alone."""
        return replace(self, columns=tuple(column[rows] for column in self.columns))


def columns_of(jobs: FloatArray) -> tuple[Column, ...]:
    """The columns of a table of shape (jobs, 18)."""
    return tuple(map(_small, jobs.T))


def _small(values: FloatArray) -> Column:
    """The same values as whole numbers of as few bytes as they need, or as floats if one is a fraction."""
    whole = values.astype(np.int64)
    if not np.array_equal(whole, values):
        return np.ascontiguousarray(values)
    least, greatest = (int(whole.min()), int(whole.max())) if len(whole) else (0, 0)
    small = next(kind for kind in _WHOLE if np.iinfo(kind).min <= least and greatest <= np.iinfo(kind).max)
    return whole.astype(small)


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
    columns = tuple(np.concatenate([part[0][name] for part in parts]) for name in SwfField)
    once = _first_of_each_job(columns, np.concatenate([line_numbers for _, line_numbers in parts]), bad)
    log = SwfLog(SwfHeader(tuple(comments)), columns, source, bad.count)
    return log if once.all() else log.only(once)


def _parse_block(
    lines: Sequence[bytes], first: int, comments: list[str], bad: BadLineCounter
) -> tuple[tuple[Column, ...], IntArray]:
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
    return columns_of(rows[good]), line_numbers[good]


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


def _first_of_each_job(columns: Sequence[Column], line_numbers: IntArray, bad: BadLineCounter) -> BoolArray:
    """Rows of the log without those that repeat a job number; partial runs repeat theirs by right."""
    numbers, kept = columns[SwfField.JOB_NUMBER], np.isin(columns[SwfField.STATUS], PARTIAL_RUNS)
    own_lines = np.flatnonzero(~kept)
    _, first_rows = np.unique(numbers[own_lines], return_index=True)
    kept[own_lines[first_rows]] = True
    for row in np.flatnonzero(~kept).tolist():
        told = f"{SwfField.JOB_NUMBER.title}: {int(numbers[row])} was the number of an earlier job"
        bad.add(int(line_numbers[row]), told)
    return kept


def write_swf(log: SwfLog, path: Path | str) -> None:
    """Write a log, compressed where the name ends in ``.gz``; the same log gives the same bytes.

    Raises:
        OnePreemptError: The file cannot be written.
    """
    write_trace(path, format_swf(log).encode("utf-8"))


def format_swf(log: SwfLog) -> str:
    """A log as text: the comments, then the jobs in their order."""
    comments = "".join(f";{line}\n" for line in log.header.lines)
    columns = (map(_shortest, column.tolist()) for column in log.columns)
    return comments + "".join(" ".join(words) + "\n" for words in zip(*columns, strict=True))


def _shortest(value: float) -> str:
    return f"{int(value)}" if value == int(value) else f"{value}"
