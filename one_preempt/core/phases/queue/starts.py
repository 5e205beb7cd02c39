"""A start: what stands against it though there may be room, and the actions that put VMs on their hosts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from one_preempt.core.memory.lease_concerns import RETURNING_STATES
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.ledger import ActionRecord
from one_preempt.core.model.plan import Placement, Reason
from one_preempt.core.model.virtual_machine import LockLevel, VirtualMachine
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.queue.queue_room import start_id
from one_preempt.core.phases.reservations.promised import is_promised
from one_preempt.core.reconciliation.settled_actions import CANCELLED


def start(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], placed: Sequence[Placement]) -> None:
    """Add the actions that put the VMs of a lease on the hosts found for them; `placed` are in the order of `vms`."""
    returning = lease.state in RETURNING_STATES
    reason = _why_here(lease, returning)
    draft.actions += [
        draft.deploy(placement, vm, lease, start_id(vm, returning=returning), reason)
        for vm, placement in zip(vms, placed, strict=True)
    ]
    draft.quotas.promise(vms)
    draft.busy_leases.add(lease.id)
    draft.starting.add(lease.id)


_ALONE = Reason("fits", "the best ranked host that matches and has room")


def _why_here(lease: Lease, returning: bool) -> Reason:
    if returning:
        return Reason("return", f"{lease.label} returns: there is room for it again")
    if len(lease.vm_ids) > 1:
        return Reason("fits", f"all {len(lease.vm_ids)} VMs of {lease.label} fit together")
    return _ALONE


def lock_on(vms: Sequence[VirtualMachine]) -> Reason | None:
    """A lock on one of them, which keeps all from starting."""
    locked = next((vm for vm in vms if vm.lock_level is not LockLevel.NONE), None)
    return None if locked is None else Reason("locked", f"VM {locked.id} is locked: it starts when it is unlocked")


def bar_to(draft: PlanDraft, vms: Sequence[VirtualMachine]) -> Reason | None:
    """What keeps them from starting until somebody sees to it, whatever room there is: a lock, or a quota."""
    lock = lock_on(vms)
    if lock is not None:
        return lock
    quota = draft.quotas.obstacle(vms)
    return None if quota is None else Reason("quota", f"{quota} is used up: it starts when the quota allows it")


def being_cancelled(draft: PlanDraft, lease: Lease) -> Reason | None:
    """An administrator's command is ending its VMs, one after the other."""
    records = draft.state.actions.values()
    if any(one.lease_id == lease.id and one.reason_code == CANCELLED for one in records):
        return Reason(CANCELLED, "an administrator is cancelling it")
    return None


def hindrance_of(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine]) -> Reason | None:
    """What stands against a start though there may be room: a lock, a quota, a refusal a moment ago."""
    bar = bar_to(draft, vms)
    if bar is not None or lease.id not in draft.attempts.tried_lease_ids:
        return bar
    cancelled = being_cancelled(draft, lease)
    if cancelled is not None:
        return cancelled
    for record in _last_starts(draft, lease, vms):
        if draft.attempts.must_pause_before(record.id, _pause_s(draft, lease, record.attempts)):
            answer = record.error_text or "it went back to its former state"
            return Reason("refused", f"VM {record.vm_id} was not started: {answer}; it is tried again")
    return None


def is_refused_for_long(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine]) -> bool:
    """oned has refused to start it so often in a row that hosts which are kept for it are kept for nothing."""
    if lease.id not in draft.attempts.tried_lease_ids:
        return False
    enactment, is_alone = draft.policies.enactment, lease.terms.size == 1
    refusals = [one.attempts for one in _last_starts(draft, lease, vms) if one.succeeded is False]
    return any(enactment.is_tried_in_vain(one) if is_alone else one >= enactment.gang_attempts for one in refusals)


def _last_starts(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine]) -> Iterator[ActionRecord]:
    """The last try to start each of these VMs, where there was one lately."""
    returning = lease.state in RETURNING_STATES
    for vm in vms:
        record = draft.attempts.last(start_id(vm, returning=returning))
        if record is not None:
            yield record


def _pause_s(draft: PlanDraft, lease: Lease, attempts: int) -> int:
    """Before a start is tried once more.

    A gang whose members had to be stopped again waits longer, so that it does not start and stop for ever. Before that
    its members are tried at the usual pace, for the others run meanwhile.
    """
    enactment = draft.policies.enactment
    if lease.terms.size > 1:
        return draft.policies.limits.victim_retry_s if attempts >= enactment.gang_attempts else enactment.retry_delay_s
    return enactment.pause_while_kept_s(attempts) if is_promised(draft, lease) else enactment.pause_s(attempts)
