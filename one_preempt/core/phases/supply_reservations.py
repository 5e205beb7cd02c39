"""Which hosts that sleep a reservation may count on, and which of them are woken for it now, to be up in time.

The energy policy answers in numbers of hosts; here they become hosts. It is asked again when a reservation to which
sleeping hosts were promised comes close (DUE), for by then there may be room on hosts that are on. Without host power
none of this is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from one_preempt.core.availability.gang_demand import BoolArray
from one_preempt.core.availability.timeline import Stay
from one_preempt.core.energy.policy import Occasion
from one_preempt.core.memory.remembered_wakings import Wakings
from one_preempt.core.model.lease import Lease
from one_preempt.core.phases.devices_and_groups.matched_then import matched_then
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.images.promised_images import may_be_staged
from one_preempt.core.phases.power.boot_turns import turns_bind, up_in_turn
from one_preempt.core.phases.power.power_draft import Grant, PowerDraft
from one_preempt.core.phases.power.power_steps import take_orders_to_wake
from one_preempt.core.phases.power.supply_question import ask, request_at
from one_preempt.core.phases.power.waking_times import promised_wakings
from one_preempt.core.phases.reservations.demand_ahead import gang_demand
from one_preempt.core.phases.reservations.leaving_in_time import leaves_s, spared_until_s, who_must_leave
from one_preempt.core.phases.reservations.promised import has_exact_start
from one_preempt.core.phases.reservations.room_ahead import is_taken
from one_preempt.core.phases.reservations.stays import book, stay_at
from one_preempt.core.phases.room_wanted import RoomWanted


def supply_reservations(draft: PlanDraft) -> None:
    """Which sleeping hosts each reservation that was promised may count on; those that must be woken by now are."""
    power = draft.power
    if power is None:
        return
    take_orders_to_wake(draft)
    if not power.asleep.any():
        return
    promised, wakings = promised_wakings(draft, power)
    wakes_now = wakings.first_s is not None and wakings.first_s <= power.now_s
    if wakings.first_s is not None:
        draft.wake_by(wakings.first_s)
    stays, asleep, latest_up_s = draft.timeline.stays, power.asleep, power.latest_up_s
    if turns_bind(power):
        # Of those that are due by now whoever starts first boots first.
        promised.sort(key=lambda lease: stays[lease.id][0].start_s if stays.get(lease.id) else power.now_s)
    for lease in promised:
        first = stays.get(lease.id, ())[:1]
        # By then all can be up, whatever it asks for: so it is for most of what was promised.
        far = bool(first) and first[0].start_s >= latest_up_s
        power.grants[lease.id] = Grant(asleep if far else _countable(draft, power, lease))
        if wakes_now:
            _wake_in_time(draft, power, lease, wakings)


def _countable(draft: PlanDraft, power: PowerDraft, lease: Lease) -> BoolArray:
    """The sleeping hosts that what was promised may be on: its own, and those that can be up by an exact start."""
    if not has_exact_start(draft, lease):
        return power.asleep
    stays = draft.timeline.stays.get(lease.id, ())
    start_s = stays[0].start_s if stays else lease.terms.start_at_s or 0
    if start_s >= power.latest_up_s:
        return power.asleep
    own = power.mask_of(row for stay in stays for row in stay.host_rows)
    in_turn = up_in_turn(draft, power, lease, start_s, power.economical(np.flatnonzero(power.asleep & ~own).tolist()))
    return power.asleep & (own | power.mask_of(in_turn))


def _wake_in_time(draft: PlanDraft, power: PowerDraft, lease: Lease, wakings: Wakings) -> None:
    """Hosts that sleep and were promised are woken a boot before the start, in turns where not all may boot at once."""
    stays = draft.timeline.stays.get(lease.id, ())
    rows, due_s = wakings.of(stays[0]) if stays else ((), None)
    if due_s is None:
        return
    if draft.state.now_s < due_s:
        draft.wake_by(due_s)
        return
    for row in _still_needed(draft, power, lease, stays, rows):
        if power.can_wake(row, promised=True):
            power.wake(row, "reservation", f"{lease.label} was promised it and starts soon")


def _still_needed(
    draft: PlanDraft, power: PowerDraft, lease: Lease, stays: Sequence[Stay], rows: Sequence[int]
) -> Sequence[int]:
    """Those of the promised rows that must be woken: fewer where there is room on hosts that are on by now."""
    if len(stays) > 1 or stays[0].vm_ids or not power.asks_policy():
        return rows
    request = request_at(draft, lease, stays[0].start_s)
    before = draft.timeline.withdraw(lease.id)
    if not has_exact_start(draft, lease):
        # No policy has a say in a slot before a DEADLINE: no host is woken for it if there is room for it as it is.
        is_ahead = request.start_s > power.now_s
        stay = _fitted(draft, power, request, (), preempting=False) if is_ahead else None
        if stay is None or not _leave_in_time(draft, lease, stay):
            draft.timeline.hold(before)
            return rows
        book(draft, lease, [stay])
        return ()
    asked = ask(draft, power, Occasion.DUE, request)
    decision = power.rules.policy.decide(asked.question)
    chosen = [row for row in power.economical(rows) if row in asked.rows_to_wake][: decision.wake]
    stay = _fitted(draft, power, request, chosen, preempting=decision.preempt > 0)
    if stay is not None and _leave_in_time(draft, lease, stay):
        book(draft, lease, [stay])
        # Others that sleep are not what was answered, and are moved to no more in this cycle.
        power.grants[lease.id] = Grant(power.asleep & power.mask_of(stay.host_rows))
        return [row for row in chosen if row in stay.host_rows]
    draft.timeline.hold(before)
    return rows


def _leave_in_time(draft: PlanDraft, lease: Lease, stay: Stay) -> bool:
    """Those in the way can leave in what is left until the start; else a boot is the surer way."""
    leaving = who_must_leave(draft, lease, stay) if lease.preempts else ()
    if not leaving:
        return not is_taken(draft, lease, stay)
    time = draft.policies.time
    takes_s = leaves_s(draft, leaving) + time.grace_s + time.preparation_margin_s
    return max(draft.state.now_s, spared_until_s(draft, leaving)) + takes_s <= stay.start_s


def _fitted(
    draft: PlanDraft, power: PowerDraft, request: RoomWanted, woken: Sequence[int], *, preempting: bool
) -> Stay | None:
    """A stay for the request on hosts that are on or come, and on these."""
    with power.granting(request.lease.id, power.mask_of(woken)):
        demand = gang_demand(draft, request.vms)
    for table in (draft.timeline.all_stays.table, *([draft.timeline.firm_stays] if preempting else [])):
        rows = table.fit_at(demand, request.start_s, request.end_s)
        if rows is not None:
            there = stay_at(request.lease, request.vms, rows, request.start_s, request.end_s, firm=True)
            stay = matched_then(draft, request.vms, there, demand, table)
            if isinstance(stay, Stay) and may_be_staged(draft, request.lease, request.vms, stay):
                return stay
    return None
