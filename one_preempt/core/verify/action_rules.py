"""What no action may be, whatever it is for: its VM, its state, its lock, its host, its order."""

from __future__ import annotations

from collections.abc import Iterator

from one_preempt.core.model.lease import LeaseType, PreemptionMethod
from one_preempt.core.model.plan import Action, ActionKind
from one_preempt.core.model.virtual_machine import LockLevel, VmState
from one_preempt.core.verify.recount import (
    ARRIVALS,
    DEPARTURES,
    LEGAL_STATES,
    Recount,
    Rule,
    Violation,
    is_kept_out,
)

_MOVING = ARRIVALS | DEPARTURES | {ActionKind.RESUME, ActionKind.SUSPEND}
_HOLD, _UNLOCKED = VmState.HOLD, LockLevel.NONE
OWN_ATTRIBUTES = frozenset({"LEASE_STATUS", "SCHED_MESSAGE"})


def _ids_are_unique(recount: Recount) -> Iterator[Violation]:
    if len(recount.action_by_id) == len(recount.plan.actions):
        return
    seen: set[str] = set()
    for action in recount.plan.actions:
        if action.id in seen:
            yield Violation("duplicate-id", f"action {action.id} appears twice in the plan")
        seen.add(action.id)


def _a_vm_is_sent_one_way(recount: Recount) -> Iterator[Violation]:
    if len({action.vm_id for action in recount.plan.actions}) == len(recount.plan.actions):
        return
    seen: dict[int, str] = {}
    for action in recount.plan.actions:
        if action.kind in _MOVING and seen.setdefault(action.vm_id, action.id) != action.id:
            yield Violation("contrary-actions", f"{action.id} and {seen[action.vm_id]} both move VM {action.vm_id}")


def _predecessors_are_known(recount: Recount) -> Iterator[Violation]:
    for action in recount.later:
        for action_id in action.after:
            if action_id not in recount.action_by_id and action_id not in recount.state.actions:
                yield Violation("unknown-predecessor", f"{action.id} waits for {action_id}, which nothing plans")


def _nothing_waits_for_itself(recount: Recount) -> Iterator[Violation]:
    for action in recount.later:
        if action.id in recount.ancestors(action):
            yield Violation("cycle", f"{action.id} comes after itself")


def _actions_say_why_and_write_our_own_attributes(recount: Recount) -> Iterator[Violation]:
    for action in recount.plan.actions:
        if not action.reason.code or not action.reason.text.strip():
            yield Violation("no-reason", f"{action.id} has no reason")
        for name, _ in action.attributes:
            if action.kind is not ActionKind.MESSAGE or name not in OWN_ATTRIBUTES:
                yield Violation("foreign-attribute", f"{action.id} would write {name} to VM {action.vm_id}")


def _vms_are_what_the_plan_takes_them_for(recount: Recount) -> Iterator[Violation]:
    for action in recount.of_nobody:
        yield Violation("unknown-vm", f"{action.id} is about VM {action.vm_id}, which does not exist")
    for action, vm in recount.known:
        if recount.lease_of_vm.get(vm.id) != action.lease_id:
            yield Violation("wrong-lease", f"{action.id}: VM {vm.id} is not of lease {action.lease_id}")
        elif action.expected_uid not in (None, vm.uid):
            yield Violation("changed-hands", f"{action.id}: VM {vm.id} belongs to user {vm.uid} now")


def _states_allow_the_call(recount: Recount) -> Iterator[Violation]:
    for action, vm in recount.known:
        legal = LEGAL_STATES.get(action.kind)
        if legal is None or vm.state_name in legal:
            continue
        failed_and_ended = action.kind is ActionKind.TERMINATE and vm.state_name.endswith("_FAILURE")
        if not failed_and_ended and not recount.under_way(action):
            yield Violation("illegal-state", f"{action.id}: {action.kind} of VM {vm.id} while it is {vm.state_name}")


def _holds_of_owners_are_respected(recount: Recount) -> Iterator[Violation]:
    """HOLD without LEASE is somebody's wish: such a VM is neither started nor terminated.

    That the VM is of that lease is a rule of its own.
    """
    ends = [one for one in recount.others if one.kind is ActionKind.TERMINATE]
    unasked = [one for one in ends if not _has_lease_of_its_own(recount, one.lease_id)]
    for lease_id, starts in recount.starts_by_lease.items():
        if not _has_lease_of_its_own(recount, lease_id):
            unasked += starts
    for action in unasked:
        vm = recount.vms.get(action.vm_id)
        if vm is not None and vm.state is _HOLD:
            yield Violation("held-by-owner", f"{action.id}: VM {vm.id} is on HOLD without a LEASE of its own")


def _has_lease_of_its_own(recount: Recount, lease_id: int) -> bool:
    lease = recount.leases.get(lease_id)
    return lease is not None and lease.explicit


def _locks_are_respected(recount: Recount) -> Iterator[Violation]:
    """ADMIN locks stop deploy and migrate only; whether they shield a victim is the administrator's rule."""
    for action, vm in recount.known:
        if vm.lock_level is _UNLOCKED or recount.under_way(action):
            continue
        if action.kind is ActionKind.UNLOCK or _is_unlocked_before(recount, action):
            continue
        lease = recount.lease_of(vm.id)
        shielded = recount.sends_a_victim_out(action) and (lease is None or lease.shielded_by_lock)
        if vm.lock_level is not LockLevel.ADMIN or action.kind in ARRIVALS or shielded:
            yield Violation("locked-vm", f"{action.id}: VM {vm.id} is locked ({vm.lock_level.name})")


def _is_unlocked_before(recount: Recount, action: Action) -> bool:
    """By the order of the plan, in which calls are made."""
    for one in recount.plan.actions:
        if one is action:
            return False
        if one.kind is ActionKind.UNLOCK and one.vm_id == action.vm_id:
            return True
    return False


def _only_our_locks_are_opened(recount: Recount) -> Iterator[Violation]:
    """Its owner and level are ours, and it is on record that we set it; or the ledger was lost, and the VM says so."""
    for action in recount.others:
        if action.kind is not ActionKind.UNLOCK:
            continue
        vm = recount.vms.get(action.vm_id)
        if vm is None or vm.lock_level is _UNLOCKED:
            continue
        recorded = any(
            one.kind is ActionKind.LOCK and one.vm_id == vm.id and one.attempts > 0
            for one in recount.state.actions.values()
        )
        lease = recount.lease_of(vm.id)
        told = str(vm.user_template.get("LEASE_STATUS", ("",))[0]).startswith("suspended in place for lease")
        lost = told and lease is not None and lease.preempted_by is not None
        if not recount.bears_our_lock(vm) or not (recorded or lost):
            yield Violation("foreign-lock", f"{action.id}: the lock of VM {vm.id} is not one that we set")


def _resumed_is_what_we_suspended(recount: Recount) -> Iterator[Violation]:
    """What its owner suspended is his to resume."""
    for action in recount.others:
        if action.kind is not ActionKind.RESUME or recount.under_way(action):
            continue
        lease = recount.lease_of(action.vm_id)
        recorded = any(
            one.kind is ActionKind.SUSPEND and one.vm_id == action.vm_id for one in recount.state.actions.values()
        )
        if not recorded and (lease is None or lease.preempted_by is None):
            yield Violation("not-ours-to-resume", f"{action.id}: VM {action.vm_id} was not suspended by us")


def _hosts_accept_what_comes(recount: Recount) -> Iterator[Violation]:
    for action in recount.to_nowhere:
        if not recount.under_way(action):
            yield Violation("unknown-host", f"{action.id} names host {action.host_id}, which does not exist")
    for action, _, host in recount.arrivals:
        if (host.accepts_vms and action.enforce_capacity) or recount.under_way(action):
            continue
        if not host.accepts_vms:
            yield Violation("host-refuses", f"{action.id}: host {host.id} is {host.state.name} and takes no VMs")
        elif not _somebody_rests_for_it(recount, action):
            yield Violation("not-enforced", f"{action.id} asks oned not to check the capacity of host {host.id}")


def _somebody_rests_for_it(recount: Recount, action: Action) -> bool:
    """oned's books count what rests on the host in place: a victim of this preemption, by now or before this step."""
    preemption = recount.preemptions.get(action.preemption_id or "")
    locked_before = {
        recount.action_by_id[action_id].vm_id
        for action_id in recount.ancestors(action)
        if recount.action_by_id[action_id].kind is ActionKind.LOCK
    }
    for victim in preemption.victims if preemption is not None else ():
        vm = recount.vms.get(victim.vm_id)
        here = vm is not None and vm.host_id == action.host_id and victim.method is PreemptionMethod.SUSPEND
        if here and vm is not None and not recount.rests(vm) and vm.id not in locked_before:
            return False
    resting = recount.resting_by_host.get(action.host_id, []) if action.host_id is not None else []
    return bool(resting) or any(recount.vms[vm_id].host_id == action.host_id for vm_id in locked_before)


def _what_was_paused_is_left_to_its_owner(recount: Recount) -> Iterator[Violation]:
    """Whoever sent it out meanwhile: it starts again once its owner has resumed it, and is PENDING by that."""
    for lease_id, starts in recount.starts_by_lease.items():
        lease = recount.leases.get(lease_id)
        if lease is None or not lease.paused_vm_ids:
            continue
        for action in starts:
            vm = recount.vms.get(action.vm_id)
            if vm is not None and is_kept_out(lease, vm):
                yield Violation("paused-by-owner", f"{action.id}: VM {vm.id} was paused by its owner before it left")


def _guests_are_shut_down_by_leave(recount: Recount) -> Iterator[Violation]:
    """An undeploy loses the work of a guest that runs; what is powered off has none, as long as it is powered off."""
    for action in recount.others:
        if action.kind is not ActionKind.UNDEPLOY or action.preemption_id is None or recount.under_way(action):
            continue
        lease = recount.lease_of(action.vm_id)
        if lease is None or lease.terms.shutdown_ok or lease.terms.type is LeaseType.BE_CANCELLABLE:
            continue
        if action.expected_states != ("POWEROFF",):
            yield Violation("shut-down", f"{action.id} may shut VM {action.vm_id} down, which its lease does not allow")


def _gangs_start_as_a_whole(recount: Recount) -> Iterator[Violation]:
    """Every member starts in this plan, is on a host already, or was tried and refused a moment ago.

    That no VM is taken for one of another lease is a rule of its own.
    """
    starting = recount.starting_vm_ids()
    tried: set[int] | None = None
    for lease_id in sorted(recount.starts_by_lease):
        lease = recount.leases.get(lease_id)
        if lease is None or len(lease.vm_ids) < 2 or starting.issuperset(lease.vm_ids):
            continue
        if tried is None:
            tried = {record.vm_id for record in (*recount.state.failed_actions, *recount.state.actions.values())}
        for vm_id in lease.vm_ids:
            vm = recount.vms[vm_id]
            waits = vm_id not in starting and vm.may_be_deployed and vm_id not in tried
            if waits and not is_kept_out(lease, vm):
                yield Violation("gang-torn", f"lease {lease.id} would start without its VM {vm_id}")


RULES: tuple[Rule, ...] = (
    _ids_are_unique,
    _a_vm_is_sent_one_way,
    _actions_say_why_and_write_our_own_attributes,
    _vms_are_what_the_plan_takes_them_for,
    _states_allow_the_call,
    _holds_of_owners_are_respected,
    _locks_are_respected,
    _hosts_accept_what_comes,
    _gangs_start_as_a_whole,
    _what_was_paused_is_left_to_its_owner,
)
# Of actions that wait for others, and of those that are no starts.
RULES_OF_ORDER: tuple[Rule, ...] = (_predecessors_are_known, _nothing_waits_for_itself)
RULES_OF_OTHERS: tuple[Rule, ...] = (
    _only_our_locks_are_opened,
    _resumed_is_what_we_suspended,
    _guests_are_shut_down_by_leave,
)
