"""Which sleeping hosts a wish for a time may count on before it is judged: the policy's numbers, as hosts.

The policy is asked for one wish at a time, so that it sees what those before it were promised.
"""

from __future__ import annotations

from msgspec.structs import replace

from one_preempt.core.energy.policy import EmptiableNodes, Occasion
from one_preempt.core.model.lease import Lease
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.power.boot_turns import up_in_turn
from one_preempt.core.phases.power.emptiable_hosts import emptiable_hosts
from one_preempt.core.phases.power.power_draft import Grant
from one_preempt.core.phases.power.supply_question import ask, request_at
from one_preempt.core.phases.reservations.demand_ahead import gang_demand
from one_preempt.core.phases.reservations.room_ahead import tables_for
from one_preempt.core.phases.room_wanted import RoomWanted


def grant_hosts(draft: PlanDraft, lease: Lease) -> None:
    """A wish for a time that has no answer yet: what of the sleeping hosts may it be promised?"""
    power = draft.power
    if power is None or not power.asleep.any():
        return
    if lease.terms.deadline_at_s is not None or not power.asks_policy():
        power.grants[lease.id] = Grant(power.asleep)
        return
    request = request_at(draft, lease, max(lease.terms.start_at_s or 0, draft.state.now_s))
    binds = not power.rules.policy.puts_off
    if not binds and _fits_awake(draft, request):
        return
    find_emptiable = (lambda: emptiable_hosts(draft, power).nodes) if binds else EmptiableNodes
    asked = ask(draft, power, Occasion.ARRIVAL, request, find_emptiable=find_emptiable)
    decision = power.rules.policy.decide(asked.question)
    in_time = up_in_turn(draft, power, lease, request.start_s, asked.rows_to_wake)
    if decision.ask_again_s is not None:
        power.grants[lease.id] = Grant(power.mask_of(in_time))
        return
    chosen = in_time[: decision.wake]
    grant = Grant(power.mask_of(chosen), is_bound=True, to_empty=decision.consolidate)
    power.grants[lease.id] = grant
    if binds:
        rest = max(asked.question.nodes_asked - len(chosen), 0)
        only = power.mask_of((*chosen, *asked.rows_for(rest, packed=decision.packed)))
        power.grants[lease.id] = replace(grant, only=only)
        if not _fits_as_granted(draft, request):
            power.grants[lease.id] = grant


def grant_all_in_time(draft: PlanDraft, lease: Lease) -> bool:
    """Whether it may count on more than before: no policy's number refuses what hosts could be up for."""
    power = draft.power
    if power is None or not power.asleep.any() or lease.terms.deadline_at_s is not None:
        return False
    request = request_at(draft, lease, max(lease.terms.start_at_s or 0, draft.state.now_s))
    asked = ask(draft, power, Occasion.ARRIVAL, request)
    in_time = power.mask_of(up_in_turn(draft, power, lease, request.start_s, asked.rows_to_wake))
    before = power.grants.get(lease.id)
    if before is None:
        power.grants[lease.id] = Grant(in_time)
        return True
    power.grants[lease.id] = replace(before, asleep=in_time | before.asleep, only=None)
    return before.only is not None or bool((in_time & ~before.asleep).any())


def _fits_as_granted(draft: PlanDraft, request: RoomWanted) -> bool:
    """There is room for it on what it may count on."""
    demand = gang_demand(draft, request.vms, start_s=request.start_s)
    tables = tables_for(draft, request.lease)
    return any(table.fit_at(demand, request.start_s, request.end_s) is not None for table in tables)


def _fits_awake(draft: PlanDraft, request: RoomWanted) -> bool:
    """There is room for it on hosts that are on, or on their way, and nobody has to leave."""
    demand = gang_demand(draft, request.vms, start_s=request.start_s)
    return draft.timeline.all_stays.table.fit_at(demand, request.start_s, request.end_s) is not None
