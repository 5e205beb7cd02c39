"""`one-preempt`, the command line: one module a command group, loaded when that command is called."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

from one_preempt import __version__


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 refused or found wrong, 2 not understood.

    The version is told before anything is imported: scripts ask for it again and again.
    """
    _open_closed_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given == ["--version"]:
        sys.stdout.write(f"one-preempt {__version__}\n")
        return
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Users' names hold characters that the terminal may not have.
        sys.stdout.reconfigure(errors="backslashreplace")
    from one_preempt.entrypoints.cli.command_line import cli

    cli.main(args=given, prog_name="one-preempt")


def _open_closed_streams() -> None:
    """Who closed a stream, as `>&-` does, wants nothing of it: what is written there is dropped."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
