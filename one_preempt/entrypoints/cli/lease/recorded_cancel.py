"""Cancelling a lease: every VM of it is terminated, intent and answer on record like any other action."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from one_preempt.core.model.ledger import LeaseRecord
from one_preempt.core.model.plan import Action, ActionKind, Plan, Reason
from one_preempt.core.model.virtual_machine import VirtualMachine, VmState
from one_preempt.core.reconciliation.settled_actions import CANCELLED
from one_preempt.ports import CallResult, Clock, Enactor, LeaseStore, PoolReader

BY_AN_ADMINISTRATOR = Reason(CANCELLED, "an administrator cancelled the lease")


def living_vms(record: LeaseRecord, reader: PoolReader) -> list[VirtualMachine]:
    """The VMs of the lease that still exist, as they are now. Raises `CloudUnavailable`, or `VmNotTold` of one."""
    vms = (reader.read_vm(vm_id) for vm_id in record.vm_ids)
    return [vm for vm in vms if vm is not None and vm.state != VmState.DONE]


def cancel(
    lease_id: int, vms: Sequence[VirtualMachine], store: LeaseStore, enactor: Enactor, clock: Clock
) -> Iterator[tuple[VirtualMachine, CallResult]]:
    """Terminate each VM by `enactor`, unless it has another owner by now.

    All is on record before the first call, so that a daemon that is woken by it starts none of the others.
    """
    now_s = clock.now_s()
    actions = [
        Action(
            id=f"cancel-{lease_id}-{vm.id}-{now_s}",
            kind=ActionKind.TERMINATE,
            vm_id=vm.id,
            lease_id=lease_id,
            reason=BY_AN_ADMINISTRATOR,
            host_id=vm.host_id,
            expected_uid=vm.uid,
        )
        for vm in vms
    ]
    store.record_plan(Plan(made_at_s=now_s, policy="cancel", actions=tuple(actions)))
    for vm, action in zip(vms, actions, strict=True):
        store.begin_attempt(action, clock.now_s())
        result = enactor.perform(action)
        store.record_result(action.id, result, clock.now_s())
        yield vm, result
