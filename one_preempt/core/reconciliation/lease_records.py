"""The records of leases as they are to be written: ended, sent out by us, running, or back again."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.lease_status import LEASE_STATUS, preemptor_in_status, says_leaving
from one_preempt.core.model.lease import LeaseState
from one_preempt.core.model.lease_lifecycle import VmPhase, lease_state, phase_of
from one_preempt.core.model.ledger import ActionRecord, LeaseRecord, Ledger
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.virtual_machine import HistoryAction, VirtualMachine
from one_preempt.core.reconciliation.in_place import was_in_place
from one_preempt.core.reconciliation.paused_members import told_paused, with_paused
from one_preempt.core.reconciliation.served_time import clocked
from one_preempt.core.reconciliation.settled_actions import SENDING_OUT
from one_preempt.core.reconciliation.watch import Watch

_ON_THE_WAY_OUT = (VmPhase.LEAVING, VmPhase.OUT)
_WAYS_OUT = (HistoryAction.STOP, HistoryAction.UNDEPLOY, HistoryAction.UNDEPLOY_HARD)
_IN_PLACE = (HistoryAction.SUSPEND,)


def adopted(record: LeaseRecord, ledger: Ledger, snapshot: PoolSnapshot) -> LeaseRecord:
    """A lease that is new to the ledger and yet was sent out, as its LEASE_STATUS says: the ledger was lost.

    Its owner could have written that too; all it may bring is that the owner's own stopped VM is started again. So only
    where the ledger knows of no lease at all a lock counts as ours, and the suspension as one of MAX_SUSPENSIONS, after
    which the lease is spared and has room promised for its return.
    """
    if record.id in ledger.leases or not record.terms.type.returns:
        return record
    vms = snapshot.vms
    told = [vms[vm_id] for vm_id in record.vm_ids if vm_id in vms and LEASE_STATUS in vms[vm_id].user_template]
    preemptors = [
        preemptor_in_status(vm)
        for vm in told
        if phase_of(vm) is VmPhase.OUT or (not ledger.leases and was_in_place(vm, snapshot.own_uid))
    ]
    preemptor = next((lease_id for lease_id in preemptors if lease_id is not None), None)
    if preemptor is None:
        return record
    preemptions, paused_vm_ids = int(not ledger.leases), told_paused(told)
    return replace(record, preempted_by=preemptor, preemptions=preemptions, paused_vm_ids=paused_vm_ids)


class RecordUpdate(Struct, frozen=True):
    """What the records are held against: VMs as they are watched, who was sent out or rests.

    `stayed` are actions of ours seen to have failed just now. `victims` are leases for whose room a preemption was
    decided that is not over.
    """

    snapshot: PoolSnapshot
    watch: Watch
    sent_out: Mapping[int, ActionRecord]
    stayed: Sequence[ActionRecord]
    resting: Container[int]
    victims: Container[int]

    def of(self, records: Mapping[int, LeaseRecord]) -> dict[int, LeaseRecord]:
        """Those of `records` that changed. Where a VM cannot be read, nothing is concluded."""
        vms, unreadable = self.snapshot.vms, self.snapshot.unreadable_vm_ids
        updated: dict[int, LeaseRecord] = {}
        for lease_id, record in records.items():
            if record.ended_at_s is not None or (unreadable and not unreadable.isdisjoint(record.vm_ids)):
                continue
            changed = self._changed(record, [vms[vm_id] for vm_id in record.vm_ids if vm_id in vms])
            if changed is not record:
                updated[lease_id] = changed
        return updated

    def _changed(self, record: LeaseRecord, present: Sequence[VirtualMachine]) -> LeaseRecord:
        now_s = self.watch.now_s
        if not present:
            return replace(record, ended_at_s=now_s)
        sent_out = self.sent_out.get(record.id)
        is_sent_out = sent_out is not None or record.preempted_by is not None
        record = with_paused(record, present, self.resting, is_sent_out=is_sent_out)
        record = clocked(record, present, self.watch, sent_out=sent_out, resting=self.resting)
        if sent_out is not None:
            return _mark_preempted(record, sent_out, now_s)
        if record.preempted_by is None:
            return record if self.watch.is_close else _recalled(record, present, self.snapshot.own_uid, now_s)
        return self._back(record) if self._is_back(record, present) else record

    def _back(self, record: LeaseRecord) -> LeaseRecord:
        """It runs again. What was to be saved and could not be has not been preempted."""
        stayed = any(
            one.lease_id == record.id and one.kind in SENDING_OUT and one.preemption_id is not None
            for one in self.stayed
            if preemptor_of(one) == record.preempted_by
        )
        return replace(record, preempted_by=None, preemptions=max(0, record.preemptions - stayed))

    def _is_back(self, record: LeaseRecord, present: Sequence[VirtualMachine]) -> bool:
        """It runs again, as far as its owner has not paused it."""
        if record.paused_vm_ids:
            if record.id in self.victims:
                # What has left of it had been paused: the others may only not have left yet.
                return False
            present = [vm for vm in present if vm.id not in record.paused_vm_ids]
        return lease_state(present, preempted=True, in_place=self.resting) is LeaseState.RUNNING


def _mark_preempted(record: LeaseRecord, sent_out: ActionRecord, now_s: int) -> LeaseRecord:
    """Count a preemption once, however many VMs and cycles it takes."""
    if record.preempted_by is not None:
        return record
    return replace(
        record,
        preempted_by=preemptor_of(sent_out),
        preemptions=record.preemptions + (sent_out.preemption_id is not None),
        last_preempted_at_s=sent_out.outcome_at_s or now_s,
    )


def _recalled(record: LeaseRecord, present: Sequence[VirtualMachine], own_uid: int, now_s: int) -> LeaseRecord:
    """The same sent out, where the ledger was written before that, as one restored from a backup was.

    oned tells who stopped a VM or suspended it, and its owner cannot write that. LEASE_STATUS says that it was for
    others: an administrator may use the account of the scheduler. Whoever watched a moment ago would know of it.
    """
    if not record.terms.type.returns:
        return record
    for vm in present:
        if LEASE_STATUS not in vm.user_template:
            continue
        preemptor = preemptor_in_status(vm)
        told = preemptor is not None or says_leaving(vm)
        if (told and _was_asked_for_by(own_uid, vm, _WAYS_OUT) and phase_of(vm) in _ON_THE_WAY_OUT) or (
            was_in_place(vm, own_uid) and _was_asked_for_by(own_uid, vm, _IN_PLACE)
        ):
            return replace(
                record,
                preempted_by=record.id if preemptor is None else preemptor,
                preemptions=record.preemptions + 1,
                paused_vm_ids=told_paused(present),
                last_preempted_at_s=min(vm.history[-1].end_at_s or now_s, now_s),
            )
    return record


def _was_asked_for_by(uid: int, vm: VirtualMachine, actions: Container[int]) -> bool:
    """What was done to it last is one of these, and this user asked for that."""
    return bool(vm.history) and vm.history[-1].action in actions and vm.history[-1].action_uid == uid


def preemptor_of(record: ActionRecord) -> int:
    """The lease that an action made room for, written at the head of the preemption's id; else the lease itself."""
    head = (record.preemption_id or "").partition("@")[0]
    return int(head) if head.isdigit() else record.lease_id
