"""Programs that are run for a bounded time, without a shell, and with an environment of their own."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO

_PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "SSH_AUTH_SOCK")
_LONGEST_OUTPUT_BYTES = 16384


class NotStarted(Exception):
    """The program could not be started; the message says why."""


class TookTooLong(Exception):
    """The program did not end in time and was killed."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A program that ended by itself: its exit code, and the start of what it wrote."""

    code: int
    output: str
    errors: str


def run(arguments: Sequence[str], timeout_s: float, extra_environment: Mapping[str, str] | None = None) -> Finished:
    """Run `arguments` and wait for the end. Of our own environment only what programs need to find things goes along.

    Raises:
        NotStarted: There is no such program, or it may not be run.
        TookTooLong: It was still running after `timeout_s`; it was killed with all that it started.
    """
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    environment |= {"LC_ALL": "C", **(extra_environment or {})}
    # Files and not pipes: a child of the program that lives on would keep a pipe open and us waiting.
    with TemporaryFile() as output, TemporaryFile() as errors:
        code = _exit_code(arguments, timeout_s, environment, output, errors)
        return Finished(code, _start_of(output), _start_of(errors))


def _exit_code(
    arguments: Sequence[str], timeout_s: float, environment: Mapping[str, str], output: IO[bytes], errors: IO[bytes]
) -> int:
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
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        raise TookTooLong from None
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _start_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_LONGEST_OUTPUT_BYTES).decode("utf-8", errors="replace")
