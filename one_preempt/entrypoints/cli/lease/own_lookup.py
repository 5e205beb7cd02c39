"""Finding an own lease by the id of any of its VMs; whose VM it is otherwise, in one sentence."""

from __future__ import annotations

import click

from one_preempt.adapters.opennebula.owner_account import OwnerAccount, Refused
from one_preempt.core.admission.lease_attribute import LEASE
from one_preempt.core.lease_status import status_of
from one_preempt.core.model.virtual_machine import VmState
from one_preempt.entrypoints.cli.lease.own_leases import OwnLease, lease_of, own_leases
from one_preempt.entrypoints.cli.lease.own_story import LONGEST_STATUS
from one_preempt.errors import OnePreemptError
from one_preempt.explanation.explain import printable

LARGEST_ID = 2**31 - 1  # what XML-RPC has for integers


def own_lease(account: OwnerAccount, lease_id: int) -> OwnLease:
    """The lease of the caller to which that VM belongs; own VMs that cannot be read, and may belong to it, are told.

    Raises `OnePreemptError`, for another's with oned's answer.
    """
    problems: list[str] = []
    lease = lease_of(lease_id, own_leases(account.vms(problems).values()))
    if lease is None:
        raise OnePreemptError(_why_not(account, lease_id))
    for problem in problems:
        click.echo(printable(problem), err=True)
    return lease


def _why_not(account: OwnerAccount, lease_id: int) -> str:
    listed = "see: one-preempt lease list"
    if lease_id > LARGEST_ID:
        return f"there is no lease {lease_id}; {listed}"
    try:
        vm = account.vm(lease_id)
    except Refused as refused:
        return f"lease {lease_id} is not yours: {refused}"
    if vm is None:
        return f"there is no lease {lease_id}; {listed}"
    if vm.uid != account.uid():
        return f"lease {lease_id} is not yours: VM {vm.id} belongs to {printable(vm.uname, 40)}"
    if vm.state == VmState.DONE:
        told = printable(status_of(vm), LONGEST_STATUS)
        return f"lease {lease_id} has ended; " + (f"what LEASE_STATUS said last: {told}" if told else listed)
    if LEASE not in vm.user_template:
        return f"your VM {vm.id} has no LEASE attribute: it is no lease of its own"
    return f"your VM {vm.id} cannot be read as a lease; {listed}"
