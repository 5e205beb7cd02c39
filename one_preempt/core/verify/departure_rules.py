"""Who may be taken off a host, for whom, and when without anybody's asking."""

from __future__ import annotations

from collections.abc import Iterator

from one_preempt.core.model.lease import Lease, LeaseState
from one_preempt.core.model.plan import METHOD_ACTIONS, Action, ActionKind
from one_preempt.core.model.power_sequence import PowerPhase
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.verify.lease_over_time import (
    has_deadline_promised,
    has_outlived_its_duration,
    recorded,
    was_suspended_often_enough,
)
from one_preempt.core.verify.recount import DEPARTURES, MOVES, REMOVALS, Recount, Rule, Violation


def _victims_are_preemptable(recount: Recount) -> Iterator[Violation]:
    for action in recount.plan.actions:
        if action.kind not in REMOVALS:
            continue
        lease = recount.lease_of(action.vm_id)
        if action.preemption_id is None and action.kind in MOVES:
            yield from _unmarked_move(recount, action)
        elif action.preemption_id is None:
            if lease is None or not _has_to_leave(recount, lease, action):
                yield Violation("no-preemption", f"{action.id} takes VM {action.vm_id} off its host for no preemption")
        elif not recount.under_way(action) and (lease is None or not _may_be_a_victim(recount, lease)):
            yield Violation(
                "victim-not-preemptable", f"{action.id}: VM {action.vm_id} is of a lease nobody may preempt"
            )


def _may_be_a_victim(recount: Recount, lease: Lease) -> bool:
    """By its type, or because it runs on after its DURATION."""
    return lease.terms.type.preemptable or has_outlived_its_duration(lease, recount.state.now_s)


def _has_to_leave(recount: Recount, lease: Lease, action: Action) -> bool:
    """For its own lease's sake, or because its time is over: nobody preempts it."""
    if has_outlived_its_duration(lease, recount.state.now_s):
        return action.kind in (ActionKind.STOP, ActionKind.TERMINATE)
    if action.kind is not ActionKind.STOP:
        return False
    if lease.preempted_by is not None and recount.vms[action.vm_id].state_name == "SUSPENDED":
        # It rests on its hosts and cannot return there as a whole: one of them is lost.
        return any(_rests_on_a_lost_host(recount, recount.vms[vm_id]) for vm_id in lease.vm_ids)
    # Members of a gang that cannot start as a whole are stopped again.
    torn = lease.terms.size > 1 and any(recount.vms[vm_id].state_name != "RUNNING" for vm_id in lease.vm_ids)
    return torn or _slot_ends(recount, lease) or recount.under_way(action)


def _rests_on_a_lost_host(recount: Recount, vm: VirtualMachine) -> bool:
    if vm.state_name != "SUSPENDED":
        return False
    host = recount.hosts.get(vm.host_id) if vm.host_id is not None else None
    return host is None or host.state.name in ("ERROR", "MONITORING_ERROR", "OFFLINE")


def _slot_ends(recount: Recount, lease: Lease) -> bool:
    """It goes on in a later slot: it leaves the one that has begun so early that it is out when that one ends."""
    now_s = recount.state.now_s
    own = [one for one in recount.state.reservations.get(lease.id, ()) if one.firm]
    begun = any(one.start_at_s <= now_s and one.end_at_s is not None for one in own)
    return has_deadline_promised(recount, lease) and begun and any(one.start_at_s > now_s for one in own)


def _unmarked_move(recount: Recount, action: Action) -> Iterator[Violation]:
    """Outside a preemption only what somebody marked with RESCHED is moved, and really elsewhere."""
    vm = recount.vms.get(action.vm_id)
    if vm is None or recount.under_way(action):
        return
    if not vm.resched and not _empties_its_host(recount, action):
        yield Violation("not-rescheduled", f"{action.id} moves VM {vm.id}, which nobody marked for rescheduling")
    elif vm.host_id == action.host_id:
        yield Violation("not-elsewhere", f"{action.id} moves VM {vm.id} to host {vm.host_id}, where it is")


def _empties_its_host(recount: Recount, action: Action) -> bool:
    """Its host is disabled to be switched off, the VM is one of those that were to leave, and its lease may move."""
    vm, lease = recount.vms[action.vm_id], recount.lease_of(action.vm_id)
    sequence = recount.state.power.sequences.get(vm.host_id if vm.host_id is not None else -1)
    named = sequence is not None and sequence.phase is PowerPhase.EMPTYING and vm.id in sequence.emptied_vm_ids
    return named and lease is not None and lease.terms.type.preemptable and not recount.state.paused


def _victims_were_decided_upon(recount: Recount) -> Iterator[Violation]:
    for action in recount.plan.actions:
        if not recount.sends_a_victim_out(action):
            continue
        victim = recount.victim_of(action)
        if victim is None or victim.lease_id != action.lease_id:
            yield Violation("foreign-victim", f"{action.id}: preemption {action.preemption_id} has no such victim")
        elif METHOD_ACTIONS[victim.method] is not action.kind:
            yield Violation("foreign-method", f"{action.id} is not the {victim.method} that was decided upon")


def _preemptors_may_preempt(recount: Recount) -> Iterator[Violation]:
    turned_down = {one.lease_id for one in recount.plan.verdicts if one.verdict is Verdict.CONVERTED}
    for preemption in recount.plan.preemptions:
        lease = recount.state.leases.get(preemption.preemptor_lease_id)
        if lease is None or not lease.may_preempt:
            yield Violation("no-right-to-preempt", f"preemption {preemption.id}: its lease may not preempt")
        elif lease.id in preemption.victim_lease_ids:
            yield Violation("preempts-itself", f"preemption {preemption.id}: its lease is among the victims")
        elif lease.terms.type.preemptable:
            text = f"preemption {preemption.id}: its lease may itself be preempted"
            yield Violation("preemptor-preemptable", text)
        elif lease.verdict is Verdict.CONVERTED or lease.id in turned_down:
            text = f"preemption {preemption.id}: its lease is best effort, as its wish for a time was turned down"
            yield Violation("preemptor-turned-down", text)
        elif lease.preempted_by is not None:
            yield Violation("preemptor-returns", f"preemption {preemption.id}: its lease was itself preempted")


def _victims_leave_as_a_whole(recount: Recount) -> Iterator[Violation]:
    for preemption in recount.plan.preemptions:
        leaving = {victim.vm_id for victim in preemption.victims}
        for lease_id in preemption.victim_lease_ids:
            lease = recount.state.leases.get(lease_id)
            members = [recount.vms[vm_id] for vm_id in (lease.vm_ids if lease is not None else ())]
            staying = [vm.id for vm in members if vm.holds_capacity and vm.id not in leaving]
            if staying:
                yield Violation("victim-torn", f"preemption {preemption.id} leaves VM {staying[0]} of lease {lease_id}")


def _nobody_leaves_in_vain(recount: Recount) -> Iterator[Violation]:
    """Who is sent out for somebody makes room on a host to which that one is to come, be it with one VM of several."""
    for preemption in recount.plan.preemptions:
        wanted = {placement.host_id for placement in preemption.placements}
        of_use = {victim.lease_id for victim in preemption.victims if victim.host_id in wanted}
        for lease_id in preemption.victim_lease_ids:
            if lease_id not in of_use:
                text = f"preemption {preemption.id}: lease {lease_id} makes room on none of the hosts that it is for"
                yield Violation("leaves-in-vain", text)


def _victims_move_as_a_whole(recount: Recount) -> Iterator[Violation]:
    """Of a lease all VMs are moved elsewhere, or none: half a gang does not run on alone."""
    for preemption in recount.plan.preemptions:
        moves: dict[int, set[bool]] = {}
        for victim in preemption.victims:
            moves.setdefault(victim.lease_id, set()).add(victim.target_host_id is not None)
        for lease_id in sorted(lease_id for lease_id, ways in moves.items() if len(ways) > 1):
            yield Violation("gang-split", f"{preemption.id} moves some VMs of lease {lease_id} and sends others out")


def _victims_are_not_suspended_too_often(recount: Recount) -> Iterator[Violation]:
    for preemption in recount.plan.preemptions:
        for lease_id in preemption.victim_lease_ids:
            lease = recount.state.leases.get(lease_id)
            if lease is None or has_outlived_its_duration(lease, recount.state.now_s):
                continue
            if was_suspended_often_enough(lease):
                text = f"preemption {preemption.id} would suspend lease {lease_id} more than MAX_SUSPENSIONS times"
                yield Violation("suspended-too-often", text)


def _victims_are_done_by_their_deadlines(recount: Recount) -> Iterator[Violation]:
    """What is sent out before a DEADLINE that it was promised has slots by then for all that is left of it.

    That those are long enough and end in time is a rule of its own. What is paused, or has outlived its DURATION, is
    late by its owner's doing.
    """
    now_s = recount.state.now_s
    for preemption in recount.plan.preemptions:
        for lease_id in preemption.victim_lease_ids:
            lease = recount.leases.get(lease_id)
            if lease is None or not has_deadline_promised(recount, lease) or has_outlived_its_duration(lease, now_s):
                continue
            firm = [one for one in recorded(recount, lease, planned=True) if one.firm]
            is_booked_anew = lease_id in recount.booking_by_lease and firm and firm[0].start_at_s > now_s
            if lease.state is not LeaseState.PAUSED_BY_OWNER and not is_booked_anew:
                text = f"{preemption.id} sends lease {lease_id} out, and nothing is booked for the rest of it"
                yield Violation("deadline-forsaken", text)


def _pause_is_respected(recount: Recount) -> Iterator[Violation]:
    if not recount.state.paused:
        return
    for preemption in recount.plan.preemptions:
        yield Violation("paused", f"preemption {preemption.id} is decided while preempting is paused")
    for action in recount.plan.actions:
        sends_out = action.kind in DEPARTURES or recount.sends_a_victim_out(action)
        if sends_out and not recount.under_way(action):
            yield Violation("paused", f"{action.id} sends a VM out while preempting is paused")


RULES: tuple[Rule, ...] = (
    _victims_are_preemptable,
    _victims_were_decided_upon,
    _preemptors_may_preempt,
    _victims_leave_as_a_whole,
    _nobody_leaves_in_vain,
    _victims_move_as_a_whole,
    _victims_are_not_suspended_too_often,
    _victims_are_done_by_their_deadlines,
    _pause_is_respected,
)
