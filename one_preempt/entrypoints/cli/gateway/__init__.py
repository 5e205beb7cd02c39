"""`gateway run|submit|list|show|cancel|rates|check`: requests for VMs in whichever zone of a federation.

`run`, `rates` and `check` are the administrator's. The others are for everybody on the gateway's machine: they ask the
gateway for a zone, and act there with the caller's own ONE_AUTH.
"""

from __future__ import annotations

import click

from one_preempt.entrypoints.cli.gateway.cancelling import gateway_cancel
from one_preempt.entrypoints.cli.gateway.checking import gateway_check
from one_preempt.entrypoints.cli.gateway.looking import gateway_list, gateway_show
from one_preempt.entrypoints.cli.gateway.rating import gateway_rates
from one_preempt.entrypoints.cli.gateway.running import gateway_run
from one_preempt.entrypoints.cli.gateway.submitting import gateway_submit


@click.group("gateway")
def gateway_command() -> None:
    """Have VMs created in the zone of a federation that is best for all.

    submit, list, show and cancel are for everybody on the gateway's machine. They act with your own ONE_AUTH; the
    gateway only says where.
    """


for command in (gateway_submit, gateway_list, gateway_show, gateway_cancel, gateway_run, gateway_rates, gateway_check):
    gateway_command.add_command(command)
