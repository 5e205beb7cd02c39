"""Place what fits now: new requests, preempted leases and VMs to be rescheduled alike, in queue order.

Requests that may preempt come first, so that room which was freed for one of them is not handed to a lease that
would be sent out again at once; then the queue order of the policy. What oned has refused time and again comes
last, so that it does not keep room from others for nothing. Who may overtake whom, and who of those that wait is
promised a start, is the backfilling policy's question.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from one_preempt.core.availability.timed_request import TimedRequest
from one_preempt.core.lease_concerns import RETURNING_STATES, Concern
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.plan import Placement, Reason
from one_preempt.core.model.virtual_machine import LockLevel, VirtualMachine
from one_preempt.core.model.written_time import utc_text
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.promised import is_promised
from one_preempt.core.phases.queue_room import QueueRoom, Turn, lacks_room, promised_stay, start_id
from one_preempt.core.phases.reschedule import marked_vms
from one_preempt.core.phases.room_ahead import booked, takes_s


def waiting_leases(draft: PlanDraft) -> list[Lease]:
    """Leases that want room now, in the order in which they get it."""
    return sorted(_waiting(draft), key=lambda lease: _turn(draft, lease, draft.members(lease)))


def _waiting(draft: PlanDraft) -> list[Lease]:
    return [lease for lease in draft.concerns.all(Concern.QUEUE).values() if lease.id not in draft.busy_leases]


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


def place_waiting(draft: PlanDraft) -> None:
    """Give each waiting lease the room it needs, all its VMs together, or note why it waits; so VMs that move."""
    room = QueueRoom(draft)
    queue = list(_queue(draft))
    requests = [
        TimedRequest(turn.id, turn, None if turn.marked else takes_s(draft, turn.lease, turn.vms)) for turn in queue
    ]
    decision = draft.policies.backfilling.decide(requests, room, draft.state.now_s)
    promised = {one.lease_id: one.start_s for one in decision.promised}
    for turn in queue:
        if turn.id in room.placed:
            start(draft, turn.lease, turn.vms, room.placed[turn.id])
        elif not turn.marked:
            _wait(draft, turn, room, promised.get(turn.id))
    _write_promises(draft, promised)


def _queue(draft: PlanDraft) -> Iterable[Turn]:
    """Whose turn it is to be looked at, first to last; why others are not is noted."""
    turns = [
        (_turn(draft, lease, draft.members(lease)), Turn(lease, tuple(draft.startable(lease))))
        for lease in _waiting(draft)
        if lease.id not in draft.reserved
    ]
    turns += [((*_turn(draft, lease, [vm]), vm.id), Turn(lease, (vm,), marked=True)) for lease, vm in marked_vms(draft)]
    looked_at = 0
    for _, turn in sorted(turns, key=lambda entry: entry[0]):
        if not turn.vms or 0 < draft.policies.match.max_vm <= looked_at:
            continue
        looked_at += len(turn.vms)
        hindrance = None if turn.marked else hindrance_of(draft, turn.lease, turn.vms)
        if hindrance is None:
            yield turn
        else:
            draft.waits[turn.lease.id] = hindrance


def start(draft: PlanDraft, lease: Lease, vms: Iterable[VirtualMachine], placed: Iterable[Placement]) -> None:
    """Add the actions that put the VMs of a lease on the hosts found for them."""
    returning = lease.state in RETURNING_STATES
    for placement in placed:
        action_id = start_id(draft.state.snapshot.vms[placement.vm_id], returning=returning)
        draft.actions.append(draft.deploy(placement, lease, action_id, _why_here(lease, returning)))
    draft.quotas.promise(list(vms))
    draft.busy_leases.add(lease.id)
    draft.starting.add(lease.id)


def _wait(draft: PlanDraft, turn: Turn, room: QueueRoom, promised_at_s: int | None) -> None:
    """Say why it waits, and until when as far as that is known."""
    lease = turn.lease
    unplaced = room.unplaced.get(turn.id)
    if promised_at_s is not None:
        if promised_at_s > draft.state.now_s + 1:
            draft.wake_by(promised_at_s)
            expected = f"at {utc_text(promised_at_s)}"
            draft.statuses[lease.id] = f"waits for room; starts {expected} at the latest as things stand"
        else:
            # Whoever should have ended by now is waited for, not looked at, and not told of, every second.
            expected = "any moment"
            draft.statuses[lease.id] = "waits for room; starts as soon as it is really free"
    if unplaced is not None:
        draft.waits[lease.id] = unplaced.reason
        if lacks_room(unplaced):
            draft.lacking_room.add(lease.id)
    elif promised_at_s is not None:
        draft.waits[lease.id] = Reason("promised", f"waits for room, which is expected {expected}")
    else:
        draft.waits[lease.id] = Reason("behind", "waits behind others in the queue, and must not overtake them")
        draft.lacking_room.add(lease.id)


def _write_promises(draft: PlanDraft, promised: Container[int]) -> None:
    """What the queue was promised, or is promised no more, as far as it has changed."""
    for lease in draft.concerns.ordered(Concern.QUEUE):
        firm = is_promised(draft, lease) and any(one.firm for one in draft.state.reservations.get(lease.id, ()))
        if firm or lease.id in draft.reserved or lease.id in draft.bookings:
            continue
        stay = promised_stay(draft, lease.id) if lease.id in promised else None
        known = draft.timeline.stays.get(lease.id, ())
        if stay is not None and known != (stay,):
            draft.timeline.adopt_promise(stay)
        elif stay is None and known and known[0].promise:
            draft.timeline.drop_promise(lease.id)
        if lease.id not in draft.busy_leases or lease.id in draft.starting:
            draft.book(booked(draft, lease, [stay] if stay is not None else []))


def _why_here(lease: Lease, returning: bool) -> Reason:
    if returning:
        return Reason("return", f"{lease.label} returns: there is room for it again")
    if len(lease.vm_ids) > 1:
        return Reason("fits", f"all {len(lease.vm_ids)} VMs of {lease.label} fit together")
    return Reason("fits", "the best ranked host that matches and has room")


def hindrance_of(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine]) -> Reason | None:
    """What stands against a start though there may be room: a lock, a quota, a refusal a moment ago."""
    locked = next((vm for vm in vms if vm.lock_level is not LockLevel.NONE), None)
    if locked is not None:
        return Reason("locked", f"VM {locked.id} is locked: it starts when it is unlocked")
    quota = draft.quotas.obstacle(vms)
    if quota is not None:
        return Reason("quota", f"{quota} is used up: it starts when the quota allows it")
    returning = lease.state in RETURNING_STATES
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
