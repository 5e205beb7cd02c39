"""Place what fits now: new requests, preempted leases and VMs to be rescheduled alike, in queue order.

Requests that may preempt come first, so that room which was freed for one of them is not handed to a lease that
would be sent out again at once; then the queue order of the policy. What oned has refused time and again comes
last, so that it does not keep room from others for nothing.
"""

from __future__ import annotations

from one_preempt.core.matching import reasons
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.model.lease import Lease, LeaseState
from one_preempt.core.model.plan import Placement, Reason
from one_preempt.core.model.virtual_machine import LockLevel, VirtualMachine
from one_preempt.core.phases.draft import WAITING_STATES, PlanDraft
from one_preempt.core.phases.reschedule import marked_vms, reschedule


def waiting_leases(draft: PlanDraft) -> list[Lease]:
    """Leases that want room now, in the order in which they get it."""
    return sorted(_waiting(draft), key=lambda lease: _turn(draft, lease, draft.members(lease)))


def _waiting(draft: PlanDraft) -> list[Lease]:
    return [
        lease
        for lease in draft.state.leases.values()
        if lease.state in WAITING_STATES and lease.id not in draft.busy_leases and _is_due(draft, lease)
    ]


def _turn(draft: PlanDraft, lease: Lease, vms: list[VirtualMachine]) -> tuple[float, ...]:
    """When `vms` of a lease are served: lowest first."""
    return (refused_too_often(draft, lease), not lease.preempts, *draft.policies.queue_order.key(lease, vms))


def refused_too_often(draft: PlanDraft, lease: Lease) -> bool:
    """A start of one of its VMs has failed as often as a step is tried, inside `victim_retry_s`."""
    limits, now_s = draft.policies.limits, draft.state.now_s
    return any(
        record.attempts >= limits.attempts and now_s - limits.victim_retry_s <= (record.closed_at_s or 0) <= now_s
        for record in draft.failed_starts(lease.id)
    )


def _is_due(draft: PlanDraft, lease: Lease) -> bool:
    """A START in the future is waited for."""
    start_at_s = lease.terms.start_at_s
    if start_at_s is None or start_at_s <= draft.state.now_s:
        return True
    draft.wake_by(start_at_s)
    draft.statuses[lease.id] = "waits for its START"
    return False


def place_waiting(draft: PlanDraft) -> None:
    """Give each waiting lease the room it needs, all its VMs together, or note why it waits; so VMs that move."""
    turns: list[tuple[tuple[float, ...], Lease, VirtualMachine | None]] = [
        (_turn(draft, lease, draft.members(lease)), lease, None) for lease in _waiting(draft)
    ]
    turns += [((*_turn(draft, lease, [vm]), vm.id), lease, vm) for lease, vm in marked_vms(draft)]
    looked_at = 0
    for _, lease, marked in sorted(turns, key=lambda turn: turn[0]):
        vms = draft.startable(lease) if marked is None else [marked]
        if not vms or 0 < draft.policies.match.max_vm <= looked_at:
            continue
        looked_at += len(vms)
        if marked is None:
            _place(draft, lease, vms)
        else:
            reschedule(draft, lease, marked)


def _place(draft: PlanDraft, lease: Lease, vms: list[VirtualMachine]) -> None:
    hindrance = _hindrance(draft, lease, vms)
    if hindrance is not None:
        draft.waits[lease.id] = hindrance
        return
    returning = lease.state in (LeaseState.PREEMPTED, LeaseState.RETURNING)
    first_id = start_id(vms[0], returning=returning)
    placed = _find_room(draft, vms, first_id, paced=not (returning or lease.preempts))
    if isinstance(placed, Unplaced):
        draft.waits[lease.id] = placed.reason
        if _lacks_room(placed):
            draft.lacking_room.add(lease.id)
        return
    for placement in placed:
        action_id = start_id(draft.state.snapshot.vms[placement.vm_id], returning=returning)
        draft.actions.append(draft.deploy(placement, lease, action_id, _why_here(lease, returning)))
    draft.quotas.promise(vms)
    draft.busy_leases.add(lease.id)
    draft.starting.add(lease.id)


def _find_room(
    draft: PlanDraft, vms: list[VirtualMachine], action_id: str, *, paced: bool
) -> tuple[Placement, ...] | Unplaced:
    """MAX_HOST and MAX_DISPATCH pace ordinary VMs; what is owed, or may preempt, is not held up by them."""
    if len(vms) > 1:
        return draft.matchmaker.place_together(vms, draft.room)
    refused_host_id = draft.refused_host_id(action_id)
    placed = draft.matchmaker.place(vms[0], draft.room, limited=paced, after_host_id=refused_host_id)
    return placed if isinstance(placed, Unplaced) else (placed,)


def _lacks_room(unplaced: Unplaced) -> bool:
    """Some host would do if others left it."""
    return any(unplaced.counts.get(code) for code in (reasons.CAPACITY, reasons.DEVICES))


def start_id(vm: VirtualMachine, *, returning: bool) -> str:
    """The id of the action that starts `vm`: another one for each stay on a host."""
    return f"{'return' if returning else 'deploy'}/{vm.id}/{len(vm.history)}"


def _why_here(lease: Lease, returning: bool) -> Reason:
    if returning:
        return Reason("return", f"{lease.label} returns: there is room for it again")
    if len(lease.vm_ids) > 1:
        return Reason("fits", f"all {len(lease.vm_ids)} VMs of {lease.label} fit together")
    return Reason("fits", "the best ranked host that matches and has room")


def _hindrance(draft: PlanDraft, lease: Lease, vms: list[VirtualMachine]) -> Reason | None:
    """What stands against a start though there may be room: a lock, a quota, a refusal a moment ago."""
    locked = next((vm for vm in vms if vm.lock_level is not LockLevel.NONE), None)
    if locked is not None:
        return Reason("locked", f"VM {locked.id} is locked: it starts when it is unlocked")
    quota = draft.quotas.obstacle(vms)
    if quota is not None:
        return Reason("quota", f"{quota} is used up: it starts when the quota allows it")
    returning = lease.state in (LeaseState.PREEMPTED, LeaseState.RETURNING)
    for vm in vms:
        action_id = start_id(vm, returning=returning)
        record = draft.last_attempt(action_id)
        if record is not None and draft.must_pause_before(action_id, _pause_s(draft, lease, record.attempts)):
            answer = record.error_text or "it fell back"
            return Reason("refused", f"VM {vm.id} was not started: {answer}; it is tried again")
    return None


def _pause_s(draft: PlanDraft, lease: Lease, attempts: int) -> int:
    """A gang whose members had to be stopped again waits longer, so that it does not start and stop for ever."""
    enactment = draft.policies.enactment
    if lease.terms.size > 1 and attempts >= enactment.gang_attempts:
        return draft.policies.limits.victim_retry_s
    return enactment.retry_delay_s
