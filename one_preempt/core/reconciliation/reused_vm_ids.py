"""Ids that OpenNebula gave a second time, after its database was restored or made anew: the ledger means other VMs.

A VM is created before its lease is admitted, and oned never changes when that was. So one that was created after all
VMs of the recorded lease is another: neither the terms, nor the promises, nor the preemptions of that lease are its.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from one_preempt.core.model.cluster_state import Discrepancy
from one_preempt.core.model.ledger import ActionRecord, LeaseRecord, Ledger
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.reconciliation.concerned import Concerned

_ANOTHER = "another VM has its id by now"


def leases_of_other_vms(
    vms: Mapping[int, VirtualMachine], ledger: Ledger, concerned: Concerned
) -> tuple[LeaseRecord, ...]:
    """Those of the concerned leases of which a VM is another by now."""
    found = []
    for lease_id in concerned.lease_ids:
        record = ledger.leases.get(lease_id)
        if record is not None and record.ended_at_s is None and _is_of_others(record, vms):
            found.append(record)
    return tuple(found)


def _is_of_others(record: LeaseRecord, vms: Mapping[int, VirtualMachine]) -> bool:
    arrived_at_s = record.arrived_at_s
    return bool([one for one in record.vm_ids if one in vms and vms[one].submitted_at_s > arrived_at_s])


def actions_on_other_vms(ledger: Ledger, mistaken: Sequence[LeaseRecord], now_s: int) -> tuple[ActionRecord, ...]:
    """The open actions on VMs of these leases, closed: what is seen of the other VMs says nothing of them."""
    lease_ids = {record.id for record in mistaken}
    theirs = [record for _, record in sorted(ledger.open_actions.items()) if record.lease_id in lease_ids]
    return tuple([replace(one, closed_at_s=now_s, succeeded=False, error_text=_ANOTHER) for one in theirs])


def without(ledger: Ledger, mistaken: Sequence[LeaseRecord]) -> Ledger:
    """The ledger without these leases, and without what was promised to them, seen of their VMs, or done to these."""
    lease_ids = {record.id for record in mistaken}
    vm_ids = {vm_id for record in mistaken for vm_id in record.vm_ids}
    return replace(
        ledger,
        leases={one: record for one, record in ledger.leases.items() if one not in lease_ids},
        reservations={one: stays for one, stays in ledger.reservations.items() if one not in lease_ids},
        open_actions={one: record for one, record in ledger.open_actions.items() if record.lease_id not in lease_ids},
        failed_actions=tuple([record for record in ledger.failed_actions if record.lease_id not in lease_ids]),
        vm_states={one: state for one, state in ledger.vm_states.items() if one not in vm_ids},
        changed_lease_ids=None,
    )


def said_of(mistaken: Sequence[LeaseRecord]) -> list[Discrepancy]:
    """What an administrator should know of them."""
    return [
        Discrepancy(
            "vm-is-another",
            f"lease {record.id} has ended: OpenNebula gave the id of a VM of it to another VM (was its database "
            "restored or made anew?)",
            record.id,
        )
        for record in mistaken
    ]
