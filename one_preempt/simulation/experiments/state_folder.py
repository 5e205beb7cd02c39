"""Where results of an experiment are kept as they come, so that one that was ended goes on where it was.

`identity.json` says what was run; `results.jsonl` has a line a task. A line that was not written to its end is dropped.
When all are there the lines are put into the order of the tasks: however many processes and attempts it took, the
bytes are the same.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from one_preempt import __version__
from one_preempt.errors import OnePreemptError
from one_preempt.simulation.experiments.replicated import ReplicatedExperiment, Task, TaskResult

IDENTITY, RESULTS = "identity.json", "results.jsonl"


class StateFolder(Struct, frozen=True):
    """The folder of one experiment, full or small. Open it with `opened`."""

    path: Path

    def load(self) -> dict[Task, TaskResult]:
        """What was written so far. Raises `OnePreemptError` where somebody else wrote into it."""
        if not self._results.exists():
            return {}
        whole = self._results.read_bytes()
        lines = whole[: whole.rfind(b"\n") + 1]
        if len(lines) < len(whole):
            os.truncate(self._results, len(lines))
        try:
            return {result.task: result for result in map(_result, lines.splitlines())}
        except ValueError as error:
            raise OnePreemptError(f"{self._results}: holds what is no result: remove {self.path}") from error

    def append(self, result: TaskResult) -> None:
        """Keep a result, on disk when this returns."""
        is_new = not self._results.exists()
        with self._results.open("ab") as file:
            _write_through(file, _line(result))
        if is_new:
            self._keep_names()

    def finish(self, results: Sequence[TaskResult]) -> None:
        """All results in the order of their tasks."""
        whole = b"".join(map(_line, results))
        if self._results.read_bytes() != whole:
            self.write(RESULTS, whole)

    def write(self, name: str, content: bytes) -> None:
        """A file beside the results, all of it or none, on disk when this returns."""
        unfinished = self.path / f".{name}.new"
        # A name that is on disk before its content would stand for an empty file where the power goes.
        with unfinished.open("wb") as file:
            _write_through(file, content)
        unfinished.replace(self.path / name)
        self._keep_names()

    def _keep_names(self) -> None:
        """Which names stand for which files is on disk when this returns."""
        folder = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @property
    def _results(self) -> Path:
        return self.path / RESULTS


@contextmanager
def opened(path: Path, experiment: ReplicatedExperiment, small: bool) -> Iterator[StateFolder]:
    """The folder for this experiment alone, made where there is none.

    Raises `OnePreemptError` where it holds results of something else, or another process writes into it.
    """
    path.mkdir(parents=True, exist_ok=True)
    with (path / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OnePreemptError(
                f"{path}: another process runs this experiment: wait for it or name another folder"
            ) from error
        folder = StateFolder(path)
        _identify(folder, _identity(experiment, small))
        yield folder


def lent(path: Path, experiment: ReplicatedExperiment, small: bool) -> dict[Task, TaskResult]:
    """What there is so far in the folder of another experiment; nothing where it is not that experiment's."""
    try:
        if (path / IDENTITY).read_bytes() != _identity(experiment, small):
            return {}
        lines = (path / RESULTS).read_bytes().splitlines(keepends=True)
        return {result.task: result for result in map(_result, (one for one in lines if one.endswith(b"\n")))}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        # It is told to whoever runs that one.
        return {}


def _identity(experiment: ReplicatedExperiment, small: bool) -> bytes:
    told = {
        "experiment": experiment.name, "small": small, "version": __version__, "choices": dict(experiment.choices),
    }  # fmt: skip
    return json.dumps(told, indent=2).encode() + b"\n"


def _identify(folder: StateFolder, ours: bytes) -> None:
    file = folder.path / IDENTITY
    if not file.exists():
        folder.write(IDENTITY, ours)
    elif file.read_bytes() != ours:
        raise OnePreemptError(
            f"{folder.path}: holds results of other choices or of another version: remove it or name another folder"
        )


def _write_through(file: BinaryIO, content: bytes) -> None:
    """Write to the disk itself."""
    file.write(content)
    file.flush()
    os.fsync(file.fileno())


def _line(result: TaskResult) -> bytes:
    told = asdict(result.task) | {"figures": dict(result.figures)} | ({"code": result.code} if result.code else {})
    return json.dumps(told, separators=(",", ":")).encode() + b"\n"


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    """What a line of the results must have."""

    point: str
    replication: int
    policy: str
    small: bool
    figures: dict[str, int | float | None]
    # Earlier releases did not write it.
    code: str = ""


def _result(line: bytes) -> TaskResult:
    read = msgspec.json.decode(line, type=_Line)
    return TaskResult(Task(read.point, read.replication, read.policy, read.small), read.figures, read.code)
