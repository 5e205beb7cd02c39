"""The daemon's log where it cannot be written."""

from __future__ import annotations

import errno
import io
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import pytest

from one_preempt.adapters.daemon_socket.line_socket import LineSocket
from one_preempt.adapters.held_capacity import HeldCapacityFile
from one_preempt.configuration.settings import LogSettings
from one_preempt.core.model.held_room import HeldRoom
from one_preempt.entrypoints.cli.command_line import cli
from one_preempt.entrypoints.daemon_log import LOGGER, log_to
from one_preempt.errors import OnePreemptError


@pytest.fixture(autouse=True)
def logger_as_it_was() -> Iterator[None]:
    handlers, level, propagates = LOGGER.handlers[:], LOGGER.level, LOGGER.propagate
    yield
    for handler in LOGGER.handlers:
        with suppress(OSError):  # what the full disk did not take is tried a last time
            handler.close()
    LOGGER.handlers[:], LOGGER.propagate = handlers, propagates
    LOGGER.setLevel(level)


def test_on_a_full_disk_each_line_goes_to_standard_error_as_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    log_to(LogSettings(file="/dev/full"))
    LOGGER.warning("VM 7 waits")
    LOGGER.warning("VM 8 waits")
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("WARNING VM 7 waits (not in /dev/full: No space left on device)")
    assert "VM 8 waits" in second


@pytest.mark.parametrize("file", [None, "/dev/full"])
def test_a_line_that_can_be_written_nowhere_is_lost_in_silence(
    file: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    log_to(LogSettings(file=file))
    LOGGER.warning("VM 7 waits")


@pytest.mark.parametrize("is_journal", [True, False])
def test_the_journal_and_nobody_else_reads_the_priority_of_each_line(
    is_journal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "stderr").open("w") as stderr:
        is_the_journal(stderr, monkeypatch)
        if not is_journal:
            monkeypatch.setenv("JOURNAL_STREAM", os.environ["JOURNAL_STREAM"] + "0")
        log_to(LogSettings(level="debug"))
        for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL):
            LOGGER.log(level, "two\nlines")
    lines = (tmp_path / "stderr").read_text().splitlines()
    assert len(lines) == 10
    found = [re.findall(r"^<([0-7])>", line) for line in lines]
    assert found == ([[one] for one in "7766443322"] if is_journal else [[]] * 10)


def is_the_journal(stderr: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = os.fstat(stderr.fileno())
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setenv("JOURNAL_STREAM", f"{stream.st_dev}:{stream.st_ino}")


@pytest.mark.parametrize("file", [None, "/dev/full"])
def test_the_journal_dates_lines_itself(file: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "stderr").open("w") as stderr:
        is_the_journal(stderr, monkeypatch)
        log_to(LogSettings(file=file))
        LOGGER.warning("VM 7 waits")
    assert (tmp_path / "stderr").read_text().startswith("<4>WARNING VM 7 waits")


@pytest.mark.parametrize(
    "write",
    [
        lambda path: log_to(LogSettings(file=str(path))),
        lambda path: LineSocket(lambda line, uid: {}, 0o600, "socket.path", 1.0, 1).listening(path).__enter__(),
        lambda path: HeldCapacityFile(path).replace([HeldRoom(1, 1, 1, 1, 1)]),
    ],
    ids=["log", "socket", "held capacity"],
)
def test_who_is_shut_in_by_systemd_reads_how_to_open_a_folder(
    write: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object, **_named: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    for opener in ("builtins.open", "os.open", "socket.socket.bind"):
        monkeypatch.setattr(opener, refuse)
    with pytest.raises(OnePreemptError, match=r"Read-only file system; .*ReadWritePaths.*; see \w+\.\w+$"):
        write(tmp_path / "outside")


def test_why_a_service_does_not_start_is_an_error_in_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = tmp_path / "one_preempt.conf"
    wrong.write_text("nonsense: 1\n")
    with (tmp_path / "stderr").open("w") as stderr:
        is_the_journal(stderr, monkeypatch)
        with pytest.raises(SystemExit) as ended:
            cli.main(["daemon", "--config", str(wrong)])
    assert ended.value.code == 1
    assert (tmp_path / "stderr").read_text() == f"<3>Error: {wrong}: unknown key `nonsense`\n"
