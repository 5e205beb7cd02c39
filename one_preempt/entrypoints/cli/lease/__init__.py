"""`lease submit|list|show|cancel`: what is promised to whom, what was done about it and why.

Two views on one thing. The administrator, who can read the configuration and its database, sees all leases with their
whole story. Everybody else sees own leases as OpenNebula itself tells them, with own ONE_AUTH.
"""

from __future__ import annotations

import click

from one_preempt.entrypoints.cli.lease.cancelling import lease_cancel
from one_preempt.entrypoints.cli.lease.listing import lease_list
from one_preempt.entrypoints.cli.lease.showing import lease_show
from one_preempt.entrypoints.cli.lease.submitting import lease_submit


@click.group("lease")
def lease_command() -> None:
    """Submit, list, show or cancel leases.

    If you can read the configuration and its database, you see all leases; otherwise, or with --mine, your own.
    """


for command in (lease_submit, lease_list, lease_show, lease_cancel):
    lease_command.add_command(command)
