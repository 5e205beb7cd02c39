"""`gateway submit|list|show|cancel|run|rates|check|give-up`: requests for VMs in whichever zone of a federation.

The first four are for everybody on the gateway's machine: they ask the gateway for a zone, and act there with the
caller's own ONE_AUTH. The others are the administrator's.
"""

from __future__ import annotations

import importlib

import click

# In the order of a newcomer's interest; what only the administrator's commands need is not loaded for users.
MODULES = {
    "submit": "submitting",
    "list": "looking",
    "show": "looking",
    "cancel": "cancelling",
    "run": "running",
    "rates": "rating",
    "check": "checking",
    "give-up": "giving_up",
}


class GatewayCommands(click.Group):
    """The commands, each imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names."""
        return list(MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, its module imported now."""
        if cmd_name not in MODULES:
            return None
        module = importlib.import_module(f"{__name__}.{MODULES[cmd_name]}")
        command: click.Command = getattr(module, f"gateway_{cmd_name.replace('-', '_')}")
        return command


@click.group("gateway", cls=GatewayCommands)
def gateway_command() -> None:
    """Have VMs created in the zone of a federation that is best for all.

    submit, list, show and cancel are for everybody on the gateway's machine. They act with your own ONE_AUTH; the
    gateway only says where.
    """
