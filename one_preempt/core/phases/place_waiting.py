"""Place what fits now: new requests, preempted leases and VMs to be rescheduled alike, in queue order.

Requests that may preempt come first, so that room which was freed for one of them is not handed to a lease that
would be sent out again at once; then the queue order of the policy. What oned has refused time and again comes
last, so that it does not keep room from others for nothing. Who may overtake whom, and who of those that wait is
promised a start, is the backfilling policy's question.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from one_preempt.core.availability.timed_request import TimedRequest
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.plan import Reason
from one_preempt.core.model.written_time import utc_text
from one_preempt.core.owner_use.measuring import MEASURED_EVERY_S
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.queue.promises import write_promises
from one_preempt.core.phases.queue.queue_room import QueueRoom, lacks_room
from one_preempt.core.phases.queue.starts import hindrance_of, start
from one_preempt.core.phases.queue.turns import NOT_LOOKED_AT, in_turn
from one_preempt.core.queue_turn import Turn, is_to_start_at_once


def place_waiting(draft: PlanDraft) -> None:
    """Give each waiting lease the room it needs, all its VMs together, or note why it waits; so VMs that move."""
    queue = _queue(draft)
    room = QueueRoom(draft, queue)
    decision = draft.policies.backfilling.decide(queue, room, draft.state.now_s)
    promised = {one.lease_id: one.start_s for one in decision.promised}
    placed, unplaced = room.placed, room.unplaced
    for request in queue:
        turn, lease_id = request.demand, request.lease_id
        if lease_id in placed:
            start(draft, turn.lease, turn.vms, placed[lease_id])
        elif not turn.marked:
            _wait(draft, turn.lease, unplaced.get(lease_id), promised.get(lease_id))
    write_promises(draft, promised)
    if draft.state.use.owners:
        _wake_for_another_order(draft, queue)


def _queue(draft: PlanDraft) -> list[TimedRequest[Turn]]:
    """Whose turn it is to be looked at, first to last; why others are not is noted."""
    queue = []
    aside, tried = draft.busy_leases | draft.reserved, draft.attempts.tried_lease_ids
    most_vms = draft.policies.match.max_vm
    vms = 0
    for place in in_turn(draft):
        # A VM that moves has an id of its own, which nothing keeps aside.
        request = place.request
        turn, lease_id = request.demand, request.lease_id
        if not turn.vms or lease_id in aside:
            continue
        if most_vms > 0:
            # Who wants to start at once has no turn in another cycle.
            if vms >= most_vms and (turn.marked or not is_to_start_at_once(turn.lease)):
                if not turn.marked:
                    draft.waits[lease_id] = _not_looked_at(most_vms)
                continue
            vms += len(turn.vms)
        if lease_id in tried or place.is_locked or (place.counted_anew and draft.quotas.limit_any(place.counted_anew)):
            hindrance = hindrance_of(draft, turn.lease, turn.vms)
            if hindrance is not None:
                draft.waits[lease_id] = hindrance
                continue
        queue.append(request)
    return queue


def _wake_for_another_order(draft: PlanDraft, queue: Sequence[TimedRequest[Turn]]) -> None:
    """Where others of another owner wait, too, one of them may come first once what they use is measured anew."""
    # The leases of one owner stand together.
    owners = {(request.demand.lease.gid, request.demand.lease.uid) for request in (*queue[:1], *queue[-1:])}
    measured_at_s = draft.state.use.measured_at_s
    if len(owners) > 1 and measured_at_s is not None:
        draft.wake_by(measured_at_s + MEASURED_EVERY_S)


def _wait(draft: PlanDraft, lease: Lease, unplaced: Unplaced | None, promised_at_s: int | None) -> None:
    """Say why it waits, until when as far as that is known, and whether it would start if there were more room now.

    `unplaced` is None for whoever was not looked at in its turn.
    """
    told = _BEHIND
    is_put_off = unplaced is not None and unplaced.is_put_off
    if promised_at_s is not None and not is_put_off:
        soon = promised_at_s <= draft.state.now_s + 1
        told, draft.statuses[lease.id] = _EXPECTED_ANY_MOMENT if soon else _expected(promised_at_s)
        if not soon:
            # Whoever should have ended by now is waited for, not looked at, and not told of, every second.
            draft.wake_by(promised_at_s)
    if unplaced is not None:
        told, lacks = unplaced.reason, lacks_room(unplaced)
    else:
        # Whose promise is kept waits for its time, unless it may preempt: then it waits for nobody.
        lacks = promised_at_s is None or lease.preempts
    draft.waits[lease.id] = told
    if lacks:
        draft.lacking_room.add(lease.id)


def _not_looked_at(most_vms: int) -> Reason:
    # Not `behind`: hosts are woken for who waits for room, and nobody has looked whether this one would start there.
    return Reason(NOT_LOOKED_AT, f"waits behind others in the queue, of which {most_vms} VMs are looked at in a cycle")


_BEHIND = Reason("behind", "waits behind others in the queue, and must not overtake them")
_EXPECTED_ANY_MOMENT = (
    Reason("promised", "waits for room, which is expected any moment"),
    "waits for room; starts as soon as the room is actually free",
)


@lru_cache(maxsize=4096)
def _expected(at_s: int) -> tuple[Reason, str]:
    """Why a lease waits that is promised a start, and what its owner is told."""
    expected = f"at {utc_text(at_s)}"
    told = f"waits for room; starts {expected} at the latest as things stand"
    return Reason("promised", f"waits for room, which is expected {expected}"), told
