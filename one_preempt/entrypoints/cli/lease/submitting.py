"""`lease submit`: the VMs of a lease, created on HOLD, all of them or none."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from one_preempt.adapters.clock import SystemClock
from one_preempt.core.model.lease import LeaseTerms
from one_preempt.entrypoints.cli.lease.asked_terms import AskedTerms, TermOptions, asked_terms, term_options
from one_preempt.entrypoints.cli.lease.local_time import in_both
from one_preempt.entrypoints.cli.lease.story import start_in_words
from one_preempt.entrypoints.cli.lease.submit_options import file_option, require_one, wait_options
from one_preempt.entrypoints.cli.lease.view import own_account
from one_preempt.entrypoints.cli.options import json_option, write_json

if TYPE_CHECKING:
    from one_preempt.adapters.opennebula.owner_account import OwnerAccount, Source

SHOWS_PROGRESS_FROM = 10


@click.command("submit", short_help="Create the VMs of a lease.")
@click.option("--template", metavar="ID|NAME", help="VM template to create the VMs from.")
@file_option
@term_options
@wait_options
@json_option
def lease_submit(
    template: str | None, file: Path | None, wait: bool, timeout: float, as_json: bool, **options: Unpack[TermOptions]
) -> int:
    """Create the VMs of a lease, all of them or none. They wait on HOLD until the scheduler starts them.

    Times without a zone are local times of this machine. Only OpenNebula is needed: the endpoint in ONE_XMLRPC and the
    credentials in ONE_AUTH, or both in ~/.one.
    """
    require_one(template, file)
    asked = asked_terms(options, SystemClock().now_s())
    with own_account() as account:
        vm_ids = _create(account, _source(account, template, file), asked)
        if as_json:
            write_json({"id": vm_ids[0], "vm_ids": vm_ids, "lease": asked.texts})
        else:
            _tell(vm_ids, asked.terms)
        if not wait:
            return 0
        from one_preempt.entrypoints.cli.lease.waiting import wait_and_tell

        return wait_and_tell(account, f"lease {vm_ids[0]}", vm_ids, timeout)


def _source(account: OwnerAccount, template: str | None, file: Path | None) -> Source:
    from one_preempt.adapters.opennebula.owner_account import Source, text_of_file

    if template is not None:
        return Source(template_id=account.template_called(template))
    assert file is not None, "one of both was given"
    return Source(text=text_of_file(file))


def _create(account: OwnerAccount, source: Source, asked: AskedTerms) -> list[int]:
    from one_preempt.entrypoints.cli.lease.creation import create_all

    shown = sys.stderr.isatty() and asked.terms.size >= SHOWS_PROGRESS_FROM
    with click.progressbar(length=asked.terms.size, label="Creating", file=sys.stderr, hidden=not shown) as bar:
        return create_all(account, source, asked, bar.update)


def _tell(vm_ids: list[int], terms: LeaseTerms) -> None:
    from one_preempt.entrypoints.cli.lease.creation import vm_list

    count = "1 VM" if len(vm_ids) == 1 else f"{len(vm_ids)} VMs"
    click.echo(f"lease {vm_ids[0]}: {count} on HOLD until the scheduler starts it: {vm_list(vm_ids)}")
    if terms.start_at_s is not None:
        click.echo(f"start     {in_both(terms.start_at_s)}")
    elif start_in_words(terms):
        click.echo(f"start     {start_in_words(terms)}")
    if terms.deadline_at_s is not None:
        click.echo(f"deadline  {in_both(terms.deadline_at_s)}")
    click.echo(f"see its state with: one-preempt lease show {vm_ids[0]}")
