"""`gateway submit`: the VMs of a lease, created in the zone that the gateway names."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import click

from one_preempt.adapters.clock import SystemClock
from one_preempt.adapters.opennebula.credentials import find_credentials
from one_preempt.entrypoints.cli.gateway.asking import account_in, asking, socket_option
from one_preempt.entrypoints.cli.gateway.dispatching import Made, Placed, dispatch
from one_preempt.entrypoints.cli.lease.asked_terms import TermOptions, asked_terms, term_options
from one_preempt.entrypoints.cli.lease.submit_options import file_option, require_one, wait_options
from one_preempt.entrypoints.cli.options import config_option, json_option, write_json
from one_preempt.explanation.explain import printable
from one_preempt.gateway.messages import LARGEST_SIZE

LONGEST_SAID = 600


@click.command("submit")
@click.option(
    "--template", metavar="NAME", help="VM template to create the VMs from, which each zone has by this name."
)
@file_option
@term_options
@click.option(
    "--continue",
    "continued",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Go on with this request, whose command was interrupted; give all other options again.",
)
@wait_options
@socket_option
@config_option
@json_option
def gateway_submit(
    template: str | None,
    file: Path | None,
    continued: int | None,
    wait: bool,
    timeout: float,
    socket_path: Path | None,
    config_path: Path | None,
    as_json: bool,
    **options: Unpack[TermOptions],
) -> int:
    """Create the VMs of a lease in the zone that the gateway names, on HOLD; all of them or none.

    Where that zone refuses or does not answer, the gateway names the next one. The VMs are created with your own
    ONE_AUTH, and are yours.
    """
    require_one(template, file)
    if template is not None and template.isdecimal():
        raise click.UsageError("zones number their VM templates differently: write the --template by its name")
    asked = asked_terms(options, SystemClock().now_s())
    if asked.terms.size > LARGEST_SIZE:
        raise click.UsageError(f"--size is {LARGEST_SIZE} at most for one request")
    find_credentials()  # before a request is opened that nobody could carry out
    made = Made(template, file)
    made.check()
    ask = asking(config_path, socket_path)
    placed = dispatch(ask, made, asked, lambda text: click.echo(printable(text, LONGEST_SAID), err=True), continued)
    if as_json:
        write_json(
            {
                "number": placed.turn.number,
                "zone": placed.turn.zone,
                "endpoint": str(placed.turn.endpoint),
                "vm_ids": placed.vm_ids,
                "lease": asked.texts,
                "tried": [{"zone": zone, "text": text} for zone, text in placed.tried],
            }
        )
    else:
        _tell(placed)
    if not wait:
        return 0
    from one_preempt.entrypoints.cli.lease.waiting import wait_and_tell

    with account_in(placed.turn.zone, placed.turn.endpoint) as account:
        return wait_and_tell(account, f"request {placed.turn.number}", placed.vm_ids, timeout)


def _tell(placed: Placed) -> None:
    from one_preempt.entrypoints.cli.lease.creation import vm_list

    turn, count = placed.turn, len(placed.vm_ids)
    vms = "1 VM" if count == 1 else f"{count} VMs"
    zone = printable(turn.zone)
    click.echo(
        f"request {turn.number}: {vms} in zone {zone}, on HOLD until its scheduler starts it: {vm_list(placed.vm_ids)}"
    )
    click.echo(f"the zone answers at {printable(str(turn.endpoint))}")
    click.echo(f"see its state with: one-preempt gateway show {turn.number}")
