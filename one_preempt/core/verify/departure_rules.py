"""Who may be taken off a host, for whom, and when without anybody's asking."""

from __future__ import annotations

from collections.abc import Iterator

from one_preempt.core.model.plan import METHOD_ACTIONS, Action, ActionKind
from one_preempt.core.verify.recount import DEPARTURES, MOVES, Recount, Rule, Violation


def _victims_are_preemptable(recount: Recount) -> Iterator[Violation]:
    for action in recount.plan.actions:
        if action.kind not in DEPARTURES | MOVES:
            continue
        lease = recount.lease_of(action.vm_id)
        if action.preemption_id is None and action.kind in MOVES:
            yield from _unmarked_move(recount, action)
        elif action.preemption_id is None:
            # Members of a gang that cannot start as a whole are stopped again, for their own lease's sake.
            if action.kind is not ActionKind.STOP or lease is None or lease.terms.size < 2:
                yield Violation("no-preemption", f"{action.id} takes VM {action.vm_id} off its host for no preemption")
        elif lease is None or not lease.terms.type.preemptable:
            yield Violation(
                "victim-not-preemptable", f"{action.id}: VM {action.vm_id} is of a lease nobody may preempt"
            )


def _unmarked_move(recount: Recount, action: Action) -> Iterator[Violation]:
    """Outside a preemption only what somebody marked with RESCHED is moved, and really elsewhere."""
    vm = recount.vms.get(action.vm_id)
    if vm is None or recount.under_way(action):
        return
    if not vm.resched:
        yield Violation("not-rescheduled", f"{action.id} moves VM {vm.id}, which nobody marked for rescheduling")
    elif vm.host_id == action.host_id:
        yield Violation("not-elsewhere", f"{action.id} moves VM {vm.id} to host {vm.host_id}, where it is")


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
    for preemption in recount.plan.preemptions:
        lease = recount.state.leases.get(preemption.preemptor_lease_id)
        if lease is None or not lease.may_preempt:
            yield Violation("no-right-to-preempt", f"preemption {preemption.id}: its lease may not preempt")
        elif lease.id in preemption.victim_lease_ids:
            yield Violation("preempts-itself", f"preemption {preemption.id}: its lease is among the victims")


def _victims_leave_as_a_whole(recount: Recount) -> Iterator[Violation]:
    for preemption in recount.plan.preemptions:
        leaving = {victim.vm_id for victim in preemption.victims}
        for lease_id in preemption.victim_lease_ids:
            lease = recount.state.leases.get(lease_id)
            members = [recount.vms[vm_id] for vm_id in (lease.vm_ids if lease is not None else ())]
            staying = [vm.id for vm in members if vm.holds_capacity and vm.id not in leaving]
            if staying:
                yield Violation("victim-torn", f"preemption {preemption.id} leaves VM {staying[0]} of lease {lease_id}")


def _pause_is_respected(recount: Recount) -> Iterator[Violation]:
    if not recount.state.paused:
        return
    for preemption in recount.plan.preemptions:
        yield Violation("paused", f"preemption {preemption.id} is decided while preempting is paused")
    for action in recount.plan.actions:
        if recount.sends_a_victim_out(action) and not recount.under_way(action):
            yield Violation("paused", f"{action.id} sends a victim out while preempting is paused")


RULES: tuple[Rule, ...] = (
    _victims_are_preemptable,
    _victims_were_decided_upon,
    _preemptors_may_preempt,
    _victims_leave_as_a_whole,
    _pause_is_respected,
)
