"""`hooks install|remove|list`: the hooks by which OpenNebula wakes the daemon."""

from __future__ import annotations

import os
import re
import sys
from contextlib import closing
from pathlib import Path

import click

from one_preempt.adapters.opennebula import hooks
from one_preempt.adapters.opennebula.transport import OnedTransport
from one_preempt.composition import open_transport
from one_preempt.configuration.settings import load_settings
from one_preempt.entrypoints.cli.options import config_option, json_option, write_json, write_table
from one_preempt.errors import OnePreemptError
from one_preempt.explanation.explain import JsonObject, printable

EXECUTABLE = "one-preempt-hook"
# The package's link to the environment in use: that goes with the next upgrade, and OpenNebula's hooks stay.
INSTALLED = Path("/opt/one_preempt/bin") / EXECUTABLE
_PLAIN_PATH = re.compile(r"(/[A-Za-z0-9_.+@-]+)+")

command_option = click.option(
    "--command",
    metavar="PATH",
    default=lambda: str(beside()),
    help=f"The absolute path of {EXECUTABLE}; without it, the one beside this program.",
)


def beside() -> Path:
    """The hook beside this program, by the path that stays."""
    ours = Path(sys.executable).with_name(EXECUTABLE)
    return INSTALLED if INSTALLED.exists() and ours.exists() and INSTALLED.samefile(ours) else ours


@click.group("hooks")
def hooks_command() -> None:
    """Let OpenNebula's hooks tell the daemon of changes, if it cannot listen to the event bus; on the same machine."""


@hooks_command.command("install")
@config_option
@command_option
def hooks_install(config_path: Path | None, command: str) -> None:
    """Create our hooks in OpenNebula, and replace those that differ."""
    if not _PLAIN_PATH.fullmatch(command) or not Path(command).is_file() or not os.access(command, os.X_OK):
        raise OnePreemptError(
            f"{printable(command, 200)} is no absolute path of a program without blanks and quotation marks; "
            f"name {EXECUTABLE} with --command"
        )
    with closing(_transport(config_path)) as transport:
        for name, what in hooks.install_hooks(transport, command):
            click.echo(f"{name}: {what}")


@hooks_command.command("remove")
@config_option
def hooks_remove(config_path: Path | None) -> None:
    """Delete our hooks in OpenNebula, and no others."""
    with closing(_transport(config_path)) as transport:
        removed = list(hooks.remove_hooks(transport))
    click.echo("\n".join(f"{name}: removed" for name in removed) or "there are none of ours")


@hooks_command.command("list", short_help="List our hooks, and whether they are installed.")
@config_option
@command_option
@json_option
def hooks_list(config_path: Path | None, command: str, as_json: bool) -> None:
    """List our hooks and whether OpenNebula has them as `install` would create them now."""
    with closing(_transport(config_path)) as transport:
        present = {hook.name: hook for hook in hooks.installed_hooks(transport)}
    wanted = hooks.definitions(command)
    rows = [described(name, present.get(name), wanted.get(name, {})) for name in sorted({*wanted, *present})]
    if as_json:
        write_json(rows)
    else:
        columns = ("id", "name", "state", "command", "")
        write_table(
            f"{len(rows)} hooks", columns, ([printable(str(cell), 200) for cell in row.values()] for row in rows)
        )


def described(name: str, hook: hooks.InstalledHook | None, definition: dict[str, str]) -> JsonObject:
    """One hook for programs and people."""
    attributes = hook.attributes if hook is not None else definition
    if hook is None:
        condition = "missing"
    elif definition and hooks.is_as_defined(hook, definition):
        condition = "installed"
    else:
        condition = "differs"
    return {
        "id": hook.id if hook is not None else "",
        "name": name,
        "state": f"{attributes.get('RESOURCE', '')} {attributes.get('STATE', '')}",
        "command": attributes.get("COMMAND", ""),
        "condition": condition,
    }


def _transport(config_path: Path | None) -> OnedTransport:
    return open_transport(load_settings(config_path))
