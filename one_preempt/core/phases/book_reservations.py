"""May a lease have the time it asks for? Accepted only if all of it fits, the suspensions before it included.

An advance reservation has an exact start (VW07 6.1); a lease with a deadline may run whenever it is done in time, in
several pieces where its type lets it be suspended (SR11). What was accepted is kept: nothing that comes later may
take its room. What cannot be had is refused, or waits as a best-effort lease where the configuration says so (SR11).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from one_preempt.core.availability.gang_demand import GangDemand
from one_preempt.core.availability.slot_table import SlotTable
from one_preempt.core.matching import reasons
from one_preempt.core.matching.reasons import NEXT_CYCLE
from one_preempt.core.memory.lease_concerns import Concern
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.plan import Reason
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.model.written_time import duration_text, utc_text
from one_preempt.core.phases.devices_and_groups.matched_then import matched_then, need_matching
from one_preempt.core.phases.devices_and_groups.never_placed import never_placed
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.images.promised_images import host_orders, why_not_staged
from one_preempt.core.phases.power.host_grants import grant_all_in_time, grant_hosts
from one_preempt.core.phases.reservations.answers import accept, turn_down
from one_preempt.core.phases.reservations.beside_late_leavers import beside_late_leavers
from one_preempt.core.phases.reservations.demand_ahead import gang_demand
from one_preempt.core.phases.reservations.planned_stays import earliest_beside_promises_s, leaving_lacks_s, plan_stays
from one_preempt.core.phases.reservations.promised import is_unanswered
from one_preempt.core.phases.reservations.room_ahead import is_taken, tables_for
from one_preempt.core.phases.reservations.shares import share_exceeded, within_share_from_s
from one_preempt.core.phases.reservations.stays import end_of, stay_at, takes_s
from one_preempt.core.phases.reservations.unknown_ends import no_overrun_giving_way, overruns_going_on

# Devices, cores and VM groups are no numbers: each such wish is matched against all that were promised some. So many of
# an owner are in a cycle, until so many VMs were put on hosts for them as they will be at instants to come; until fewer
# were, once so many were put for all owners: many who act as one gain nothing by it.
MATCHED_AN_OWNER = 40
PLACES_AN_OWNER = 10_000
PLACES_FOR_ALL = 40_000
FEW_PLACES = 200
# VMs of a lease that differ are packed, which takes a hundred times what it takes to count them: so many such leases of
# an owner are in a cycle, and one of each owner once so many were for all.
PACKED_AN_OWNER = 8
PACKED_FOR_ALL = 32
JUDGED_AGAIN_S = 10
_NEVER = ", nor later as far as is known: ask for less, or again when others have ended"
_LATER = Reason(
    NEXT_CYCLE,
    "other requests of its owner that take as long to look at are first: this one is next",
)


def book_reservations(draft: PlanDraft) -> None:
    """Judge the leases that ask for a START or a DEADLINE and have no answer yet, by arrival."""
    asking = [
        lease
        for lease in draft.concerns.all(Concern.TIME).values()
        if lease.terms.asks_for_time and not lease.terms.at_once and is_unanswered(draft, lease)
    ]
    matched, packed = Counter[int](), Counter[int]()
    for lease in sorted(asking, key=lambda lease: (lease.arrived_at_s, lease.id)):
        vms = draft.members(lease)
        must_match, must_pack = need_matching(vms), _differ(vms)
        is_later = (must_match and _has_had_its_turn(draft, lease.uid, matched)) or (
            must_pack and _had_enough_packed(lease.uid, packed)
        )
        put_off = _LATER if is_later else _put_off(draft, vms)
        if put_off is not None:
            draft.reserved.add(lease.id)
            draft.waits[lease.id] = put_off
            # Not at once: whoever floods the scheduler with wishes is not to keep it busy without a pause.
            draft.wake_by(draft.state.now_s + JUDGED_AGAIN_S)
            continue
        matched[lease.uid] += must_match
        packed[lease.uid] += must_pack
        grant_hosts(draft, lease)
        with overruns_going_on(draft, lease):
            answer = _book(draft, lease, vms)
            if answer is not None and grant_all_in_time(draft, lease):
                answer = _book(draft, lease, vms)
        if answer is not None:
            turn_down(draft, lease, answer)


def _differ(vms: Sequence[VirtualMachine]) -> bool:
    """Are there VMs among them that cannot be counted together?"""
    first = vms[0]
    return any(
        (vm.cpu_centi, vm.memory_mib, vm.sched_requirements)
        != (first.cpu_centi, first.memory_mib, first.sched_requirements)
        for vm in vms
    )


def _had_enough_packed(uid: int, packed: Counter[int]) -> bool:
    """As many of this owner's wishes were `packed` in this cycle as may be. Each has one."""
    return packed[uid] >= (PACKED_AN_OWNER if packed.total() < PACKED_FOR_ALL else 1)


def _has_had_its_turn(draft: PlanDraft, uid: int, matched: Counter[int]) -> bool:
    """Enough of this owner's wishes were `matched` in this cycle: others' are next. Each has one."""
    wishes, put = matched[uid], draft.matched.by_owner
    most = PLACES_AN_OWNER if sum(put.values()) < PLACES_FOR_ALL else FEW_PLACES
    return wishes >= MATCHED_AN_OWNER or (wishes > 0 and put.get(uid, 0) >= most)


def _put_off(draft: PlanDraft, vms: Sequence[VirtualMachine]) -> Reason | None:
    """Why nothing can be said of them in this cycle."""
    refusals = (draft.matchmaker.match(vm).refusal for vm in vms)
    return next((one.reason for one in refusals if one is not None and one.reason.code == NEXT_CYCLE), None)


def _book(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine]) -> Reason | None:
    never = never_placed(draft, vms)
    if never is not None:
        return never
    return _book_deadline(draft, lease, vms) if lease.terms.deadline_at_s else _book_start(draft, lease, vms)


def _book_start(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine]) -> Reason | None:
    """Hold room from exactly START on, or say why not."""
    start_at_s = max(lease.terms.start_at_s or 0, draft.state.now_s)
    whole_s = takes_s(draft, lease, vms)
    end_at_s = end_of(start_at_s, whole_s)
    exceeded = share_exceeded(draft, lease, start_at_s, end_at_s)
    if exceeded is not None:
        return exceeded
    demand = gang_demand(draft, vms, start_s=start_at_s)
    unstaged: Reason | None = None
    late: Reason | None = None
    lacking: Reason | None = None
    for table, rows in _tried_at(draft, lease, demand, start_at_s, end_at_s):
        if rows is None or earliest_beside_promises_s(draft, lease, whole_s, start_at_s) != start_at_s:
            continue
        stay = matched_then(draft, vms, stay_at(lease, vms, rows, start_at_s, end_at_s, firm=True), demand, table)
        if isinstance(stay, Reason):
            lacking = stay
            continue
        if not lease.preempts and is_taken(draft, lease, stay):
            # Somebody who should have ended is there, and nobody knows for how long.
            continue
        unstaged = why_not_staged(draft, lease, vms, stay)
        if unstaged is not None:
            continue
        needed_s = leaving_lacks_s(draft, lease, stay)
        if not needed_s:
            accept(draft, lease, [stay])
            return None
        late = _too_late(needed_s)
    return late or unstaged or lacking or _no_room(draft, lease, demand, start_at_s, whole_s)


def _tried_at(
    draft: PlanDraft, lease: Lease, demand: GangDemand, start_at_s: int, end_at_s: int | None
) -> Iterator[tuple[SlotTable, tuple[int, ...] | None]]:
    """Hosts for it at that time, first where nobody has to leave, not even what outlives its time; None where none.

    At last where nobody has to who would be late. With them the table that says what is free.
    """
    everybody = draft.timeline.all_stays.table
    with no_overrun_giving_way(draft, lease) as is_any:
        beside = list(_fits_at(draft, lease, demand, everybody, start_at_s, end_at_s)) if is_any else []
    for rows in beside:
        yield everybody, rows
    tables, rows = tables_for(draft, lease), None
    for table in tables:
        for rows in _fits_at(draft, lease, demand, table, start_at_s, end_at_s):
            yield table, rows
    if lease.preempts and rows is not None:
        yield tables[-1], beside_late_leavers(draft, lease, demand, start_at_s, end_at_s)


def _fits_at(
    draft: PlanDraft, lease: Lease, demand: GangDemand, table: SlotTable, start_s: int, end_s: int | None
) -> Iterator[tuple[int, ...] | None]:
    """Hosts for it, those first to which its images need not be brought; others where these may keep too little."""
    found: set[tuple[int, ...] | None] = set()
    for ordered in host_orders(draft, draft.members(lease), demand, table, start_s, end_s):
        rows = table.fit_at(ordered, start_s, end_s)
        if rows not in found:
            found.add(rows)
            yield rows


def _too_late(needed_s: int) -> Reason:
    return Reason(
        "reservation-too-soon",
        f"others would have to be suspended for it, which takes {duration_text(needed_s)}: ask for a later START",
    )


def _no_room(draft: PlanDraft, lease: Lease, demand: GangDemand, start_at_s: int, whole_s: int | None) -> Reason:
    """Why it cannot start then, and when it could."""
    start = f"START {utc_text(start_at_s)}"
    vms = draft.members(lease)
    unsuited = None if demand.allowed.any() else _why_unsuited(draft, vms, f"at {start}")
    if unsuited is not None:
        return unsuited
    first_s = _first_start_s(draft, lease, demand, start_at_s, whole_s)
    too_large = _larger_than_hosts(draft, vms) if first_s is None else None
    if too_large is not None:
        return too_large
    could = f"; the first possible one is {utc_text(first_s)}" if first_s is not None else _closed(draft) or _NEVER
    count = f"its {len(lease.vm_ids)} VMs" if len(lease.vm_ids) > 1 else "it"
    return Reason("reservation-no-room", f"there is no room for {count} from {start} on{could}")


def _larger_than_hosts(draft: PlanDraft, vms: Sequence[VirtualMachine]) -> Reason | None:
    """What is said of the first of them for which every host is too small, whoever leaves."""
    matchmaker = draft.matchmaker
    for vm in vms[:1] if matchmaker.are_alike(vms) else vms:
        suited = matchmaker.match(vm).mask
        if suited.any() and matchmaker.too_small(vm, suited) == suited.sum():
            placed = matchmaker.place(vm, draft.matched.emptied_room, limited=False)
            return placed.reason if isinstance(placed, reasons.Unplaced) else None
    return None


def _closed(draft: PlanDraft) -> str:
    """No host takes VMs now, which may be over long before the time that is asked for: a later wish may be granted."""
    return "" if draft.state.hosts.accepts_vms.any() else ", as no host is enabled and monitored now"


def _why_unsuited(draft: PlanDraft, vms: Sequence[VirtualMachine], when: str) -> Reason | None:
    """What leaves them no host at all, whatever is free there."""
    matches = [draft.matchmaker.match(vm) for vm in vms]
    match = next((one for one in matches if one.refusal is not None or one.follows_current_vms), None)
    if match is None:
        in_group = any(vm.vm_group_id is not None for vm in vms)
        text = f"{when} the rules of its VM group leave it none of the hosts"
        return Reason(reasons.AFFINITY, text) if in_group else None
    unmet = match.refusal is None or match.refusal.reason.code == reasons.REQUIREMENTS
    if not unmet or not (match.follows_load or match.follows_current_vms):
        return None
    text = f"as far as is known, no host meets its requirements {when}: they depend on what is on the hosts"
    return Reason(reasons.REQUIREMENTS, text)


def _first_start_s(
    draft: PlanDraft, lease: Lease, demand: GangDemand, not_before_s: int, whole_s: int | None
) -> int | None:
    """When it could start: what has room on hosts and what is left beside the promises have to meet."""
    table = tables_for(draft, lease)[-1]
    while (slot := table.earliest_fit(demand, whole_s, not_before_s)) is not None:
        beside_s = earliest_beside_promises_s(draft, lease, whole_s, slot.start_s)
        if beside_s is None or beside_s == slot.start_s:
            return beside_s
        not_before_s = beside_s
    return None


def _book_deadline(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine]) -> Reason | None:
    """Hold room for all of it before its deadline, or say why not."""
    ready_at_s = max(lease.terms.start_at_s or 0, draft.state.now_s)
    whole_s, deadline_s = takes_s(draft, lease, vms), lease.terms.deadline_at_s or 0
    stays = plan_stays(draft, lease, vms, ready_at_s, whole_s)
    if stays is not None:
        accept(draft, lease, stays)
        return None
    if whole_s is not None:
        allowed_s = within_share_from_s(draft, lease, whole_s, ready_at_s)
        exceeded = share_exceeded(draft, lease, ready_at_s, deadline_s)
        if exceeded is not None and (allowed_s is None or allowed_s + whole_s > deadline_s):
            return exceeded
    unsuited = None if gang_demand(draft, vms).allowed.any() else _why_unsuited(draft, vms, "until its DEADLINE")
    return (
        unsuited
        or _larger_than_hosts(draft, vms)
        or Reason(
            "deadline-no-room",
            f"there is no room for all of it before its DEADLINE {utc_text(deadline_s)}{_closed(draft)}: "
            "ask for a later one, or for less",
        )
    )
