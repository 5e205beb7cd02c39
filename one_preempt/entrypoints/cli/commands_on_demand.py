"""A group of commands of which each is imported when it is called: a start loads nothing that it has no use for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class CommandsOnDemand(click.Group):
    """Commands by their names, in the order of a newcomer's interest."""

    def __init__(
        self, *given: Any, package: str, listed: Mapping[str, tuple[str, str]], called: str, **named: Any
    ) -> None:
        """By the name of each command `listed` has its module in `package`, and one line for the list of commands.

        `called` is how the module calls it, such as ``{}_command``; hyphens of a name are underscores there.
        """
        super().__init__(*given, **named)
        self._package = package
        self._listed = listed
        self._called = called

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names."""
        return list(self._listed)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, its module imported now."""
        if cmd_name not in self._listed:
            return None
        module = importlib.import_module(f"{self._package}.{self._listed[cmd_name][0]}")
        command: click.Command = getattr(module, self._called.format(cmd_name.replace("-", "_")))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_module, text) in self._listed.items()])
