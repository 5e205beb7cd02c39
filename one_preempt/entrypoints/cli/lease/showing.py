"""`lease show`: one lease with its terms, its VMs and its story."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import click

from one_preempt.adapters.clock import SystemClock
from one_preempt.composition import open_made_store
from one_preempt.configuration.settings import Settings
from one_preempt.entrypoints.cli.lease.own_leases import OwnLease
from one_preempt.entrypoints.cli.lease.own_lookup import own_lease
from one_preempt.entrypoints.cli.lease.own_story import (
    CHANGE_COLUMNS,
    VM_COLUMNS,
    change_document,
    change_row,
    changes,
    own_document,
    own_term_rows,
    own_vm_row,
)
from one_preempt.entrypoints.cli.lease.owner_names import owner_names
from one_preempt.entrypoints.cli.lease.record import LOG_LENGTH, recorded_lease, transitions_of
from one_preempt.entrypoints.cli.lease.story import (
    RESERVATION_COLUMNS,
    STORY_COLUMNS,
    action_document,
    lease_document,
    reservation_document,
    reservation_row,
    story_rows,
    term_rows,
    transition_document,
)
from one_preempt.entrypoints.cli.lease.view import administrators_settings, mine_option, own_account
from one_preempt.entrypoints.cli.options import config_option, json_option, write_json, write_table

WHOLE_STORIES = 50


@click.command("show")
@click.argument("lease_id", metavar="ID", type=click.IntRange(min=0))
@config_option
@mine_option
@json_option
def lease_show(lease_id: int, config_path: Path | None, mine: bool, as_json: bool) -> None:
    """Show one lease: its terms, its VMs, and its history."""
    settings = administrators_settings(config_path, mine)
    if settings is not None:
        _show_recorded(settings, lease_id, as_json)
        return
    with own_account() as account:
        lease = own_lease(account, lease_id)
        # The pool tells of the last stay only, and one call a VM is many for a large lease.
        vms = tuple(account.vm(vm.id) or vm for vm in lease.vms[:WHOLE_STORIES]) + lease.vms[WHOLE_STORIES:]
    _show_own(OwnLease(lease.id, vms, lease.terms, lease.problem), as_json)


def _show_recorded(settings: Settings, lease_id: int, as_json: bool) -> None:
    with closing(open_made_store(settings)) as store:
        record = recorded_lease(store, lease_id)
        ledger = store.load(SystemClock().now_s())
        actions = tuple(reversed(store.actions(record.id, LOG_LENGTH)))
        transitions = transitions_of(store, record)
    names = owner_names(settings, (record,))
    states, promised = ledger.vm_states, ledger.reservations.get(record.id, ())
    if as_json:
        write_json(
            lease_document(record, states, names)
            | {
                "reservations": [reservation_document(stay) for stay in promised],
                "actions": [action_document(action) for action in actions],
                "transitions": [transition_document(transition) for transition in transitions],
            }
        )
        return
    write_table(f"Lease {record.id}", ("", ""), term_rows(record, names))
    members = ((str(vm_id), states.get(vm_id, "not seen")) for vm_id in record.vm_ids)
    write_table("\nVMs", ("VM", "last seen"), members)
    if promised:
        write_table("\nPromised", RESERVATION_COLUMNS, map(reservation_row, promised))
    write_table("\nStory", STORY_COLUMNS, story_rows(actions, transitions))


def _show_own(lease: OwnLease, as_json: bool) -> None:
    story = changes(lease.vms)
    if as_json:
        write_json(own_document(lease) | {"changes": [change_document(change) for change in story]})
        return
    write_table(f"Lease {lease.id}", ("", ""), own_term_rows(lease))
    write_table("\nVMs", VM_COLUMNS, map(own_vm_row, lease.vms))
    write_table("\nWhat OpenNebula says about it", CHANGE_COLUMNS, map(change_row, story))
