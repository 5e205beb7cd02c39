"""Files of traces: plain or compressed, and how their bad lines are told."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from one_preempt.errors import OnePreemptError, cause_of

_GZIP_MAGIC = b"\x1f\x8b"
_BLOCK_BYTES = 4 << 20
_LONGEST_LINE_BYTES = 1 << 16
_LOOKED_AT_BYTES = 1024


class ByteStream(Protocol):
    """What a trace is read from."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; none at the end."""


@contextmanager
def open_trace(path: Path | str) -> Iterator[ByteStream]:
    """A file's content, unpacked where it is compressed with gzip, while the context lasts.

    Raises:
        OnePreemptError: It cannot be opened, read to its end or unpacked.
    """
    try:
        with Path(path).open("rb") as raw:
            compressed = raw.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
            raw.seek(0)
            if not compressed:
                yield raw
            else:
                with gzip.GzipFile(fileobj=raw) as unpacked:
                    yield unpacked
    except (OSError, EOFError, zlib.error) as error:
        raise OnePreemptError(f"{path}: cannot be read: {cause_of(error)}") from error


def blocks_of_lines(stream: ByteStream, source: str) -> Iterator[tuple[int, list[bytes]]]:
    """Whole lines in blocks, each with the number of its first line.

    Raises:
        OnePreemptError: A line is so long, or the beginning so little like text, that this cannot be a trace.
    """
    first, rest = 1, b""
    while block := stream.read(_BLOCK_BYTES):
        # A log that begins with a comment is one, whatever bytes somebody has left in it.
        if first == 1 and b"\0" in block[:_LOOKED_AT_BYTES] and not block.startswith(b";"):
            known = "SWF, LWF or what oneacct -x prints, plain or gzipped"
            raise OnePreemptError(f"{source}: is binary data or UTF-16. Name a trace: {known}")
        *lines, rest = (rest + block).split(b"\n")
        if len(rest) > _LONGEST_LINE_BYTES:
            raise OnePreemptError(f"{source}:{first + len(lines)}: longer than 64 KiB. Is this a trace?")
        yield first, lines
        first += len(lines)
    yield first, [rest]


def write_trace(path: Path | str, content: bytes) -> None:
    """Write a file, compressed where its name ends in ``.gz``; the same content gives the same bytes.

    Raises:
        OnePreemptError: It cannot be written.
    """
    packed = gzip.compress(content, mtime=0) if str(path).endswith(".gz") else content
    try:
        Path(path).write_bytes(packed)
    except OSError as error:
        raise OnePreemptError(f"{path}: cannot be written: {cause_of(error)}") from error


class BadLine(OnePreemptError):
    """A line of a trace is not of the format; who lets bad lines be left out adds how to the message."""


class BadLineCounter:
    """Refuses a trace at its first bad line, or counts them."""

    def __init__(self, source: str, skip: bool) -> None:
        self._source = source
        self._skip = skip
        self.count = 0

    def add(self, line_number: int, what: str) -> None:
        """Tell of one; raises `BadLine` unless bad lines are skipped."""
        if not self._skip:
            raise BadLine(f"{self._source}:{line_number}: {what}. Mend the line")
        self.count += 1
