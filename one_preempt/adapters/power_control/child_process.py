"""Programs that are run for a bounded time, without a shell, and with an environment of their own."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from tempfile import TemporaryFile
from threading import Lock
from typing import IO

from msgspec import Struct

from one_preempt.adapters.power_control.wanted import demand_wanted

_PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "SSH_AUTH_SOCK")
_LONGEST_OUTPUT_BYTES = 16384
_SHELL_SIGNALS = 128
_LAST_SIGNAL = 64


class _Running:
    """What runs now, in whatever thread; each program leads a process group of its own."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self.ends = 0
        """How often all was ended."""

    def enter(self, process: subprocess.Popen[bytes], ends: int) -> None:
        """It was begun when all had been ended so often; killed at once where that has happened again since."""
        with self._lock:
            self._processes.add(process)
            if ends != self.ends:
                _kill(process)

    def leave(self, process: subprocess.Popen[bytes]) -> None:
        """It has ended."""
        with self._lock:
            self._processes.discard(process)

    def end(self) -> None:
        """Kill all."""
        with self._lock:
            self.ends += 1
            for process in self._processes:
                # One that runs as somebody else goes on; the others are ended all the same.
                with suppress(PermissionError):
                    _kill(process)


_running = _Running()


class NotStarted(Exception):
    """The program could not be started; the message says why."""


class TookTooLong(Exception):
    """The program did not end in time and was killed."""


class Finished(Struct, frozen=True):
    """A program that ended by itself: its exit code, and the start of what it wrote."""

    code: int
    output: str
    errors: str

    @property
    def may_be_killed(self) -> bool:
        """By a signal, itself or what it ran, as shells tell it: what it was to do may have been done before."""
        return self.code < 0 or _SHELL_SIGNALS < self.code <= _SHELL_SIGNALS + _LAST_SIGNAL


def run(arguments: Sequence[str], timeout_s: float, extra_environment: Mapping[str, str] | None = None) -> Finished:
    """Run `arguments` and wait for the end. Of our own environment only what programs need to find things goes along.

    Raises:
        NotStarted: There is no such program, or it may not be run.
        TookTooLong: It was still running after `timeout_s`; it was killed with all that it started.
        NotWanted: It was dropped before it was begun.
    """
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    environment |= {"LC_ALL": "C", **(extra_environment or {})}
    # Files and not pipes: a child of the program that lives on would keep a pipe open and us waiting.
    with TemporaryFile() as output, TemporaryFile() as errors:
        code = _exit_code(arguments, timeout_s, environment, output, errors)
        return Finished(code, _start_of(output), _start_of(errors))


def end_all() -> None:
    """Kill all that runs now, with all that it started: to whoever waits for it, it ended by signal 9."""
    _running.end()


def _exit_code(
    arguments: Sequence[str], timeout_s: float, environment: Mapping[str, str], output: IO[bytes], errors: IO[bytes]
) -> int:
    ends = _running.ends
    # Whatever is dropped from here on is ended by `enter`.
    demand_wanted()
    try:
        process = subprocess.Popen(
            list(arguments),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env=dict(environment),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else None
        raise NotStarted(cause or "its arguments cannot be passed on") from None
    _running.enter(process, ends)
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        raise TookTooLong from None
    finally:
        try:
            _kill(process)
            process.wait()
        finally:
            _running.leave(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """With all that it started, unless it has ended: its number may be somebody else's then."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _start_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_LONGEST_OUTPUT_BYTES).decode("utf-8", errors="replace")
