"""What the commands that create the VMs of a lease ask beside its terms: from what, and whether they wait."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from one_preempt.entrypoints.cli.options import NumberRange

LONGEST_WAIT_S = 7 * 86_400
Command = TypeVar("Command", bound=Callable[..., Any])

file_option = click.option(
    "--file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Create the VMs from a file, as for onevm create.",
)


def require_one(template: str | None, file: Path | None) -> None:
    """The VMs come from either of both. Raises `click.UsageError`."""
    if (template is None) == (file is None):
        raise click.UsageError("give either --template or --file: the VMs are created from it")


_WAIT_OPTIONS = (
    click.option("--wait", is_flag=True, help="Return when it runs, or after --timeout (exit code 1)."),
    click.option(
        "--timeout",
        type=NumberRange(0, LONGEST_WAIT_S),
        default=3600,
        show_default=True,
        help="For --wait, in seconds.",
    ),
)


def wait_options(command: Command) -> Command:
    """The options `wait` and `timeout`, in seconds, as a decorator; see `waiting.wait_and_tell`."""
    for option in reversed(_WAIT_OPTIONS):
        command = option(command)
    return command
