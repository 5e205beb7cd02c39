"""`lease cancel`: the VMs of one lease are terminated, after asking."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import click

from one_preempt.adapters.clock import SystemClock
from one_preempt.composition import open_made_store, open_transport
from one_preempt.configuration.settings import Settings
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.virtual_machine import LockLevel, VirtualMachine
from one_preempt.entrypoints.cli.lease.own_lookup import own_lease
from one_preempt.entrypoints.cli.lease.record import recorded_lease
from one_preempt.entrypoints.cli.lease.recorded_cancel import cancel, living_vms
from one_preempt.entrypoints.cli.lease.view import administrators_settings, mine_option, own_account
from one_preempt.entrypoints.cli.options import config_option, yes_option
from one_preempt.errors import OnePreemptError
from one_preempt.explanation.explain import printable

LONGEST_NAME = 40
LONGEST_ANSWER = 400


@click.command("cancel")
@click.argument("lease_id", metavar="ID", type=click.IntRange(min=0))
@config_option
@mine_option
@click.option("--hard", is_flag=True, help="End the VMs at once, without letting the guests shut down.")
@yes_option
def lease_cancel(lease_id: int, config_path: Path | None, mine: bool, hard: bool, yes: bool) -> int:
    """Terminate the VMs of a lease, after asking. The exit code is 1 if one of them could not be terminated."""
    settings = administrators_settings(config_path, mine)
    if settings is not None:
        return _cancel_recorded(settings, lease_id, hard=hard, yes=yes)
    return _cancel_own(lease_id, hard=hard, yes=yes)


def _cancel_recorded(settings: Settings, lease_id: int, *, hard: bool, yes: bool) -> int:
    from one_preempt.adapters.opennebula.enactor import OpenNebulaEnactor
    from one_preempt.adapters.opennebula.hard_terminator import HardTerminator
    from one_preempt.adapters.opennebula.pool_reader import OpenNebulaPoolReader

    clock = SystemClock()
    with closing(open_made_store(settings)) as store, closing(open_transport(settings)) as transport:
        record = recorded_lease(store, lease_id)
        reader = OpenNebulaPoolReader(transport, clock)
        vms = living_vms(record, reader)
        if not vms:
            raise OnePreemptError(f"lease {record.id} has no VM left: there is nothing to cancel")
        _ask(vms, yes=yes)
        refused = 0
        enactor = (HardTerminator if hard else OpenNebulaEnactor)(transport, reader)
        for vm, result in cancel(record.id, vms, store, enactor, clock):
            refused += result.outcome is not Outcome.ACCEPTED
            click.echo(f"VM {vm.id}: {result.outcome.value} {printable(result.error_text)}".rstrip())
    return 1 if refused else 0


def _cancel_own(lease_id: int, *, hard: bool, yes: bool) -> int:
    refused = 0
    with own_account() as account:
        vms = own_lease(account, lease_id).vms
        _ask(vms, yes=yes)
        for vm in vms:
            try:
                account.terminate(vm.id, hard=hard)
                click.echo(f"VM {vm.id}: accepted")
            except OnePreemptError as error:
                refused += 1
                hint = f"; unlock it first: onevm unlock {vm.id}" if vm.lock_level is not LockLevel.NONE else ""
                click.echo(f"{printable(str(error), LONGEST_ANSWER)}{hint}", err=True)
    return 1 if refused else 0


def _ask(vms: Sequence[VirtualMachine], *, yes: bool) -> None:
    """Tell which VMs would end, and abort unless that is wanted."""
    for vm in vms:
        locked = ", locked" if vm.lock_level is not LockLevel.NONE else ""
        names = f"{printable(vm.name, LONGEST_NAME)} of {printable(vm.uname, LONGEST_NAME)}"
        click.echo(f"VM {vm.id} {names}, {vm.state_name}{locked}")
    if not yes:
        asked = "Terminate it? What is on its" if len(vms) == 1 else f"Terminate {len(vms)} VMs? What is on their"
        click.confirm(f"{asked} volatile disks is lost", abort=True)
