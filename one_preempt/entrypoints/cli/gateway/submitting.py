"""`gateway submit`: the VMs of a lease, created in the zone that the gateway names."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Unpack

import click

from one_preempt.adapters.clock import SystemClock
from one_preempt.adapters.opennebula.credentials import find_credentials
from one_preempt.entrypoints.cli.gateway.asking import account_in, asking, socket_option
from one_preempt.entrypoints.cli.gateway.dispatching import Made, Placed, dispatch
from one_preempt.entrypoints.cli.lease.asked_terms import TermOptions, asked_terms, term_options
from one_preempt.entrypoints.cli.options import NumberRange, config_option, json_option, write_json
from one_preempt.explanation.explain import printable
from one_preempt.gateway.messages import LARGEST_SIZE

LONGEST_WAIT_S = 7 * 86_400
LONGEST_SAID = 600


@click.command("submit")
@click.option(
    "--template", metavar="NAME", help="VM template to create the VMs from, which each zone has by this name."
)
@click.option(
    "--file",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Create the VMs from a file, as for onevm create.",
)
@term_options
@click.option(
    "--continue",
    "continued",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Go on with this request, whose command was interrupted; give all other options again.",
)
@click.option("--wait", is_flag=True, help="Return when it runs, or after --timeout (exit code 1).")
@click.option(
    "--timeout", type=NumberRange(0, LONGEST_WAIT_S), default=3600, show_default=True, help="For --wait, in seconds."
)
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
    if (template is None) == (file is None):
        raise click.UsageError("give either --template or --file: the VMs are created from it")
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
    return _wait(placed, timeout) if wait else 0


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


def _wait(placed: Placed, timeout_s: float) -> int:
    from one_preempt.entrypoints.cli.lease.waiting import Waited, wait_until_running

    with account_in(placed.turn.zone, placed.turn.endpoint) as account:
        ended = wait_until_running(
            account, placed.vm_ids, timeout_s, time.monotonic, time.sleep,
            lambda words: click.echo(printable(words, 400), err=True),
        )  # fmt: skip
    click.echo(f"request {placed.turn.number}: {ended.value}", err=True)
    return 0 if ended is Waited.RUNNING else 1
