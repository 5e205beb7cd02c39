"""`gateway cancel`: the VMs of a request are ended in their zone, by their owner's own rights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from one_preempt.entrypoints.cli.gateway.asking import account_in, asking, socket_option, told
from one_preempt.entrypoints.cli.lease.creation import vm_list
from one_preempt.entrypoints.cli.options import config_option, yes_option
from one_preempt.errors import OnePreemptError
from one_preempt.explanation.explain import printable

if TYPE_CHECKING:
    from one_preempt.adapters.opennebula.owner_account import OwnerAccount

OVER = ("refused", "cancelled", "abandoned", "ended")
LONGEST_ANSWER = 400


@click.command("cancel")
@click.argument("number", metavar="NUMBER", type=click.IntRange(min=1))
@click.option("--hard", is_flag=True, help="End the VMs at once, without letting the guests shut down.")
@yes_option
@socket_option
@config_option
def gateway_cancel(number: int, hard: bool, yes: bool, socket_path: Path | None, config_path: Path | None) -> int:
    """Terminate the VMs of a request, after asking. Exit code 1 where its zone refused one of them."""
    from one_preempt.adapters.opennebula.owner_account import VISIBLE

    ask = asking(config_path, socket_path)
    request = told(ask("show", request=number), "request", dict)
    state, zone, left_s = request["state"], str(request["zone"]), told(request, "under_way_s", int)
    if state in OVER:
        raise OnePreemptError(f"request {number} is {state}: there is nothing to cancel")
    if left_s > 0:
        raise OnePreemptError(
            f"the command of request {number} may still be creating VMs in zone {zone}: cancel in {left_s} s"
        )
    with account_in(zone, request.get("endpoint")) as account:
        problems: list[str] = []
        vm_ids = sorted(account.submitted(request["token"], problems, VISIBLE))
        if not vm_ids:
            _demand_gone(account, number, request.get("vm_ids"))
        click.echo(f"request {number}: {len(vm_ids)} VMs in zone {printable(zone)}: {vm_list(vm_ids) or 'none'}")
        if vm_ids and not yes:
            click.confirm("Terminate them? What is on their volatile disks is lost", abort=True)
        refused = []
        for vm_id in vm_ids:
            try:
                account.terminate(vm_id, hard=hard)
            except OnePreemptError as error:
                refused.append(vm_id)
                click.echo(printable(str(error), LONGEST_ANSWER), err=True)
        if problems:
            refused += _unseen(account, request.get("vm_ids"), vm_ids)
    if refused:
        click.echo(f"request {number} stays as it is, for VM {vm_list(refused)} is still there", err=True)
        return 1
    ask("cancelled", request=number)
    click.echo(f"request {number}: cancelled" + (f", and {len(vm_ids)} VMs are ended" if vm_ids else ""))
    return 0


def _unseen(account: OwnerAccount, known: object, seen: list[int]) -> list[int]:
    """The VMs of the request that are there and cannot be read; why is told."""
    unseen = []
    for vm_id in sorted(set(map(int, known)) - set(seen)) if isinstance(known, list) else ():
        try:
            account.vm(vm_id)
        except OnePreemptError as error:
            unseen.append(vm_id)
            click.echo(printable(str(error), LONGEST_ANSWER), err=True)
    return unseen


def _demand_gone(account: OwnerAccount, number: int, known: object) -> None:
    """Where no VM is to be seen, it must be for they have ended: other credentials see none either."""
    if not isinstance(known, list) or not known:
        return
    try:
        account.vm(int(known[0]))
    except OnePreemptError as error:
        raise OnePreemptError(
            f"the VMs of request {number} cannot be read: {error}. Was it submitted with another ONE_AUTH?"
        ) from None
