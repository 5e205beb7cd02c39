"""What a reconciliation has to look at: what has changed since the last one, and what time alone may change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain

from msgspec import Struct, field

from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.ledger import LeaseRecord, Ledger
from one_preempt.core.model.plan import ActionKind
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.reconciliation.observation import LEAVING_KINDS

# While these are open, and once they are closed, a lease may be in another state though its VMs are not.
_STATE_CHANGING_KINDS = LEAVING_KINDS | {ActionKind.SUSPEND}


class Footing(Struct, frozen=True):
    """The leases and records of the last reconciliation, all of which holds but for what is concerned."""

    leases: Mapping[int, Lease] = field(default_factory=dict)
    lease_of_vm: Mapping[int, int] = field(default_factory=dict)
    records: Mapping[int, LeaseRecord] = field(default_factory=dict)


NO_FOOTING = Footing()


class Concerned(Struct, frozen=True):
    """What to look at: leases of the ledger or of the footing, and VMs, among them all members of those leases.

    Both are in ascending order. `changed_vm_ids` are the VMs that are other objects than those of the footing.
    """

    lease_ids: tuple[int, ...]
    vm_ids: tuple[int, ...]
    changed_vm_ids: frozenset[int] = frozenset()
    footing: Footing = NO_FOOTING


def concerned_by(snapshot: PoolSnapshot, ledger: Ledger, last: ClusterState | None) -> Concerned:
    """What has to be looked at; everything, on no footing, where it is not known what has changed since `last`."""
    vm_ids = changed_vm_ids(snapshot, last) if last is not None else None
    if last is None or vm_ids is None:
        return Concerned(tuple(sorted(ledger.leases)), tuple(sorted(snapshot.vms)))
    actions = chain(ledger.open_actions.values(), last.actions.values())
    acting = [record for record in actions if record.kind in _STATE_CHANGING_KINDS]
    seen, lease_of_vm = vm_ids, last.lease_of_vm
    found = {*last.unsettled_lease_ids, *_changed_record_ids(ledger, last)}
    if acting:
        seen = vm_ids.union([record.vm_id for record in acting])
        found.update([record.lease_id for record in acting])
    found.update([lease_of_vm[vm_id] for vm_id in seen if vm_id in lease_of_vm])
    new = found
    # Mostly all members of a lease have changed, and there is nobody to add.
    while members := set(chain.from_iterable([_members(lease_id, ledger, last) for lease_id in new])) - seen:
        new = {lease_of_vm[vm_id] for vm_id in members if vm_id in lease_of_vm} - found
        seen, found = seen | members, found | new
    footing = Footing(last.leases, lease_of_vm, last.records)
    return Concerned(tuple(sorted(found)), tuple(sorted(seen)), vm_ids, footing)


def changed_vm_ids(snapshot: PoolSnapshot, last: ClusterState) -> frozenset[int] | None:
    """VMs that came, went or changed; None where nobody knows: some cannot be read, or the very mapping was changed."""
    vms, before = snapshot.vms, last.snapshot.vms
    if snapshot.unreadable_vm_ids:
        return None
    if snapshot.changed_vm_ids is not None or vms is before:
        return snapshot.changed_vm_ids
    changed = (vm_id for vm_id, vm in vms.items() if before.get(vm_id) is not vm)
    return frozenset(changed) | (before.keys() - vms.keys())


def _changed_record_ids(ledger: Ledger, last: ClusterState) -> Iterable[int]:
    """Leases whose record is not as the last reconciliation had it written."""
    now, before = ledger.leases, last.records
    told = ledger.changed_lease_ids
    among = told if told is not None else now.keys() | before.keys()
    return [lease_id for lease_id in among if now.get(lease_id) is not before.get(lease_id)]


def _members(lease_id: int, ledger: Ledger, last: ClusterState) -> Iterable[int]:
    """The VMs that a lease has, or had."""
    lease, record = last.leases.get(lease_id), ledger.leases.get(lease_id)
    had = lease.vm_ids if lease is not None else ()
    has = record.vm_ids if record is not None else ()
    return had if had == has else (*had, *has)
