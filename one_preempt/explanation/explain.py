"""A plan as a document for programs: plain objects, ready for JSON, every id a number, every reason code and text.

`tables` shows the same to people. Both only read values: they fetch nothing and decide nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from one_preempt.core.model.image_transfer import ImageOrder
from one_preempt.core.model.lease import LeaseState
from one_preempt.core.model.plan import Action, CandidateSet, Plan, Preemption, Reason, Refusal, Victim
from one_preempt.core.model.power_sequence import HostPowerStep
from one_preempt.core.model.reservation import Booking
from one_preempt.core.model.time import ms_to_seconds

if TYPE_CHECKING:
    from one_preempt.core.model.cluster_state import ClusterState

JsonValue: TypeAlias = bool | int | float | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"] | None
JsonObject: TypeAlias = dict[str, JsonValue]

MAX_TEXT = 200
_ON_HOLD = (LeaseState.REFUSED, LeaseState.INCOMPLETE)


def printable(text: str, limit: int = MAX_TEXT) -> str:
    """`text` on one line without control characters, cut to `limit`: names written by users reach terminals."""
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(char if char.isprintable() else "�" for char in cut)


def plan_document(plan: Plan) -> JsonObject:
    """The whole plan. Instants are seconds since the epoch, durations seconds; `lease` and `preemptor` lease ids.

    A preemption that is `advised_only` stands among the others, its actions apart from those that would be carried out.
    A booking has all reservations of a lease from now on, none where they are withdrawn; `end_at` null: nobody knows.
    """
    return {
        "made_at": plan.made_at_s,
        "policy": plan.policy,
        "actions": [_action(action) for action in plan.actions],
        "preemptions": [
            *(_preemption(preemption, advised_only=False) for preemption in plan.preemptions),
            *(_preemption(preemption, advised_only=True) for preemption in plan.advised),
        ],
        "ended_preemptions": [
            {"id": end.preemption_id, "fulfilled": end.fulfilled, "reason": _reason(end.reason)}
            for end in plan.ended_preemptions
        ],
        "refusals": [refusal_document(refusal) for refusal in plan.refusals],
        "advised_actions": [_action(action) for action in plan.advised_actions],
        "bookings": [_booking(booking) for booking in plan.bookings],
        "verdicts": [
            {"lease": given.lease_id, "verdict": given.verdict.value, "text": given.text} for given in plan.verdicts
        ],
        "power_steps": [_power_step(step) for step in plan.power_steps],
        "advised_power_steps": [_power_step(step) for step in plan.advised_power_steps],
        "image_orders": [_image_order(order) for order in plan.image_orders],
        "advised_image_orders": [_image_order(order) for order in plan.advised_image_orders],
        "wake_at": plan.wake_at_s,
    }


def leases_on_hold(state: ClusterState) -> list[Refusal]:
    """Leases that are not in the queue, and why: their claim is refused, or VMs of them are missing; by their ids."""
    on_hold = [lease for lease in state.leases.values() if lease.state in _ON_HOLD]
    return [
        Refusal(lease.vm_ids, lease.id, Reason(lease.refusal_code, lease.refusal_text))
        for lease in sorted(on_hold, key=lambda lease: lease.id)
    ]


def refusal_document(refusal: Refusal) -> JsonObject:
    """Who gets nothing, and why."""
    return {
        "vm_ids": list(refusal.vm_ids),
        "lease": refusal.lease_id,
        "code": refusal.reason.code,
        "text": refusal.reason.text,
    }


def _power_step(step: HostPowerStep) -> JsonObject:
    return {
        "kind": step.kind.value,
        "host_id": step.host_id,
        "host": step.host_name,
        "reason": {"code": step.reason_code, "text": step.reason_text},
    }


def _image_order(order: ImageOrder) -> JsonObject:
    return {
        "id": order.id,
        "kind": order.kind.value,
        "image_id": order.image_id,
        "host_id": order.host_id,
        "host": printable(order.host_name),
        "size_mib": order.size_mib,
        "begin_at": order.begin_at_s,
        "due_at": order.due_at_s,
        "needed_at": order.needed_at_s,
        "leases": list(order.lease_ids),
        "reason": {"code": order.reason_code, "text": printable(order.reason_text)},
    }


def _booking(booking: Booking) -> JsonObject:
    return {
        "lease": booking.lease_id,
        "reservations": [
            {"start_at": one.start_at_s, "end_at": one.end_at_s, "host_ids": list(one.host_ids), "firm": one.firm}
            for one in booking.reservations
        ],
    }


def _reason(reason: Reason) -> JsonObject:
    return {"code": reason.code, "text": reason.text}


def _action(action: Action) -> JsonObject:
    return {
        "id": action.id,
        "kind": action.kind.value,
        "vm_id": action.vm_id,
        "lease": action.lease_id,
        "host_id": action.host_id,
        "datastore_id": action.datastore_id,
        "after": list(action.after),
        "reason": _reason(action.reason),
        "preemption": action.preemption_id,
    }


def _preemption(preemption: Preemption, *, advised_only: bool) -> JsonObject:
    return {
        "id": preemption.id,
        "advised_only": advised_only,
        "preemptor": preemption.preemptor_lease_id,
        "policy": preemption.policy,
        "victims": [_victim(victim) for victim in preemption.victims],
        "victim_leases": list(preemption.victim_lease_ids),
        "placements": [
            {"vm_id": place.vm_id, "host_id": place.host_id, "datastore_id": place.datastore_id}
            for place in preemption.placements
        ],
        "overhead_s": ms_to_seconds(preemption.overhead_ms),
        "optimal": preemption.optimal,
        "bound_s": ms_to_seconds(preemption.bound_ms),
        "decided_at": preemption.decided_at_s,
        "candidates": [_candidate(candidate) for candidate in preemption.considered],
        "candidate_count": preemption.candidate_count,
        "median_overhead_s": None
        if preemption.median_overhead_ms is None
        else ms_to_seconds(preemption.median_overhead_ms),
    }


def _victim(victim: Victim) -> JsonObject:
    return {
        "vm_id": victim.vm_id,
        "lease": victim.lease_id,
        "host_id": victim.host_id,
        "method": victim.method.value,
        "target_host_id": victim.target_host_id,
    }


def _candidate(candidate: CandidateSet) -> JsonObject:
    return {
        "leases": list(candidate.lease_ids),
        "overhead_s": ms_to_seconds(candidate.overhead_ms),
        "frees_vms": candidate.frees_vms,
    }
