"""`gateway submit|list|show|cancel|run|rates|check|give-up`: requests for VMs in whichever zone of a federation.

The first four are for everybody on the gateway's machine: they ask the gateway for a zone, and act there with the
caller's own ONE_AUTH. The others are the administrator's.
"""

from __future__ import annotations

import click

from one_preempt.entrypoints.cli.commands_on_demand import CommandsOnDemand

# Name -> (module of this package, one line for the list of commands). What only the administrator needs is not loaded
# for users.
COMMANDS = {
    "submit": ("submitting", "Create the VMs of a lease in the zone that the gateway names."),
    "list": ("looking", "List your requests, newest first."),
    "show": ("looking", "Show a request: zones that were tried, and its VMs."),
    "cancel": ("cancelling", "Terminate the VMs of a request."),
    "run": ("running", "Run the gateway (administrator)."),
    "check": ("checking", "Look for what is wrong with the gateway (administrator)."),
    "rates": ("rating", "Show which part of the requests each zone gets (administrator)."),
    "give-up": ("giving_up", "Give up what is left in a zone that was taken out (administrator)."),
}


@click.group("gateway", cls=CommandsOnDemand, package=__name__, listed=COMMANDS, called="gateway_{}")
def gateway_command() -> None:
    """Create VMs in the zone of a federation that a gateway chooses.

    submit, list, show and cancel are for everybody on the gateway's machine. They act with your own ONE_AUTH; the
    gateway only says where.
    """
