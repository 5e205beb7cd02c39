"""`lease list|show|cancel`: what is promised to whom, what was done about it and why."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import click

from one_preempt.adapters.clock import SystemClock
from one_preempt.composition import open_store, open_transport
from one_preempt.core.model.ledger import LeaseRecord, Outcome, Transition
from one_preempt.entrypoints.cli.lease_cancel import cancel, living_vms
from one_preempt.entrypoints.cli.lease_story import (
    LIST_COLUMNS,
    STORY_COLUMNS,
    action_document,
    lease_document,
    list_row,
    story_rows,
    term_rows,
    transition_document,
)
from one_preempt.entrypoints.cli.options import config_option, json_option, write_json, write_table, yes_option
from one_preempt.errors import OnePreemptError
from one_preempt.explain import printable
from one_preempt.ports import LeaseStore
from one_preempt.settings import load_settings

LOG_LENGTH = 1000


@click.group("lease")
def lease_command() -> None:
    """List, show or cancel leases."""


@lease_command.command("list")
@config_option
@click.option("--all", "include_ended", is_flag=True, help="Also the leases that ended.")
@json_option
def lease_list(config_path: Path | None, include_ended: bool, as_json: bool) -> None:
    """List the leases on record, oldest first."""
    with closing(open_store(load_settings(config_path))) as store:
        records = store.leases(include_ended)
        states = store.load(SystemClock().now_s()).vm_states
    if as_json:
        write_json([lease_document(record, states) for record in records])
        return
    write_table(f"{len(records)} leases on record", LIST_COLUMNS, (list_row(record, states) for record in records))


@lease_command.command("show")
@click.argument("lease_id", metavar="ID", type=int)
@config_option
@json_option
def lease_show(lease_id: int, config_path: Path | None, as_json: bool) -> None:
    """Show one lease: its terms, its VMs, and its story."""
    with closing(open_store(load_settings(config_path))) as store:
        record = recorded_lease(store, lease_id)
        states = store.load(SystemClock().now_s()).vm_states
        actions = tuple(reversed(store.actions(lease_id, LOG_LENGTH)))
        transitions = _transitions(store, record)
    if as_json:
        write_json(
            lease_document(record, states)
            | {
                "actions": [action_document(action) for action in actions],
                "transitions": [transition_document(transition) for transition in transitions],
            }
        )
        return
    write_table(f"Lease {lease_id}", ("", ""), term_rows(record))
    members = ((str(vm_id), states.get(vm_id, "not seen")) for vm_id in record.vm_ids)
    write_table("\nVMs", ("VM", "last seen"), members)
    write_table("\nStory", STORY_COLUMNS, story_rows(actions, transitions))


@lease_command.command("cancel")
@click.argument("lease_id", metavar="ID", type=int)
@config_option
@yes_option
def lease_cancel(lease_id: int, config_path: Path | None, yes: bool) -> int:
    """Terminate the VMs of a lease, after asking. Exit code 1 where oned refused one of them."""
    from one_preempt.adapters.opennebula.enactor import OpenNebulaEnactor
    from one_preempt.adapters.opennebula.pool_reader import OpenNebulaPoolReader

    settings, clock = load_settings(config_path), SystemClock()
    with closing(open_store(settings)) as store, closing(open_transport(settings)) as transport:
        record = recorded_lease(store, lease_id)
        reader = OpenNebulaPoolReader(transport, clock)
        vms = living_vms(record, reader)
        if not vms:
            raise OnePreemptError(f"lease {lease_id} has no VM left: there is nothing to cancel")
        for vm in vms:
            click.echo(f"VM {vm.id} {printable(vm.name, 40)} of {printable(vm.uname, 40)}, {vm.state_name}")
        if not yes:
            click.confirm(f"Terminate {len(vms)} VMs? What is on their volatile disks is lost", abort=True)
        refused = 0
        for vm, result in cancel(lease_id, vms, store, OpenNebulaEnactor(transport, reader), clock):
            refused += result.outcome is not Outcome.ACCEPTED
            click.echo(f"VM {vm.id}: {result.outcome.value} {printable(result.error_text)}".rstrip())
    return 1 if refused else 0


def recorded_lease(store: LeaseStore, lease_id: int) -> LeaseRecord:
    """The lease of that id, ended or not. Raises `OnePreemptError` where none is on record."""
    for record in store.leases(include_ended=True):
        if record.id == lease_id:
            return record
    raise OnePreemptError(f"no lease {lease_id} is on record; see: one-preempt lease list --all")


def _transitions(store: LeaseStore, record: LeaseRecord) -> list[Transition]:
    found = [transition for vm_id in record.vm_ids for transition in reversed(store.transitions(vm_id, LOG_LENGTH))]
    return sorted(found, key=lambda transition: transition.observed_at_s)
