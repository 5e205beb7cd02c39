"""Which sleeping hosts a wish for a time may count on before it is judged: the policy's numbers, as hosts.

The policy is asked for one wish at a time, so that it sees what those before it were promised.
"""

from __future__ import annotations

from collections.abc import Sequence

from one_preempt.core.energy.policy import EmptiableNodes, Occasion
from one_preempt.core.model.lease import Lease
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.power.boot_turns import up_in_turn
from one_preempt.core.phases.power.emptiable_hosts import emptiable_hosts
from one_preempt.core.phases.power.power_draft import PowerDraft
from one_preempt.core.phases.power.supply_question import ask, request_at
from one_preempt.core.phases.reservations.room_ahead import gang_demand, tables_for
from one_preempt.core.phases.room_wanted import RoomWanted


def grant_hosts(draft: PlanDraft, lease: Lease) -> None:
    """A wish for a time that has no answer yet: what of the sleeping hosts may it be promised?"""
    power = draft.power
    if power is None or power.to_come is None or not power.asleep.any():
        return
    if lease.terms.deadline_at_s is not None or not power.asks_policy():
        power.granted[lease.id] = power.asleep
        return
    request = request_at(draft, lease, max(lease.terms.start_at_s or 0, draft.state.now_s))
    binds = not power.rules.policy.puts_off
    if not binds and _fits_awake(draft, request):
        return
    emptiable = (lambda: emptiable_hosts(draft, power).nodes) if binds else EmptiableNodes
    asked = ask(draft, power, Occasion.ARRIVAL, request, emptiable=emptiable)
    decision = power.rules.policy.decide(asked.question)
    in_time = up_in_turn(draft, power, lease, request.start_s, asked.rows_to_wake)
    if decision.ask_again_s is not None:
        power.granted[lease.id] = power.mask_of(in_time)
        return
    chosen = in_time[: decision.wake]
    power.granted[lease.id] = power.mask_of(chosen)
    power.bound.add(lease.id)
    power.to_empty[lease.id] = decision.consolidate
    if binds:
        rest = max(asked.question.nodes_asked - len(chosen), 0)
        _narrow(draft, power, request, (*chosen, *asked.rows_for(rest, packed=decision.packed)))


def grant_all_in_time(draft: PlanDraft, lease: Lease) -> bool:
    """Whether it may count on more than before: no policy's number refuses what hosts could be up for."""
    power = draft.power
    if power is None or power.to_come is None or not power.asleep.any() or lease.terms.deadline_at_s is not None:
        return False
    request = request_at(draft, lease, max(lease.terms.start_at_s or 0, draft.state.now_s))
    asked = ask(draft, power, Occasion.ARRIVAL, request)
    in_time = power.mask_of(up_in_turn(draft, power, lease, request.start_s, asked.rows_to_wake))
    granted = power.granted.get(lease.id)
    if power.narrowed.pop(lease.id, None) is None and granted is not None and not (in_time & ~granted).any():
        return False
    power.granted[lease.id] = in_time if granted is None else in_time | granted
    return True


def _narrow(draft: PlanDraft, power: PowerDraft, request: RoomWanted, rows: Sequence[int]) -> None:
    """It is bound to these rows, as far as it fits on them."""
    power.narrowed[request.lease.id] = power.mask_of(rows)
    tables = tables_for(draft, request.lease)
    demand = gang_demand(draft, request.vms, start_s=request.start_s)
    if all(table.fit_at(demand, request.start_s, request.end_s) is None for table in tables):
        del power.narrowed[request.lease.id]


def _fits_awake(draft: PlanDraft, request: RoomWanted) -> bool:
    """There is room for it on hosts that are on, or on their way, and nobody has to leave."""
    demand = gang_demand(draft, request.vms, start_s=request.start_s)
    return draft.timeline.all_stays.table.fit_at(demand, request.start_s, request.end_s) is not None
