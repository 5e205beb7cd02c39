"""A preemption as it is decided upon: a value of the plan, under an id of its own."""

from __future__ import annotations

from one_preempt.core.model.lease import Lease
from one_preempt.core.model.modes_and_limits import Mode
from one_preempt.core.model.plan import Placement, Preemption, Victim
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.preempting.lease_prices import price_of
from one_preempt.core.phases.room_wanted import RoomWanted
from one_preempt.core.preemption.problem import Choice


def decided_preemption(
    draft: PlanDraft,
    wanted: RoomWanted,
    choice: Choice,
    victims: tuple[Victim, ...],
    placements: tuple[Placement, ...],
) -> Preemption:
    """The decision as a value; its overhead is that of the methods which are really taken."""
    state = draft.state
    vms = state.snapshot.vms
    of_leases = [[one for one in victims if one.lease_id == lease_id] for lease_id in sorted(choice.lease_ids)]
    prices = [price_of(draft, [vms[one.vm_id] for one in those], [one.method for one in those]) for those in of_leases]
    delta_ms = draft.policies.overhead.reschedule_ms if any(price.reschedules for price in prices) else 0
    return Preemption(
        id=_new_id(draft, wanted.lease),
        preemptor_lease_id=wanted.lease.id,
        victims=victims,
        placements=placements,
        policy=draft.policies.preemption.name,
        overhead_ms=sum(price.overhead_ms for price in prices) + delta_ms,
        optimal=choice.optimal,
        bound_ms=choice.bound_ms,
        decided_at_s=state.now_s,
        considered=choice.considered,
        candidate_count=choice.candidate_count,
        median_overhead_ms=choice.median_overhead_ms,
    )


def _new_id(draft: PlanDraft, lease: Lease) -> str:
    """By the lease and the second; another than that of what was decided for it, and is given up, in the same one."""
    if draft.policies.mode is not Mode.ACT:
        return f"{lease.id}@advice"
    now_s = draft.state.now_s
    decided = [one.preemption for one in draft.state.preemptions if one.preemption.preemptor_lease_id == lease.id]
    numbers = [int(one.id.partition("-")[2] or 1) for one in decided if one.decided_at_s == now_s]
    return f"{lease.id}@{now_s}-{max(numbers) + 1}" if numbers else f"{lease.id}@{now_s}"
