"""Which hosts are woken for whoever waits: those just promised, others instead of preempting, and where all sleep.

The energy policy answers in numbers of hosts; here they become hosts. It is asked for each request that would otherwise
preempt (ARRIVAL). Where no host that is on could ever take a request, one that could is woken whatever the policy
answers. Without host power none of this is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np
from msgspec.structs import replace

from one_preempt.core.energy.policy import Occasion
from one_preempt.core.model.lease import Lease, LeaseState
from one_preempt.core.model.modes_and_limits import Mode
from one_preempt.core.model.plan import Reason
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.power.boot_turns import turns_bind
from one_preempt.core.phases.power.needed_hosts import (
    LOOKED_AT,
    WAKING,
    are_counted,
    demand_anywhere,
    fits_on,
    lacking_hosts,
    may_wait,
    too_late,
)
from one_preempt.core.phases.power.power_draft import SEEN_WITHIN_S, PowerDraft
from one_preempt.core.phases.power.suited_hosts import suited_hosts
from one_preempt.core.phases.power.supply_question import ask, request_at
from one_preempt.core.phases.power.waking_times import promised_wakings
from one_preempt.core.phases.queue.queue_room import promised_stay
from one_preempt.core.phases.reservations.demand_ahead import gang_demand
from one_preempt.core.phases.reservations.stays import takes_s
from one_preempt.core.phases.room_wanted import RoomWanted


def supply_waiting(draft: PlanDraft) -> None:
    """Wake hosts for what was just promised some, for who would preempt instead, and for the queue."""
    power = draft.power
    if power is None:
        return
    if draft.bookings and power.asleep.any() and turns_bind(power):
        # Whoever was promised hosts in this cycle has turns, too.
        promised_wakings(draft, power)
    for lease_id in sorted(lease_id for lease_id, grant in power.grants.items() if grant.is_bound):
        for row in sorted({row for stay in draft.timeline.stays.get(lease_id, ()) for row in stay.host_rows}):
            text = f"{draft.state.leases[lease_id].label} was promised it"
            # If not now, then a boot before its start at the latest.
            if power.asleep[row] and power.can_wake(row, promised=True):
                power.wake_in_turn(row, "reservation", text)
    if not power.asks_policy():
        return
    strands = power.rules.policy.strands
    lacking = (one for one in lacking_hosts(draft, power, preempting=strands) if may_wait(draft, one))
    waiting = list(islice(lacking, LOOKED_AT))
    for lease in waiting:
        if lease.preempts and lease.state is LeaseState.WAITING and draft.policies.mode is Mode.ACT:
            _instead_of_preempting(draft, power, lease)
    for lease in (*(() if strands else waiting), *too_late(draft)):
        _where_all_sleep(draft, power, lease)


def _instead_of_preempting(draft: PlanDraft, power: PowerDraft, lease: Lease) -> None:
    """It preempts nobody while hosts come that it fits on, or where the policy wakes some for it.

    What it needs beside these it takes from others once they are up: fewer have to leave then.
    """
    if not power.to_come.full:
        return
    up_by_s = power.latest_up_s
    vms = draft.startable(lease)
    if power.coming_in_time.any() and _has_room_by(draft, power, lease, vms, up_by_s):
        _waits_for_hosts(draft, lease)
        return
    asked = ask(draft, power, Occasion.ARRIVAL, request_at(draft, lease, up_by_s, vms))
    nodes = asked.question.nodes
    some_come = nodes.booting > 0 and _came_a_boot_ago_at_most(power, lease)
    if not asked.rows_to_wake and not some_come:
        return
    decision = power.rules.policy.decide(asked.question)
    is_enough = nodes.free + decision.preempt + decision.wake >= asked.question.nodes_asked
    woken = power.wake_some(asked.rows_to_wake, decision.wake, f"{lease.label} waits for room")
    if woken or (decision.wake and _others_boot(power)) or (some_come and is_enough):
        _waits_for_hosts(draft, lease)


def _came_a_boot_ago_at_most(power: PowerDraft, lease: Lease) -> bool:
    """Whoever has waited for longer than hosts boot waits for no part of what it needs: others may get that."""
    boots_s = [power.rules.up_after_s(power.host(row)) for row in np.flatnonzero(power.coming).tolist()]
    return power.now_s < lease.arrived_at_s + max(boots_s, default=0) + SEEN_WITHIN_S


def _others_boot(power: PowerDraft) -> bool:
    """Hosts are on their way up, or have their turns in a moment."""
    return bool(power.coming.any() or power.turns_kept)


def _has_room_by(draft: PlanDraft, power: PowerDraft, lease: Lease, vms: Sequence[VirtualMachine], by_s: int) -> bool:
    """It was promised room that early, or there is some that nobody was promised; on no host that is overdue."""
    promised = promised_stay(draft, lease.id)
    if promised is not None:
        return promised.start_s <= by_s and not power.overdue[list(promised.host_rows)].any()
    whole_s, demand = takes_s(draft, lease, vms), gang_demand(draft, vms)
    if power.overdue.any():
        demand = replace(demand, allowed=demand.allowed & ~power.overdue)
    return draft.timeline.all_stays.table.earliest_fit(demand, whole_s, draft.state.now_s, by_s + 1) is not None


def _where_all_sleep(draft: PlanDraft, power: PowerDraft, lease: Lease) -> None:
    """Where no host that is on or comes could ever take it, one that could is woken, whatever the policy answers."""
    vms = draft.startable(lease)
    if not power.asleep.any() or not vms:
        return
    request = request_at(draft, lease, power.latest_up_s, vms)
    counts = are_counted(draft, vms)
    rows = _lacking_rows(draft, power, request) if counts else _rows_of_unlike(draft, power, request)
    text = f"{lease.label} fits on no host that is on"
    woken = [row for row in rows if power.can_wake(row) and power.wake_in_turn(row, "queue", text)]
    if woken or (rows and _others_boot(power)):
        _waits_for_hosts(draft, lease)


def _lacking_rows(draft: PlanDraft, power: PowerDraft, request: RoomWanted) -> list[int]:
    """The hosts that have the places which those that are on and come lack, were nobody there; all, or none."""
    vms = request.vms
    room = suited_hosts(draft, vms).places(draft.state.hosts.capacity)
    lacking = len(vms) - int(room[power.awake | power.coming_in_time].sum())
    rows = []
    for row in ask(draft, power, Occasion.PERIODIC, request).rows_to_wake if lacking > 0 else ():
        if lacking > 0 and room[row]:
            rows.append(row)
            lacking -= int(room[row])
    return rows if lacking <= 0 else []


def _rows_of_unlike(draft: PlanDraft, power: PowerDraft, request: RoomWanted) -> list[int]:
    """The same where VMs differ, and do not count as so many of the largest."""
    on = np.flatnonzero(power.awake | power.coming_in_time)
    demand = demand_anywhere(draft, power, request.lease, request.vms)
    if fits_on(draft, demand, on) is not None:
        return []
    to_wake = ask(draft, power, Occasion.PERIODIC, request).rows_to_wake
    found = fits_on(draft, demand, np.array([*on.tolist(), *to_wake], dtype=np.int64))
    return [row for row in to_wake if found is not None and row in found]


def _waits_for_hosts(draft: PlanDraft, lease: Lease) -> None:
    draft.lacking_room.discard(lease.id)
    draft.waits[lease.id] = Reason(WAKING, "waits for hosts that are being switched on")
    draft.statuses[lease.id] = "waits for hosts that are being switched on"
