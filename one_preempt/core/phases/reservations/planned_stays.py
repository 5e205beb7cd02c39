"""Stays in which a lease is done in time, in pieces where it may be suspended between them (SR11)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.availability.gang_demand import GangDemand
from one_preempt.core.availability.pieces import Piece, PieceRules, plan_pieces
from one_preempt.core.availability.slot_table import GangSlot, SlotTable
from one_preempt.core.availability.steps import END_OF_TIME_S
from one_preempt.core.availability.timeline import Stay
from one_preempt.core.model.lease import Lease, LeaseType, PreemptionMethod
from one_preempt.core.model.modes_and_limits import Mode
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.model.time_rules import Suspension
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.overhead.planning import leave_s, return_s
from one_preempt.core.phases.devices_and_groups.matched_then import (
    has_all_then,
    matched_from_s,
    matched_then,
    need_matching,
)
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.power.boot_turns import turns_lack_s
from one_preempt.core.phases.reservations.beside_late_leavers import beside_late_leavers
from one_preempt.core.phases.reservations.demand_ahead import gang_demand
from one_preempt.core.phases.reservations.leaving_in_time import (
    gone_by_s,
    lay_back,
    leaves_s,
    prepare,
    spared_until_s,
    who_must_leave,
)
from one_preempt.core.phases.reservations.promised import not_before_s
from one_preempt.core.phases.reservations.room_ahead import firm_room_left, is_short, is_taken, tables_for
from one_preempt.core.phases.reservations.shares import share_exceeded, within_share_from_s
from one_preempt.core.phases.reservations.stays import book, end_of, stay_at, takes_s
from one_preempt.core.phases.reservations.unknown_ends import overruns_going_on
from one_preempt.core.victims import method_is_possible, methods_of

# Where others must leave first, or hosts boot in turns, a lease with a deadline starts later: at once, and then.
STARTS_TRIED = 2


# Where its owners may have so much only later as well, room and their share may have to be tried in turn.
STARTS_TRIED_WITH_A_SHARE = 8


# So often a deadline is planned anew for whom a device or core is free later.
MATCHES_TRIED = 4


class _Work(Struct, frozen=True, eq=False):
    """What is left of a lease: `whole_s` seconds of its VMs together, by `deadline_s`, in pieces as `rules` allow."""

    lease: Lease
    vms: Sequence[VirtualMachine]
    demand: GangDemand
    whole_s: int
    deadline_s: int
    rules: PieceRules

    @property
    def latest_s(self) -> int:
        """When it has to begin at the latest, in one piece."""
        return self.deadline_s - self.whole_s


def earliest_beside_promises_s(draft: PlanDraft, lease: Lease, whole_s: int | None, not_before_s: int) -> int | None:
    """The first instant from which a new wish takes nothing that the queue was promised, where hosts are counted.

    It is for room of `whole_s` seconds, None: for ever. Promises that name hosts are in the slot table already. Who may
    preempt comes before all promises. None where there is no such instant.
    """
    if lease.preempts or lease.verdict is not Verdict.NONE:
        return not_before_s
    return draft.timeline.beside_counted(len(lease.vm_ids), whole_s, not_before_s)


def leaving_lacks_s(draft: PlanDraft, lease: Lease, stay: Stay) -> int:
    """How long, in seconds, those need who would have to leave and cannot have left by its start; 0: there is time.

    Where there is, their leaving is laid into the lanes. Nobody leaves for who preempts nobody.
    """
    leaving = who_must_leave(draft, lease, stay) if lease.preempts else ()
    spared_s = max(0, spared_until_s(draft, leaving) - draft.state.now_s)
    # Also where nobody has to leave: what was laid down for another stay of it is not needed then.
    if prepare(draft, lease.id, stay.start_s, leaving, draft.state.now_s + spared_s) is not None:
        return 0
    rules = draft.policies.time
    return spared_s + leaves_s(draft, leaving) + rules.grace_s + rules.preparation_margin_s


def plan_rest(
    draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], methods: Sequence[PreemptionMethod]
) -> list[Stay] | None:
    """Stays for what is left of a lease with a deadline that runs and is sent out now; None where it is too late."""
    policies, left_s = draft.policies, lease.left_at(draft.state.now_s)
    if left_s is None:
        return None
    leaving, exclusion = list(zip(vms, methods, strict=True)), policies.time.exclusion
    # Where saving takes no time it is there now all the same, and comes back later.
    gone_at_s = draft.state.now_s + max(1, policies.time.grace_s + leaves_s(draft, leaving))
    with overruns_going_on(draft, lease):
        return plan_stays(draft, lease, vms, gone_at_s, return_s(leaving, draft.rates, exclusion) + left_s)


def plan_stays(
    draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], not_before_s: int, whole_s: int | None
) -> list[Stay] | None:
    """Stays in which the lease is done by its deadline, none of which anybody can take from it; None without any."""
    deadline_s = lease.terms.deadline_at_s
    if whole_s is None or deadline_s is None or not_before_s + whole_s > deadline_s:
        return None
    work = _Work(lease, vms, gang_demand(draft, vms), whole_s, deadline_s, piece_rules(draft, lease, vms))
    prepared = draft.preparations.get(lease.id)
    for table in tables_for(draft, lease):
        ready_at_s = not_before_s
        for _ in range(STARTS_TRIED if lease.max_share_percent is None else STARTS_TRIED_WITH_A_SHARE):
            stays = _planned_in(draft, table, work, ready_at_s)
            if not stays:
                break
            needed_s = leaving_lacks_s(draft, lease, stays[0])
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
    late = _latest_stay(draft, work) if lease.preempts and work.latest_s >= not_before_s else None
    if late is not None:
        return [_brought_forward(draft, work, late, not_before_s)]
    # Nobody leaves for what was only tried: others must not find the lanes taken.
    lay_back(draft, lease.id, prepared)
    return None


def _latest_stay(draft: PlanDraft, work: _Work) -> Stay | None:
    """The last stay by its deadline, on hosts where others can leave by then though those looked at first could not."""
    lease, vms, firm = work.lease, work.vms, draft.timeline.firm_stays
    for find in (firm.fit_at, partial(beside_late_leavers, draft, lease)):
        rows = find(work.demand, work.latest_s, work.deadline_s)
        if rows is None:
            return None
        there = stay_at(lease, vms, rows, work.latest_s, work.deadline_s, firm=True)
        stay = matched_then(draft, vms, there, work.demand, firm)
        if isinstance(stay, Stay) and _is_possible(draft, lease, stay):
            return stay
    return None


def _brought_forward(draft: PlanDraft, work: _Work, latest: Stay, not_before_s: int) -> Stay:
    """The same on the same hosts as soon as those who are in its way can have left, where that is possible."""
    soonest_s = max(not_before_s, gone_by_s(draft, who_must_leave(draft, work.lease, latest)))
    sooner = replace(latest, start_s=soonest_s, end_s=end_of(soonest_s, work.whole_s))
    has_room = soonest_s < latest.start_s and not is_short(firm_room_left(draft, work.lease, sooner, ()))
    if has_room and has_all_then(draft, work.vms, sooner) and _is_possible(draft, work.lease, sooner):
        return sooner
    # What was laid into the lanes for a try is taken back.
    leaving_lacks_s(draft, work.lease, latest)
    return latest


def _is_possible(draft: PlanDraft, lease: Lease, stay: Stay) -> bool:
    """Others can leave in time, hosts be woken, and its owners have so much; the leaving is laid into the lanes."""
    is_held_up = turns_lack_s(draft, lease, [stay]) or _exceeds(draft, lease, [stay])
    return not is_held_up and not leaving_lacks_s(draft, lease, stay)


def _planned_in(draft: PlanDraft, table: SlotTable, work: _Work, ready_at_s: int) -> list[Stay] | None:
    """The first stays by its deadline on hosts that have room by the table and all else that cannot be counted."""
    vms, demand = work.vms, work.demand
    must_match = need_matching(vms)
    ready: Iterable[int] = (ready_at_s,)
    if must_match:
        ready = matched_from_s(draft, vms, ready_at_s, work.deadline_s, np.logical_or.reduce(demand.allowed))
    tried, tried_s = 0, ready_at_s - 1
    for at_s in ready:
        if at_s <= tried_s:
            continue
        pieces = plan_pieces(table, demand, work.whole_s, at_s, work.deadline_s, work.rules)
        if pieces and _takes_promised(draft, work.lease, pieces):
            pieces = _counted_pieces(draft, table, work, at_s)
        if not pieces:
            return None
        stays = [stay_at(work.lease, vms, one.host_rows, one.start_s, one.end_s, firm=True) for one in pieces]
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
    return any(
        earliest_beside_promises_s(draft, lease, one.end_s - one.start_s, one.start_s) != one.start_s for one in pieces
    )


def _counted_pieces(draft: PlanDraft, table: SlotTable, work: _Work, ready_at_s: int) -> tuple[Piece, ...]:
    """Pieces beside what was promised by number, with hosts for each; empty where there are none."""
    nodes = draft.timeline.alike
    assert nodes is not None, "only promises by number are missing in the table"
    counted = plan_pieces(nodes, len(work.demand.needs), work.whole_s, ready_at_s, work.deadline_s, work.rules) or ()
    rows = [table.fit_at(work.demand, one.start_s, one.end_s) for one in counted]
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
    saved_s = leave_s(stopped, draft.rates, rules.exclusion)
    return PieceRules(
        splittable=splittable,
        minimum_piece_s=max(1, rules.least_run_before_suspension_s),
        resume_s=return_s(stopped, draft.rates, rules.exclusion),
        suspend_s=saved_s + rules.grace_s + rules.preparation_margin_s,
    )


def planned_anew(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine]) -> tuple[Stay, ...]:
    """Other stays for what is left of a lease whose plan does not hold any more; empty where there are none."""
    ready_at_s = max(not_before_s(draft, lease), draft.state.now_s + 1)
    whole_s, deadline_s = takes_s(draft, lease, vms), lease.terms.deadline_at_s
    if deadline_s is not None and (whole_s is None or ready_at_s + whole_s > deadline_s):
        # Too late wherever there were room; it is asked again in every cycle until it runs all the same.
        return ()
    before = draft.timeline.withdraw(lease.id)
    if lease.terms.deadline_at_s is not None:
        with overruns_going_on(draft, lease):
            found = plan_stays(draft, lease, vms, ready_at_s, whole_s)
        # Only where it can be done in time nowhere else it is left to hope that what outlives its DURATION ends.
        stays = tuple(found or plan_stays(draft, lease, vms, ready_at_s, whole_s) or ())
    else:
        stay = _earliest_stay(draft, lease, vms, ready_at_s, whole_s)
        stays = () if stay is None else (stay,)
        # Where hosts have no turns to boot until then, what it had is as good.
        stays = () if before and turns_lack_s(draft, lease, stays) else stays
    if stays:
        book(draft, lease, stays)
    elif before:
        draft.timeline.hold(before)
    return stays


def _earliest_stay(
    draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], ready_at_s: int, whole_s: int | None
) -> Stay | None:
    """The first stay on hosts that nobody else was promised, nor devices, cores or places beside VM groups there.

    Nobody leaves for it: it is beside who is there, as far as is known when they end.
    """
    demand, firm = gang_demand(draft, vms), draft.timeline.firm_stays
    must_match = need_matching(vms) and all(vm.host_id is None for vm in vms)
    ready: Iterable[int] = (ready_at_s,)
    if must_match:
        ready = matched_from_s(draft, vms, ready_at_s, END_OF_TIME_S, np.logical_or.reduce(demand.allowed))
    tried_s = ready_at_s - 1
    for at_s in islice((at_s for at_s in ready if at_s > tried_s), MATCHES_TRIED):
        table, slot = firm, firm.earliest_fit(demand, whole_s, at_s)
        if slot is None:
            return None
        if is_taken(draft, lease, _stay_in(slot, lease, vms, whole_s)):
            beside = _slot_beside_who_is_there(draft, demand, whole_s, at_s)
            if beside is not None:
                table, slot = draft.timeline.all_stays.table, beside
        stay = _stay_in(slot, lease, vms, whole_s)
        tried_s = stay.start_s
        matched = matched_then(draft, vms, stay, demand, table) if must_match else stay
        if isinstance(matched, Stay):
            return matched
    return None


def _stay_in(slot: GangSlot, lease: Lease, vms: Sequence[VirtualMachine], whole_s: int | None) -> Stay:
    return stay_at(lease, vms, slot.host_rows, slot.start_s, end_of(slot.start_s, whole_s), firm=True)


def _slot_beside_who_is_there(
    draft: PlanDraft, demand: GangDemand, whole_s: int | None, not_before_s: int
) -> GangSlot | None:
    """The first one after the ends of those on its hosts; promises of the queue are made anew behind it."""
    table, promised = draft.timeline.all_stays.table, draft.timeline.all_stays
    mark = table.checkpoint()
    for lease_id, stays in draft.timeline.stays.items():
        slot = promised.stay_of(lease_id) if any(one.promise for one in stays) else None
        if slot is not None:
            table.release_known(slot)
    found = table.earliest_fit(demand, whole_s, not_before_s)
    table.rollback(mark)
    return found
