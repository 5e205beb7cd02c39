"""Whose turn it is: leases that want room now, and VMs that are to move, in the order in which they get it."""

from __future__ import annotations

from collections.abc import Sequence

from one_preempt.core.memory.lease_concerns import Concern
from one_preempt.core.memory.remembered_queue import QueuePlace, queue_key
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.queue.reschedule import marked_vms
from one_preempt.core.queue_turn import Turn

# Why those wait who have no turn in a cycle, for as many VMs as are looked at stand before them.
NOT_LOOKED_AT = "not-looked-at"


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
    places = draft.memory.queue.in_order(waiting, vms, draft.policies, draft.rates, number, draft.state.use)
    marked = [_marked_place(draft, lease, vm) for lease, vm in marked_vms(draft)]
    if not marked and not draft.attempts.failed_lease_ids:
        return places
    return sorted([*places, *marked], key=lambda place: (refused_too_often(draft, place.lease), place.key))


def _marked_place(draft: PlanDraft, lease: Lease, vm: VirtualMachine) -> QueuePlace:
    key = (*queue_key(draft.policies, lease, [vm], draft.state.use), vm.id)
    return QueuePlace(key, Turn(lease, (vm,), marked=True).lasting(None), is_locked=False, counted_anew=frozenset())


def refused_too_often(draft: PlanDraft, lease: Lease) -> bool:
    """A start of one of its VMs has failed as often as a step is tried, inside `victim_retry_s`."""
    limits, now_s = draft.policies.limits, draft.state.now_s
    return any(
        record.attempts >= limits.attempts and now_s - limits.victim_retry_s <= (record.closed_at_s or 0) <= now_s
        for record in draft.attempts.failed_starts(lease.id)
    )
