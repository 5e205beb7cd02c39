"""VMs that we suspended on their hosts, so that others run in their room: which they are, and which locks are ours.

oned tells neither. That a VM was suspended by us is written in the ledger: the record of SUSPEND stays open until the
VM runs again. So does that of LOCK until the lock is gone; with the owner and the level of the lock it tells ours from
an administrator's. Where the ledger was lost, LEASE_STATUS stands in for it, which was written before the lock: from
then on the owner of the VM cannot write there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from msgspec import Struct

from one_preempt.core.lease_status import says_in_place
from one_preempt.core.model.ledger import ActionRecord
from one_preempt.core.model.outcome import NOTHING_DONE
from one_preempt.core.model.plan import ActionKind
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.virtual_machine import LcmState, VirtualMachine


class Preempted(Protocol):
    """What a lease and its record in the ledger have in common for whoever asks which VMs rest."""

    @property
    def vm_ids(self) -> tuple[int, ...]:
        """The ids of its VMs."""

    @property
    def preempted_by(self) -> int | None:
        """The lease it was sent out for, as long as it is not back."""


class InPlace(Struct, frozen=True):
    """`vm_ids`: at rest on their hosts, or being saved there, by our hand; each with the occasion, which is the id of
    the preemption. `own_locks`: VMs that bear a lock which we set and have to open again, whatever they do."""

    occasions: Mapping[int, str]
    own_locks: frozenset[int]

    @property
    def vm_ids(self) -> frozenset[int]:
        """The VMs that rest, or are being saved, by our hand."""
        return frozenset(self.occasions)


NOTHING_IN_PLACE = InPlace({}, frozenset())


def in_place(snapshot: PoolSnapshot, actions: Mapping[str, ActionRecord], leases: Iterable[Preempted]) -> InPlace:
    """Read off the open `actions`, and off LEASE_STATUS of the VMs of preempted `leases` that no action tells of."""
    occasions: dict[int, str] = {}
    locks: set[int] = set()
    for _, record in sorted(actions.items()) if actions else ():
        vm = snapshot.vms.get(record.vm_id)
        if vm is None or record.attempts == 0 or record.outcome in NOTHING_DONE:
            continue
        if record.kind is ActionKind.SUSPEND and _is_saved(vm) and vm.host_id == record.host_id:
            occasions[vm.id] = record.preemption_id or record.id
        elif record.kind is ActionKind.LOCK and vm.is_locked_by_scheduler(snapshot.own_uid):
            locks.add(vm.id)
    for vm, occasion in _told_by_status(snapshot, leases):
        if vm.id not in occasions:
            occasions[vm.id] = occasion
            if vm.is_set_aside(snapshot.own_uid):
                locks.add(vm.id)
    return InPlace(occasions, frozenset(locks)) if occasions or locks else NOTHING_IN_PLACE


def _told_by_status(snapshot: PoolSnapshot, leases: Iterable[Preempted]) -> Iterator[tuple[VirtualMachine, str]]:
    """The VMs at rest of which LEASE_STATUS says that it was for others, with an occasion that no ledger names."""
    for lease in leases:
        if lease.preempted_by is None:
            continue
        for vm in (snapshot.vms[vm_id] for vm_id in lease.vm_ids if vm_id in snapshot.vms):
            if vm.is_suspended and says_in_place(vm):
                yield vm, f"lost@{lease.preempted_by}-{vm.history[-1].start_at_s}"


def _is_saved(vm: VirtualMachine) -> bool:
    """Suspended, or about to be."""
    return vm.is_suspended or vm.state_name == LcmState.SAVE_SUSPEND.name


def was_in_place(vm: VirtualMachine, own_uid: int) -> bool:
    """By what oned alone tells, where there is no ledger: at rest, locked as we lock, and LEASE_STATUS says it."""
    return vm.is_set_aside(own_uid) and says_in_place(vm)
