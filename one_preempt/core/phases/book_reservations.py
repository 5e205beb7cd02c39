"""May a lease have the time it asks for? Accepted only if all of it fits, the suspensions before it included.

An advance reservation has an exact start (VW07 3.2); a lease with a deadline may run whenever it is done in time, in
several pieces where its type lets it be suspended (SR11). What was accepted is kept: nothing that comes later may
take its room. What cannot be had is refused, or waits as a best-effort lease where the configuration says so (SR11).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from one_preempt.core.availability.gang_demand import GangDemand
from one_preempt.core.availability.pieces import Piece, PieceRules, plan_pieces
from one_preempt.core.availability.slot_table import SlotTable
from one_preempt.core.availability.timeline import Stay
from one_preempt.core.matching import reasons
from one_preempt.core.matching.reasons import NEXT_CYCLE
from one_preempt.core.memory.lease_concerns import Concern
from one_preempt.core.model.lease import Lease, LeaseType, PreemptionMethod
from one_preempt.core.model.plan import Reason
from one_preempt.core.model.policies import Mode
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.model.time_rules import RefusedReservation, Suspension
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.model.written_time import duration_text, utc_text
from one_preempt.core.overhead.planning import leave_s, return_s
from one_preempt.core.phases.devices_and_groups.matched_then import is_matched, matched_from_s, matched_then
from one_preempt.core.phases.devices_and_groups.never_placed import never_placed
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.power.boot_turns import turns_lack_s
from one_preempt.core.phases.power.host_grants import grant_all_in_time, grant_hosts
from one_preempt.core.phases.preparations import lay_back, prepare, spared_until_s, who_must_leave
from one_preempt.core.phases.reservations.promised import is_unanswered
from one_preempt.core.phases.reservations.room_ahead import (
    book,
    end_of,
    gang_demand,
    is_taken,
    stay_at,
    tables_for,
    takes_s,
)
from one_preempt.core.phases.reservations.shares import share_exceeded, within_share_from_s
from one_preempt.core.phases.reservations.unknown_ends import no_overrun_giving_way, overruns_going_on
from one_preempt.core.victims import method_is_possible, methods_of

# Where others must leave first, or hosts boot in turns, a lease with a deadline starts later: at once, and then.
STARTS_TRIED = 2
# Where its owners may have so much only later as well, room and their share may have to be tried in turn.
STARTS_TRIED_WITH_A_SHARE = 8
# Devices, cores and VM groups are no numbers: each such wish is matched against all that were promised some. So many of
# an owner are in a cycle, until so many VMs were put on hosts for them as they will be at instants to come.
MATCHED_AN_OWNER = 40
PLACES_AN_OWNER = 10_000
JUDGED_AGAIN_S = 10
# So often a deadline is planned anew for whom a device or core is free later.
MATCHES_TRIED = 4
_LATER = Reason(
    NEXT_CYCLE, "others of its owner that ask for devices, cores or by a VM group are judged first: it is next"
)


def book_reservations(draft: PlanDraft) -> None:
    """Judge the leases that ask for a START or a DEADLINE and have no answer yet, by arrival."""
    asking = [
        lease
        for lease in draft.concerns.all(Concern.TIME).values()
        if lease.terms.asks_for_time and not lease.terms.at_once and is_unanswered(draft, lease)
    ]
    matched: dict[int, int] = {}
    for lease in sorted(asking, key=lambda lease: (lease.arrived_at_s, lease.id)):
        vms = draft.members(lease)
        must_match = is_matched(vms)
        is_later = must_match and _has_had_its_turn(draft, lease.uid, matched)
        put_off = _LATER if is_later else _put_off(draft, vms)
        if put_off is not None:
            draft.reserved.add(lease.id)
            draft.waits[lease.id] = put_off
            # Not at once: whoever floods the scheduler with wishes is not to keep it busy without a pause.
            draft.wake_by(draft.state.now_s + JUDGED_AGAIN_S)
            continue
        matched[lease.uid] = matched.get(lease.uid, 0) + must_match
        grant_hosts(draft, lease)
        with overruns_going_on(draft, lease):
            answer = _book(draft, lease, vms)
            if answer is not None and grant_all_in_time(draft, lease):
                answer = _book(draft, lease, vms)
        if answer is not None:
            turn_down(draft, lease, answer)


def _has_had_its_turn(draft: PlanDraft, uid: int, matched: Mapping[int, int]) -> bool:
    """Enough of this owner's wishes were `matched` in this cycle: others' are next, whoever came first."""
    wishes = matched.get(uid, 0)
    return wishes >= MATCHED_AN_OWNER or (wishes > 0 and draft.matched_by_owner.get(uid, 0) >= PLACES_AN_OWNER)


def _put_off(draft: PlanDraft, vms: Sequence[VirtualMachine]) -> Reason | None:
    """Why nothing can be said of them in this cycle."""
    refusals = (draft.matchmaker.match(vm).refusal for vm in vms)
    return next((one.reason for one in refusals if one is not None and one.reason.code == NEXT_CYCLE), None)


def turn_down(draft: PlanDraft, lease: Lease, why: Reason) -> None:
    """Refuse a wish for a time, or let the lease wait in the queue instead (SR11's AR-to-BE conversion)."""
    if draft.power is not None:
        draft.power.turned_down(lease.id)
    if draft.policies.time.refused_reservation is RefusedReservation.QUEUE:
        draft.judge(lease, Verdict.CONVERTED, f"{why.text}; it waits in the queue instead")
        return
    draft.judge(lease, Verdict.REFUSED, why.text)
    draft.reserved.add(lease.id)
    draft.waits[lease.id] = why
    draft.statuses[lease.id] = f"refused: {why.text}"


def accept(draft: PlanDraft, lease: Lease, stays: Sequence[Stay]) -> None:
    """Promise these stays firmly."""
    book(draft, lease, stays)
    draft.judge(lease, Verdict.ACCEPTED, f"reserved from {utc_text(stays[0].start_s)} on")


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
    late: Reason | None = None
    lacking: Reason | None = None
    for table, rows in _tried_at(draft, lease, demand, start_at_s, end_at_s):
        if rows is None or _beside_promises(draft, lease, whole_s, start_at_s) != start_at_s:
            continue
        stay = matched_then(draft, vms, stay_at(lease, vms, rows, start_at_s, end_at_s, firm=True), demand, table)
        if isinstance(stay, Reason):
            lacking = stay
            continue
        if not lease.preempts and is_taken(draft, lease, stay):
            # Somebody who should have ended is there, and nobody knows for how long.
            continue
        needed_s = _lacks_s(draft, lease, stay)
        if not needed_s:
            accept(draft, lease, [stay])
            return None
        late = _too_late(needed_s)
    return late or lacking or _no_room(draft, lease, demand, start_at_s, whole_s)


def _tried_at(
    draft: PlanDraft, lease: Lease, demand: GangDemand, start_at_s: int, end_at_s: int | None
) -> Iterator[tuple[SlotTable, tuple[int, ...] | None]]:
    """Hosts for it at that time, first where nobody has to leave, not even what outlives its time; None where none.

    With them the table that says what is free.
    """
    with no_overrun_giving_way(draft, lease) as is_any:
        beside = draft.timeline.all_stays.table.fit_at(demand, start_at_s, end_at_s) if is_any else None
    if beside is not None:
        yield draft.timeline.all_stays.table, beside
    for table in tables_for(draft, lease):
        yield table, table.fit_at(demand, start_at_s, end_at_s)


def _beside_promises(draft: PlanDraft, lease: Lease, whole_s: int | None, not_before_s: int) -> int | None:
    """The first instant from which a new wish takes nothing that the queue was promised, where hosts are counted.

    Promises that name hosts are in the slot table already. Who may preempt comes before all promises.
    """
    if lease.preempts or lease.verdict is not Verdict.NONE:
        return not_before_s
    return draft.timeline.beside_counted(len(lease.vm_ids), whole_s, not_before_s)


def _lacks_s(draft: PlanDraft, lease: Lease, stay: Stay) -> int:
    """For how long those leave who would have to and cannot have left by its start; 0: there is time enough."""
    leaving = who_must_leave(draft, lease, stay)
    spared_s = max(0, spared_until_s(draft, leaving) - draft.state.now_s)
    # Also where nobody has to leave: what was laid down for another stay of it is not needed then.
    if prepare(draft, lease.id, stay.start_s, leaving, draft.state.now_s + spared_s) is not None:
        return 0
    rules = draft.policies.time
    return spared_s + leave_s(leaving, draft.rates, rules.exclusion) + rules.grace_s + rules.preparation_margin_s


def _too_late(needed_s: int) -> Reason:
    return Reason(
        "reservation-too-soon",
        f"others would have to be suspended for it, which takes {duration_text(needed_s)}: ask for a later START",
    )


def _no_room(draft: PlanDraft, lease: Lease, demand: GangDemand, start_at_s: int, whole_s: int | None) -> Reason:
    """Why it cannot start then, and when it could."""
    start = f"START {utc_text(start_at_s)}"
    unsuited = None if demand.allowed.any() else _why_unsuited(draft, draft.members(lease), f"at {start}")
    if unsuited is not None:
        return unsuited
    first_s = _first_start_s(draft, lease, demand, start_at_s, whole_s)
    could = "" if first_s is None else f"; the first possible one is {utc_text(first_s)}"
    count = f"its {len(lease.vm_ids)} VMs" if len(lease.vm_ids) > 1 else "it"
    return Reason("reservation-no-room", f"there is no room for {count} from {start} on{could}")


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
    text = f"no host meets its requirements {when} as far as is known: they speak of what is on the hosts"
    return Reason(reasons.REQUIREMENTS, text)


def _first_start_s(
    draft: PlanDraft, lease: Lease, demand: GangDemand, not_before_s: int, whole_s: int | None
) -> int | None:
    """When it could start: what has room on hosts and what is left beside the promises have to meet."""
    table = tables_for(draft, lease)[-1]
    while (slot := table.earliest_fit(demand, whole_s, not_before_s)) is not None:
        beside_s = _beside_promises(draft, lease, whole_s, slot.start_s)
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
    return unsuited or Reason(
        "deadline-no-room",
        f"there is no room for all of it before its DEADLINE {utc_text(deadline_s)}: ask for a later one, or for less",
    )


def plan_rest(
    draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], methods: Sequence[PreemptionMethod]
) -> list[Stay] | None:
    """Stays for what is left of a lease with a deadline that runs and is sent out now; None where it is too late."""
    policies, left_s = draft.policies, lease.left_at(draft.state.now_s)
    if left_s is None:
        return None
    leaving, exclusion = list(zip(vms, methods, strict=True)), policies.time.exclusion
    gone_at_s = draft.state.now_s + policies.time.grace_s + leave_s(leaving, draft.rates, exclusion)
    with overruns_going_on(draft, lease):
        return plan_stays(draft, lease, vms, gone_at_s, return_s(leaving, draft.rates, exclusion) + left_s)


def plan_stays(
    draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], not_before_s: int, whole_s: int | None
) -> list[Stay] | None:
    """Stays in which the lease is done by its deadline, none of which anybody can take from it; None without any."""
    deadline_s = lease.terms.deadline_at_s
    if whole_s is None or deadline_s is None or not_before_s + whole_s > deadline_s:
        return None
    demand, rules, prepared = gang_demand(draft, vms), piece_rules(draft, lease, vms), draft.preparations.get(lease.id)
    for table in tables_for(draft, lease):
        ready_at_s = not_before_s
        for _ in range(STARTS_TRIED if lease.max_share_percent is None else STARTS_TRIED_WITH_A_SHARE):
            stays = _planned_in(table, draft, lease, vms, demand, whole_s, ready_at_s, rules)
            if not stays:
                break
            needed_s = _lacks_s(draft, lease, stays[0])
            # Hosts that sleep may have to wait for their turn to boot.
            later_s = turns_lack_s(draft, lease, stays, deadline_s - whole_s - stays[0].start_s)
            exceeds = _exceeds(draft, lease, stays)
            if not needed_s and not later_s and not exceeds:
                return stays
            if exceeds:
                allowed_s = within_share_from_s(draft, lease, whole_s, stays[0].start_s)
                if allowed_s is None:
                    break
                ready_at_s = max(ready_at_s, allowed_s)
            if later_s:
                ready_at_s = stays[0].start_s + later_s
            ready_at_s = max(ready_at_s, draft.state.now_s + needed_s)
    # Nobody leaves for what was only tried: others must not find the lanes taken.
    lay_back(draft, lease.id, prepared)
    return None


def _planned_in(
    table: SlotTable,
    draft: PlanDraft,
    lease: Lease,
    vms: Sequence[VirtualMachine],
    demand: GangDemand,
    whole_s: int,
    ready_at_s: int,
    rules: PieceRules,
) -> list[Stay] | None:
    """The first stays by its deadline on hosts that have room by the table and all else that cannot be counted."""
    deadline_s = lease.terms.deadline_at_s or 0
    # What is sent out now has its own devices still: it is looked at again when it waits.
    must_match = is_matched(vms) and all(vm.host_id is None for vm in vms)
    ready: Iterable[int] = (ready_at_s,)
    if must_match:
        ready = matched_from_s(draft, vms, ready_at_s, deadline_s, np.logical_or.reduce(demand.allowed))
    tried, tried_s = 0, ready_at_s - 1
    for at_s in ready:
        if at_s <= tried_s:
            continue
        pieces = plan_pieces(table, demand, whole_s, at_s, deadline_s, rules)
        if pieces and _takes_promised(draft, lease, pieces):
            pieces = _counted_pieces(draft, table, demand, whole_s, at_s, deadline_s, rules)
        if not pieces:
            return None
        stays = [stay_at(lease, vms, one.host_rows, one.start_s, one.end_s, firm=True) for one in pieces]
        if not must_match:
            return stays
        matched = [matched_then(draft, vms, stay, demand, table) for stay in stays]
        found = [stay for stay in matched if isinstance(stay, Stay)]
        tried, tried_s = tried + 1, stays[0].start_s
        if len(found) == len(stays):
            return found
        if tried == MATCHES_TRIED:
            break
    return None


def _takes_promised(draft: PlanDraft, lease: Lease, pieces: Sequence[Piece]) -> bool:
    return any(_beside_promises(draft, lease, one.end_s - one.start_s, one.start_s) != one.start_s for one in pieces)


def _counted_pieces(
    draft: PlanDraft,
    table: SlotTable,
    demand: GangDemand,
    whole_s: int,
    ready_at_s: int,
    deadline_s: int,
    rules: PieceRules,
) -> tuple[Piece, ...]:
    """Pieces beside what was promised by number, with hosts for each; empty where there are none."""
    assert draft.timeline.alike is not None, "only promises by number are missing in the table"
    counted = plan_pieces(draft.timeline.alike, len(demand.needs), whole_s, ready_at_s, deadline_s, rules) or ()
    rows = [table.fit_at(demand, one.start_s, one.end_s) for one in counted]
    named = (replace(one, host_rows=found) for one, found in zip(counted, rows, strict=True) if found is not None)
    return () if None in rows else tuple(named)


def _exceeds(draft: PlanDraft, lease: Lease, stays: Sequence[Stay]) -> bool:
    return any(share_exceeded(draft, lease, stay.start_s, stay.end_s) is not None for stay in stays)


def piece_rules(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine]) -> PieceRules:
    """A migratable lease may be suspended between two slots, where the configuration and its VMs allow it."""
    policies, rules = draft.policies, draft.policies.time
    stoppable = PreemptionMethod.STOP in methods_of(lease, policies.victims) and all(
        method_is_possible(draft.state.snapshot, vm, lease, PreemptionMethod.STOP) for vm in vms
    )
    splittable = (
        lease.terms.type is LeaseType.DC_MIGRATABLE
        and policies.mode is Mode.ACT
        and stoppable
        and (rules.suspension is Suspension.ALL or (rules.suspension is Suspension.SERIAL_ONLY and len(vms) == 1))
    )
    stopped = [(vm, PreemptionMethod.STOP) for vm in vms]
    leaves_s = leave_s(stopped, draft.rates, rules.exclusion)
    return PieceRules(
        splittable=splittable,
        minimum_piece_s=max(1, rules.least_run_before_suspension_s),
        resume_s=return_s(stopped, draft.rates, rules.exclusion),
        suspend_s=leaves_s + rules.grace_s + rules.preparation_margin_s,
    )
