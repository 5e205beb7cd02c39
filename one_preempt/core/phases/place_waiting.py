"""Place what fits now: new requests, preempted leases and VMs to be rescheduled alike, in queue order.

Requests that may preempt come first, so that room which was freed for one of them is not handed to a lease that
would be sent out again at once; then the queue order of the policy. What oned has refused time and again comes
last, so that it does not keep room from others for nothing. Who may overtake whom, and who of those that wait is
promised a start, is the backfilling policy's question.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from functools import lru_cache

from one_preempt.core.availability.timed_request import TimedRequest
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.memory.known_queue import QueuePlace, queue_key
from one_preempt.core.memory.lease_concerns import RETURNING_STATES, Concern
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.plan import Placement, Reason
from one_preempt.core.model.quick_construction import quick_constructor
from one_preempt.core.model.virtual_machine import LockLevel, VirtualMachine
from one_preempt.core.model.written_time import utc_text
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.queue.promises import write_promises
from one_preempt.core.phases.queue.queue_room import QueueRoom, lacks_room, start_id
from one_preempt.core.phases.queue.reschedule import marked_vms
from one_preempt.core.queue_turn import Turn
from one_preempt.core.reconciliation.settled_actions import CANCELLED


def waiting_leases(draft: PlanDraft) -> list[Lease]:
    """Leases that want room now, in the order in which they get it."""
    return [
        place.lease
        for place in in_turn(draft)
        if not place.request.demand.marked and place.lease.id not in draft.busy_leases
    ]


def in_turn(draft: PlanDraft) -> Sequence[QueuePlace]:
    """The queue: leases that want room now, and VMs that are to move, in the order in which they get it."""
    concerns, vms = draft.concerns, draft.state.snapshot.vms
    waiting, number = concerns.all(Concern.QUEUE), concerns.queue_number
    places = draft.memory.queue.in_order(waiting, vms, draft.policies, draft.rates, number)
    marked = [_marked_place(draft, lease, vm) for lease, vm in marked_vms(draft)]
    if not marked and not draft.failed_lease_ids:
        return places
    return sorted([*places, *marked], key=lambda place: (refused_too_often(draft, place.lease), place.key))


def _marked_place(draft: PlanDraft, lease: Lease, vm: VirtualMachine) -> QueuePlace:
    key = (*queue_key(draft.policies, lease, [vm]), vm.id)
    return QueuePlace(key, Turn(lease, (vm,), marked=True).lasting(None), free_to_start=True)


def refused_too_often(draft: PlanDraft, lease: Lease) -> bool:
    """A start of one of its VMs has failed as often as a step is tried, inside `victim_retry_s`."""
    limits, now_s = draft.policies.limits, draft.state.now_s
    return any(
        record.attempts >= limits.attempts and now_s - limits.victim_retry_s <= (record.closed_at_s or 0) <= now_s
        for record in draft.failed_starts(lease.id)
    )


def place_waiting(draft: PlanDraft) -> None:
    """Give each waiting lease the room it needs, all its VMs together, or note why it waits; so VMs that move."""
    queue = _queue(draft)
    room = QueueRoom(draft)
    decision = draft.policies.backfilling.decide(queue, room, draft.state.now_s)
    promised = {one.lease_id: one.start_s for one in decision.promised}
    for request in queue:
        turn, placed = request.demand, room.placed.get(request.lease_id)
        if placed is not None:
            start(draft, turn.lease, turn.vms, placed)
        elif not turn.marked:
            _wait(draft, turn, room.unplaced.get(request.lease_id), promised.get(request.lease_id))
    write_promises(draft, promised)


def _queue(draft: PlanDraft) -> list[TimedRequest[Turn]]:
    """Whose turn it is to be looked at, first to last; why others are not is noted."""
    queue = []
    aside, tried, most_vms = draft.busy_leases | draft.reserved, tried_lately(draft), draft.policies.match.max_vm
    vms = 0
    for place in in_turn(draft):
        turn = place.request.demand
        lease_id = turn.lease.id
        if not turn.vms or (lease_id in aside and not turn.marked) or 0 < most_vms <= vms:
            continue
        vms += len(turn.vms)
        if not turn.marked and (lease_id in tried or not place.free_to_start):
            hindrance = hindrance_of(draft, turn.lease, turn.vms)
            if hindrance is not None:
                draft.waits[lease_id] = hindrance
                continue
        queue.append(place.request)
    return queue


def tried_lately(draft: PlanDraft) -> Set[int | None]:
    """The leases of whose VMs anything was asked lately; of all others oned has refused none. Found once in a cycle."""
    if draft.tried is None:
        state = draft.state
        records = (*state.actions.values(), *state.failed_actions)
        draft.tried = {state.lease_of_vm.get(record.vm_id) for record in records}
    return draft.tried


def start(draft: PlanDraft, lease: Lease, vms: Iterable[VirtualMachine], placed: Iterable[Placement]) -> None:
    """Add the actions that put the VMs of a lease on the hosts found for them."""
    returning = lease.state in RETURNING_STATES
    reason = _why_here(lease, returning)
    for placement in placed:
        action_id = start_id(draft.state.snapshot.vms[placement.vm_id], returning=returning)
        draft.actions.append(draft.deploy(placement, lease, action_id, reason))
    draft.quotas.promise(list(vms))
    draft.busy_leases.add(lease.id)
    draft.starting.add(lease.id)


def _wait(draft: PlanDraft, turn: Turn, unplaced: Unplaced | None, promised_at_s: int | None) -> None:
    """Say why it waits, and until when as far as that is known."""
    lease_id, told = turn.lease.id, _BEHIND
    if promised_at_s is not None:
        soon = promised_at_s <= draft.state.now_s + 1
        told, draft.statuses[lease_id] = _EXPECTED_ANY_MOMENT if soon else _expected(promised_at_s)
        if not soon:
            # Whoever should have ended by now is waited for, not looked at, and not told of, every second.
            draft.wake_by(promised_at_s)
    draft.waits[lease_id] = told if unplaced is None else unplaced.reason
    # A promise that is kept was not looked at further: who may preempt does not wait for its time.
    kept = promised_at_s is not None and not turn.lease.preempts
    if lacks_room(unplaced) if unplaced is not None else not kept:
        draft.lacking_room.add(lease_id)


_reason = quick_constructor(Reason)
_ALONE = Reason("fits", "the best ranked host that matches and has room")
_BEHIND = Reason("behind", "waits behind others in the queue, and must not overtake them")
_EXPECTED_ANY_MOMENT = (
    Reason("promised", "waits for room, which is expected any moment"),
    "waits for room; starts as soon as it is really free",
)


@lru_cache(maxsize=4096)
def _expected(at_s: int) -> tuple[Reason, str]:
    """Why a lease waits that is promised a start, and what its owner is told."""
    expected = f"at {utc_text(at_s)}"
    told = f"waits for room; starts {expected} at the latest as things stand"
    return Reason("promised", f"waits for room, which is expected {expected}"), told


def _why_here(lease: Lease, returning: bool) -> Reason:
    if returning:
        return Reason("return", f"{lease.label} returns: there is room for it again")
    if len(lease.vm_ids) > 1:
        return _reason("fits", f"all {len(lease.vm_ids)} VMs of {lease.label} fit together")
    return _ALONE


def lock_on(vms: Sequence[VirtualMachine]) -> Reason | None:
    """A lock on one of them, which keeps all from starting."""
    locked = next((vm for vm in vms if vm.lock_level is not LockLevel.NONE), None)
    return None if locked is None else Reason("locked", f"VM {locked.id} is locked: it starts when it is unlocked")


def being_cancelled(draft: PlanDraft, lease: Lease) -> Reason | None:
    """An administrator's command is ending its VMs, one after the other."""
    records = draft.state.actions.values()
    if any(one.lease_id == lease.id and one.reason_code == CANCELLED for one in records):
        return Reason(CANCELLED, "an administrator is cancelling it")
    return None


def hindrance_of(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine]) -> Reason | None:
    """What stands against a start though there may be room: a lock, a quota, a refusal a moment ago."""
    lock = lock_on(vms)
    if lock is not None:
        return lock
    quota = draft.quotas.obstacle(vms)
    if quota is not None:
        return Reason("quota", f"{quota} is used up: it starts when the quota allows it")
    if lease.id not in tried_lately(draft):
        return None
    cancelled = being_cancelled(draft, lease)
    if cancelled is not None:
        return cancelled
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
