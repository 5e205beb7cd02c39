"""Where room comes from: from hosts that are on, from waking others, or from preempting; and which hosts may sleep.

The energy policy answers in numbers of hosts; here they become hosts. It is asked for each advance reservation that
has no room on hosts that are on (ARRIVAL), again when one that sleeping hosts were promised to comes close (DUE), for
each request that would otherwise preempt, now and then for the queue (PERIODIC), and when hosts have nothing to do
(IDLE). Without host power none of this is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np

from one_preempt.core.availability.gang_demand import BoolArray
from one_preempt.core.availability.timeline import Stay
from one_preempt.core.energy.policy import Occasion
from one_preempt.core.memory.known_wakings import Wakings
from one_preempt.core.model.lease import Lease, LeaseState
from one_preempt.core.model.plan import Reason
from one_preempt.core.model.policies import Mode
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.overhead.planning import leave_s
from one_preempt.core.phases.devices_and_groups.matched_then import matched_then
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.power.boot_turns import turns_bind, up_in_turn
from one_preempt.core.phases.power.needed_hosts import (
    LOOKED_AT,
    WAKING,
    are_counted,
    demand_anywhere,
    fits_on,
    lacking_hosts,
    too_late,
)
from one_preempt.core.phases.power.power_draft import PowerDraft
from one_preempt.core.phases.power.power_steps import take_orders_to_wake
from one_preempt.core.phases.power.suited_hosts import suited_hosts
from one_preempt.core.phases.power.supply_question import ask, request_at
from one_preempt.core.phases.power.waking_times import TURN_S, waking_times
from one_preempt.core.phases.queue.queue_room import promised_stay
from one_preempt.core.phases.reservations.leaving_in_time import spared_until_s, who_must_leave
from one_preempt.core.phases.reservations.promised import has_exact_start, promised_leases
from one_preempt.core.phases.reservations.room_ahead import gang_demand, is_taken
from one_preempt.core.phases.reservations.stays import book, stay_at, takes_s
from one_preempt.core.phases.room_wanted import RoomWanted

# -- before reservations are judged --------------------------------------------------------------------------


def supply_reservations(draft: PlanDraft) -> None:
    """Which sleeping hosts each reservation that was promised may count on; those that must be woken by now are."""
    power = draft.power
    if power is None:
        return
    take_orders_to_wake(draft)
    if power.to_come is None or not power.asleep.any():
        return
    promised, wakings = _promised_wakings(draft, power)
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
        power.granted[lease.id] = asleep if far else _countable(draft, power, lease)
        if wakes_now:
            _wake_in_time(draft, power, lease, wakings)


def _promised_wakings(draft: PlanDraft, power: PowerDraft) -> tuple[list[Lease], Wakings]:
    """Who was promised a start, and when hosts are woken for them: those of within a boot are due soon."""
    waiting = [lease for lease in promised_leases(draft) if not lease.terms.at_once]
    promised = sorted(waiting, key=lambda lease: (lease.arrived_at_s, lease.id))
    wakings = waking_times(draft, power, promised)
    soon_s = power.now_s + max(power.boots_s.values()) + TURN_S
    power.due_soon = frozenset(row for row, waking in wakings.by_row.items() if waking.begin_s <= soon_s)
    return promised, wakings


def _countable(draft: PlanDraft, power: PowerDraft, lease: Lease) -> BoolArray:
    """The sleeping hosts that what was promised may be on: its own, and those that can be up by an exact start."""
    if power.to_come is None or not has_exact_start(draft, lease):
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
    if len(stays) > 1 or not has_exact_start(draft, lease) or not power.asks_policy():
        return rows
    request = request_at(draft, lease, stays[0].start_s)
    before = draft.timeline.withdraw(lease.id)
    asked = ask(draft, power, Occasion.DUE, request)
    decision = power.rules.policy.decide(asked.question)
    chosen = [row for row in power.economical(rows) if row in asked.rows_to_wake][: decision.wake]
    stay = _fitted(draft, power, request, chosen, preempting=decision.preempt > 0)
    if stay is not None and _leave_in_time(draft, lease, stay):
        book(draft, lease, [stay])
        # Others that sleep are not what was answered, and are moved to no more in this cycle.
        power.granted[lease.id] = power.asleep & power.mask_of(stay.host_rows)
        return [row for row in chosen if row in stay.host_rows]
    draft.timeline.hold(before)
    return rows


def _leave_in_time(draft: PlanDraft, lease: Lease, stay: Stay) -> bool:
    """Those in the way can leave in what is left until the start; else a boot is the surer way."""
    leaving = who_must_leave(draft, lease, stay)
    if not leaving:
        return not is_taken(draft, lease, stay)
    time = draft.policies.time
    takes_s = leave_s(leaving, draft.rates, time.exclusion) + time.grace_s + time.preparation_margin_s
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
            if isinstance(stay, Stay):
                return stay
    return None


# -- after the queue was placed ------------------------------------------------------------------------------


def supply_waiting(draft: PlanDraft) -> None:
    """Wake hosts for what was just promised some, for who would preempt instead, and for the queue."""
    power = draft.power
    if power is None:
        return
    if draft.bookings and power.asleep.any() and turns_bind(power):
        # Whoever was promised hosts in this cycle has turns, too.
        _promised_wakings(draft, power)
    for lease_id in sorted(power.bound):
        for row in sorted({row for stay in draft.timeline.stays.get(lease_id, ()) for row in stay.host_rows}):
            text = f"{draft.state.leases[lease_id].label} was promised it"
            # If not now, then a boot before its start at the latest.
            if power.asleep[row] and power.can_wake(row, promised=True):
                power.wake_in_turn(row, "reservation", text)
    if not power.asks_policy():
        return
    strands = power.rules.policy.strands
    # What asks for START = "now" is answered in this cycle, and waits for no boot.
    lacking = (
        one
        for one in lacking_hosts(draft, power, preempting=strands)
        if not (one.terms.at_once and one.verdict is Verdict.NONE)
    )
    waiting = list(islice(lacking, LOOKED_AT))
    for lease in waiting:
        if lease.preempts and lease.state is LeaseState.WAITING and draft.policies.mode is Mode.ACT:
            _instead_of_preempting(draft, power, lease)
    for lease in (*(() if strands else waiting), *too_late(draft)):
        _where_all_sleep(draft, power, lease)


def _instead_of_preempting(draft: PlanDraft, power: PowerDraft, lease: Lease) -> None:
    """It preempts nobody while hosts come that it fits on, or where the policy wakes some for it."""
    if power.to_come is None:
        return
    up_by_s = power.latest_up_s
    vms = draft.startable(lease)
    if power.coming.any() and _has_room_by(draft, lease, vms, up_by_s):
        _waits_for_hosts(draft, lease)
        return
    asked = ask(draft, power, Occasion.ARRIVAL, request_at(draft, lease, up_by_s, vms))
    if not asked.rows_to_wake:
        return
    decision = power.rules.policy.decide(asked.question)
    if power.wake_some(asked.rows_to_wake, decision.wake, f"{lease.label} waits for room") or (
        decision.wake and _others_boot(power)
    ):
        _waits_for_hosts(draft, lease)


def _others_boot(power: PowerDraft) -> bool:
    """Hosts are on their way up, or have their turns in a moment."""
    return bool(power.coming.any() or power.turns_kept)


def _has_room_by(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], by_s: int) -> bool:
    """It was promised room that early, or there is some that nobody was promised."""
    promised = promised_stay(draft, lease.id)
    if promised is not None:
        return promised.start_s <= by_s
    whole_s, demand = takes_s(draft, lease, vms), gang_demand(draft, vms)
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
    lacking = len(vms) - int(room[power.awake | power.coming].sum())
    rows = []
    for row in ask(draft, power, Occasion.PERIODIC, request).rows_to_wake if lacking > 0 else ():
        if lacking > 0 and room[row]:
            rows.append(row)
            lacking -= int(room[row])
    return rows if lacking <= 0 else []


def _rows_of_unlike(draft: PlanDraft, power: PowerDraft, request: RoomWanted) -> list[int]:
    """The same where VMs differ, and do not count as so many of the largest."""
    on = np.flatnonzero(power.awake | power.coming)
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
