"""Programs that are run for a bounded time, without a shell, with an environment of their own, and heard in part."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import Lock, Thread
from typing import IO

from msgspec import Struct

_PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "SSH_AUTH_SOCK")
LONGEST_OUTPUT_BYTES = 16384
MOST_WRITTEN_BYTES = 16 << 20
_PIECE_BYTES = 1 << 16
# So long is listened to what a program has left in its pipes when children of it keep these open.
_LAST_WORDS_S = 0.2
_SHELL_SIGNALS = 128
_LAST_SIGNAL = 64


class NotStarted(Exception):
    """The program could not be started; the message says why."""


class TookTooLong(Exception):
    """The program did not end in time and was killed."""


class WroteTooMuch(TookTooLong):
    """The program wrote more than `MOST_WRITTEN_BYTES`, as if it would never stop, and was killed."""


class Finished(Struct, frozen=True):
    """A program that ended by itself: its exit code, and the start of what it wrote."""

    code: int
    output: str
    errors: str

    @property
    def may_be_killed(self) -> bool:
        """By a signal, itself or what it ran, as shells tell it: what it was to do may have been done before."""
        return self.code < 0 or _SHELL_SIGNALS < self.code <= _SHELL_SIGNALS + _LAST_SIGNAL


def _nothing_to_ask() -> None:
    """Whoever runs it has nothing against it."""


class Children:
    """Programs that are run for one purpose, in whatever thread, and can be ended together."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self.ends = 0
        """How often all was ended."""

    def run(
        self,
        arguments: Sequence[str],
        timeout_s: float,
        extra_environment: Mapping[str, str] | None = None,
        before_start: Callable[[], None] = _nothing_to_ask,
    ) -> Finished:
        """Run `arguments` and wait for the end. Of our own environment only what programs need goes along.

        `before_start` is called at the last moment; what it raises is raised.

        Raises:
            NotStarted: There is no such program, or it may not be run.
            TookTooLong: It was still running after `timeout_s`; it was killed with all that it started.
            WroteTooMuch: It wrote and wrote; it was killed likewise.
        """
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        environment |= {"LC_ALL": "C", **(extra_environment or {})}
        ends = self.ends
        # Whatever is dropped from here on is ended by `enter`.
        before_start()
        process = _started(arguments, environment)
        assert process.stdout is not None and process.stderr is not None
        heard = [_Heard(pipe, process) for pipe in (process.stdout, process.stderr)]
        self.enter(process, ends)
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise TookTooLong from None
        finally:
            try:
                _kill(process)
                process.wait()
            finally:
                self.leave(process)
        output, errors = (one.last_words() for one in heard)
        if any(one.is_too_much for one in heard):
            raise WroteTooMuch
        return Finished(code, output, errors)

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
        """Kill all that runs now, with all that it started: to whoever waits for it, it ended by signal 9."""
        with self._lock:
            self.ends += 1
            for process in self._processes:
                # One that runs as somebody else goes on; the others are ended all the same.
                with suppress(PermissionError):
                    _kill(process)


class _Heard:
    """Reads what a program writes, and keeps its start; as long as anybody may write there, so that nobody is stopped
    by a full or a closed pipe."""

    def __init__(self, pipe: IO[bytes], process: subprocess.Popen[bytes]) -> None:
        self._pipe, self._process = pipe, process
        self._start = bytearray()
        self.is_too_much = False
        self._thread = Thread(target=self._hear, name="program's words", daemon=True)
        self._thread.start()

    def last_words(self) -> str:
        """The start of all that was written."""
        self._thread.join(_LAST_WORDS_S)
        return bytes(self._start).decode("utf-8", errors="replace")

    def _hear(self) -> None:
        count = 0
        with self._pipe:
            while piece := os.read(self._pipe.fileno(), _PIECE_BYTES):
                count += len(piece)
                self._start += piece[: LONGEST_OUTPUT_BYTES - len(self._start)]
                if count > MOST_WRITTEN_BYTES:
                    self.is_too_much = True
                    _kill(self._process)
                    return


def _started(arguments: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            list(arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else None
        raise NotStarted(cause or "its arguments cannot be passed on") from None


def _kill(process: subprocess.Popen[bytes]) -> None:
    """With all that it started, unless it has ended: its number may be somebody else's then."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
