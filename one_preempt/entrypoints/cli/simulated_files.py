"""The files that `simulate` writes, and whether they can be written: asked before hours are spent."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from one_preempt.entrypoints.cli.simulated_results import record_lines, report, rows_of, write_pictures
from one_preempt.entrypoints.cli.simulated_runs import Run, Study
from one_preempt.errors import OnePreemptError
from one_preempt.simulation.probes.writing import csv_text


class SimulatedFiles(Struct, frozen=True):
    """Those that are asked for."""

    csv_file: Path | None
    records: Path | None
    plots: Path | None
    html_file: Path | None

    @property
    def show_hosts(self) -> bool:
        """Is drawn who was where?"""
        return self.plots is not None or self.html_file is not None

    def require_places(self, read: Sequence[Path]) -> None:
        """Each can be written, over nothing that was read. Raises `OnePreemptError`."""
        written = [file for file in (self.csv_file, self.records, self.html_file) if file is not None]
        _require_folders(written)
        _require_others(read, written)
        if self.plots is not None:
            _require_pictures(self.plots)

    def write(self, chosen: Study, runs: Sequence[Run]) -> None:
        """All of them."""
        if self.csv_file is not None:
            self.csv_file.write_text(csv_text(rows_of(runs)), encoding="utf-8")
        if self.records is not None:
            self.records.write_bytes(b"".join(record_lines(runs)))
        if self.plots is not None:
            write_pictures(chosen, runs, self.plots)
        if self.html_file is not None:
            self.html_file.write_text(report(chosen, runs), encoding="utf-8")


_OPTIONS = (
    click.option("--csv", "csv_file", type=click.Path(path_type=Path, dir_okay=False), help="Write one row per run."),
    click.option(
        "--records", type=click.Path(path_type=Path, dir_okay=False), help="Write one line of JSON per request."
    ),
    click.option(
        "--plots", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Write pictures (SVG)."
    ),
    click.option("--html", "html_file", type=click.Path(path_type=Path, dir_okay=False), help="Write a report."),
)


def file_options(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the options that name them; it is called with `files`."""

    @wraps(command)
    def with_files(**given: Any) -> int:
        return command(files=SimulatedFiles(*map(given.pop, SimulatedFiles.__struct_fields__)), **given)

    for option in reversed(_OPTIONS):
        with_files = option(with_files)
    return with_files


def _require_folders(files: Sequence[Path]) -> None:
    """Is there where to write them?"""
    for file in files:
        if not os.access(file if file.exists() else file.parent, os.W_OK):
            raise OnePreemptError(f"{file} cannot be written: make the folder {file.parent}, or name one of yours")


def _require_others(read: Sequence[Path], written: Sequence[Path]) -> None:
    """What is written is written over nothing that was read, nor over what was written just before."""
    taken = {_file_of(path): "is read by this simulation" for path in read}
    for path in written:
        if path.exists() and not path.is_file():
            # A device or a pipe takes whatever comes.
            continue
        if (why := taken.get(_file_of(path))) is not None:
            raise OnePreemptError(f"{path} {why}, and would be written over: name another file")
        taken[_file_of(path)] = "is named for two answers"


def _file_of(path: Path) -> tuple[int, int] | Path:
    """The same for all names of a file, where there is one."""
    try:
        there = path.stat()
    except OSError:
        return path.resolve()
    return there.st_dev, there.st_ino


def _require_pictures(folder: Path) -> None:
    """The folder is there, and pictures can be written into it and over those that are there."""
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OnePreemptError(f"no pictures can be written into {folder}: name a folder of yours")
    for picture in sorted(folder.glob("*.svg")):
        if not (picture.is_file() and os.access(picture, os.W_OK)):
            raise OnePreemptError(f"{picture} cannot be written over: name another folder, or remove it")
