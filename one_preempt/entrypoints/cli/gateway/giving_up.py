"""`gateway give-up`: the requests that are left in a zone that was taken out of the configuration are over."""

from __future__ import annotations

from pathlib import Path

import click

from one_preempt.entrypoints.cli.gateway.asking import asking, socket_option, told
from one_preempt.entrypoints.cli.options import config_option, yes_option
from one_preempt.errors import OnePreemptError
from one_preempt.explanation.explain import printable


@click.command("give-up")
@click.argument("zone", metavar="ZONE")
@yes_option
@socket_option
@config_option
def gateway_give_up(zone: str, yes: bool, socket_path: Path | None, config_path: Path | None) -> None:
    """Give up the requests in a zone that was taken out of the configuration; for the administrator.

    They count as abandoned, and nothing is ended in the zone. If the zone is put back, their VMs are found again.
    """
    ask = asking(config_path, socket_path)
    left = told(ask("status"), "zones_taken_out", dict)
    if zone in left:
        click.echo(f"zone {printable(zone)}: {left[zone]} requests are left there; gateway list --all shows them")
        if not yes:
            click.confirm("Give them up? Their VMs, if there are any, stay where they are", abort=True)
    elif left:
        names = ", ".join(f"{printable(name)} ({count})" for name, count in left.items())
        raise OnePreemptError(f"no request is left in a zone named {zone!r}; zones that were taken out have: {names}")
    # Where there is none the gateway says why.
    count = told(ask("give_up", zone=zone), "given_up", int)
    click.echo(f"{count} {'request is' if count == 1 else 'requests are'} given up")
