"""`one-preempt`, the command line: one module a command group, loaded when that command is called."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Sequence

from one_preempt import __version__


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 refused or something is wrong, 2 wrong usage."""
    _open_closed_streams()
    try:
        _run(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:  # while commands are loaded: later click says the same
        sys.exit("Aborted!")
    except OSError as error:  # of --version and --help: what a command cannot read or write is told by `CommandLine`
        if error.errno is None:  # of no file: a defect
            raise
        sys.exit(1 if error.errno == errno.EPIPE else f"Error: writing failed: {error.strerror}")
    finally:
        _drop_what_cannot_be_written()


def _run(given: list[str]) -> None:
    """The version is told before anything is imported: scripts ask for it again and again."""
    if given == ["--version"]:
        sys.stdout.write(f"one-preempt {__version__}\n")
        sys.stdout.flush()
        return
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Users' names hold characters that the terminal may not have.
        sys.stdout.reconfigure(errors="backslashreplace")
    from one_preempt.entrypoints.cli.command_line import cli

    cli.main(args=given, prog_name="one-preempt")


def _open_closed_streams() -> None:
    """Who closed a stream, as `>&-` does, wants nothing of it: what is written there is dropped; nothing is read."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def _drop_what_cannot_be_written() -> None:
    """A full disk or a broken pipe has been told already: at its end the interpreter would tell it once more."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
