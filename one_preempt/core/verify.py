"""The independent recount: what no plan may contain, checked naively against what was observed.

It shares no arithmetic with the decision, so that it can catch its mistakes: plain integers over the hosts and
VMs of the snapshot. A plan with a violation is not carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.host import KIB_PER_MIB, Host, PciDevice
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.plan import METHOD_ACTIONS, Action, ActionKind, Plan, Victim
from one_preempt.core.model.virtual_machine import LockLevel, PciRequest, VirtualMachine


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule: a code and a sentence naming the action or host."""

    code: str
    text: str


MOVES = frozenset({ActionKind.MIGRATE, ActionKind.LIVE_MIGRATE})
DEPARTURES = frozenset({ActionKind.STOP, ActionKind.UNDEPLOY, ActionKind.TERMINATE})
ARRIVALS = frozenset({ActionKind.DEPLOY}) | MOVES
OWN_ATTRIBUTES = frozenset({"LEASE_STATUS", "SCHED_MESSAGE"})

# The states, by name, in which oned accepts each call (FACTS 3.2); MESSAGE is accepted in any.
LEGAL_STATES: dict[ActionKind, frozenset[str]] = {
    ActionKind.DEPLOY: frozenset({"PENDING", "HOLD", "STOPPED", "UNDEPLOYED"}),
    ActionKind.MIGRATE: frozenset({"RUNNING", "UNKNOWN", "POWEROFF", "SUSPENDED"}),
    ActionKind.LIVE_MIGRATE: frozenset({"RUNNING"}),
    ActionKind.STOP: frozenset({"RUNNING", "SUSPENDED"}),
    ActionKind.UNDEPLOY: frozenset({"RUNNING", "UNKNOWN", "POWEROFF"}),
    ActionKind.TERMINATE: frozenset(
        {"RUNNING", "UNKNOWN", "SUSPENDED", "POWEROFF", "STOPPED", "UNDEPLOYED", "PENDING", "HOLD"}
    ),
    ActionKind.RESUME: frozenset({"STOPPED", "UNDEPLOYED", "SUSPENDED", "POWEROFF", "UNKNOWN"}),
    ActionKind.HOLD: frozenset({"PENDING"}),
    ActionKind.RELEASE: frozenset({"HOLD"}),
}
# While these last, a moving VM is still charged to the host it leaves (FACTS 3.3).
CHARGED_TWICE = frozenset({"MIGRATE", "SAVE_MIGRATE"})
MAX_ORDERS = 512


def verify(state: ClusterState, plan: Plan) -> tuple[Violation, ...]:
    """All rules that `plan` breaks in `state`; empty for a sound plan."""
    recount = _Recount(state, plan)
    return tuple(violation for rule in _RULES for violation in rule(recount))


class _Recount:
    """The plan and the state, looked up by the rules."""

    def __init__(self, state: ClusterState, plan: Plan) -> None:
        self.state = state
        self.plan = plan
        self.vms = state.snapshot.vms
        self.hosts = state.snapshot.hosts
        self.action_by_id = {action.id: action for action in plan.actions}
        decided = [opened.preemption for opened in state.preemptions]
        self.preemptions = {preemption.id: preemption for preemption in (*decided, *plan.preemptions)}

    def lease_of(self, vm_id: int) -> Lease | None:
        """The lease that the VM is a member of."""
        return self.state.leases.get(self.state.lease_of_vm.get(vm_id, -1))

    def under_way(self, action: Action) -> bool:
        """Issued before, and the VM has left the state in which it was issued: nothing will be called again."""
        record = self.state.actions.get(action.id)
        vm = self.vms.get(action.vm_id)
        if record is None or record.attempts == 0 or vm is None:
            return False
        return vm.state_name not in LEGAL_STATES.get(action.kind, frozenset())

    def victim_of(self, action: Action) -> Victim | None:
        """The entry of the preemption that this action carries out, if it does."""
        preemption = self.preemptions.get(action.preemption_id or "")
        victims = preemption.victims if preemption is not None else ()
        return next((victim for victim in victims if victim.vm_id == action.vm_id), None)

    def sends_a_victim_out(self, action: Action) -> bool:
        """Takes a VM off its host for somebody else."""
        return action.preemption_id is not None and action.kind in DEPARTURES | MOVES

    def ancestors(self, action: Action) -> set[str]:
        """The ids of all actions of this plan that must be done before."""
        found: set[str] = set()
        waiting = list(action.after)
        while waiting:
            action_id = waiting.pop()
            if action_id not in found and action_id in self.action_by_id:
                found.add(action_id)
                waiting.extend(self.action_by_id[action_id].after)
        return found


Rule = Callable[[_Recount], Iterator[Violation]]


def _ids_are_unique(recount: _Recount) -> Iterator[Violation]:
    seen: set[str] = set()
    for action in recount.plan.actions:
        if action.id in seen:
            yield Violation("duplicate-id", f"action {action.id} stands twice in the plan")
        seen.add(action.id)


def _a_vm_is_sent_one_way(recount: _Recount) -> Iterator[Violation]:
    seen: dict[int, str] = {}
    for action in recount.plan.actions:
        if action.kind not in ARRIVALS | DEPARTURES | {ActionKind.RESUME}:
            continue
        if seen.setdefault(action.vm_id, action.id) != action.id:
            yield Violation("contrary-actions", f"{action.id} and {seen[action.vm_id]} both move VM {action.vm_id}")


def _predecessors_are_known(recount: _Recount) -> Iterator[Violation]:
    for action in recount.plan.actions:
        for action_id in action.after:
            if action_id not in recount.action_by_id and action_id not in recount.state.actions:
                yield Violation("unknown-predecessor", f"{action.id} waits for {action_id}, which nothing plans")


def _nothing_waits_for_itself(recount: _Recount) -> Iterator[Violation]:
    for action in recount.plan.actions:
        if action.id in recount.ancestors(action):
            yield Violation("cycle", f"{action.id} comes after itself")


def _reasons_are_given(recount: _Recount) -> Iterator[Violation]:
    for action in recount.plan.actions:
        if not action.reason.code or not action.reason.text.strip():
            yield Violation("no-reason", f"{action.id} has no reason")


def _vms_are_what_the_plan_takes_them_for(recount: _Recount) -> Iterator[Violation]:
    for action in recount.plan.actions:
        vm = recount.vms.get(action.vm_id)
        if vm is None:
            yield Violation("unknown-vm", f"{action.id} is about VM {action.vm_id}, which does not exist")
        elif recount.state.lease_of_vm.get(vm.id) != action.lease_id:
            yield Violation("wrong-lease", f"{action.id}: VM {vm.id} is not of lease {action.lease_id}")
        elif action.expected_uid not in (None, vm.uid):
            yield Violation("changed-hands", f"{action.id}: VM {vm.id} belongs to user {vm.uid} now")


def _states_allow_the_call(recount: _Recount) -> Iterator[Violation]:
    for action in recount.plan.actions:
        vm = recount.vms.get(action.vm_id)
        legal = LEGAL_STATES.get(action.kind)
        if vm is None or legal is None or recount.under_way(action):
            continue
        failed_and_ended = action.kind is ActionKind.TERMINATE and vm.state_name.endswith("_FAILURE")
        if vm.state_name not in legal and not failed_and_ended:
            yield Violation("illegal-state", f"{action.id}: {action.kind} of VM {vm.id} while it is {vm.state_name}")


def _holds_of_owners_are_respected(recount: _Recount) -> Iterator[Violation]:
    """HOLD without LEASE is somebody's wish (DESIGN 5)."""
    for action in recount.plan.actions:
        vm = recount.vms.get(action.vm_id)
        if vm is None or action.kind not in (ActionKind.DEPLOY, ActionKind.RELEASE, ActionKind.TERMINATE):
            continue
        lease = recount.lease_of(vm.id)
        if vm.state_name == "HOLD" and (lease is None or not lease.explicit):
            yield Violation("held-by-owner", f"{action.id}: VM {vm.id} is on HOLD without a LEASE of its own")


def _locks_are_respected(recount: _Recount) -> Iterator[Violation]:
    """ADMIN locks stop deploy and migrate only; whether they shield a victim is the administrator's rule."""
    for action in recount.plan.actions:
        vm = recount.vms.get(action.vm_id)
        if vm is None or vm.lock_level is LockLevel.NONE or recount.under_way(action):
            continue
        lease = recount.lease_of(vm.id)
        shielded = recount.sends_a_victim_out(action) and (lease is None or lease.shielded_by_lock)
        if vm.lock_level is not LockLevel.ADMIN or action.kind in ARRIVALS or shielded:
            yield Violation("locked-vm", f"{action.id}: VM {vm.id} is locked ({vm.lock_level.name})")


def _hosts_accept_what_comes(recount: _Recount) -> Iterator[Violation]:
    for action in recount.plan.actions:
        if action.kind not in ARRIVALS or recount.under_way(action):
            continue
        host = recount.hosts.get(action.host_id) if action.host_id is not None else None
        if host is None:
            yield Violation("unknown-host", f"{action.id} names host {action.host_id}, which does not exist")
        elif not host.accepts_vms:
            yield Violation("host-refuses", f"{action.id}: host {host.id} is {host.state.name} and takes no VMs")
        elif not action.enforce_capacity:
            yield Violation("not-enforced", f"{action.id} asks oned not to check the capacity of host {host.id}")


def _victims_are_preemptable(recount: _Recount) -> Iterator[Violation]:
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


def _unmarked_move(recount: _Recount, action: Action) -> Iterator[Violation]:
    """Outside a preemption only what somebody marked with RESCHED is moved, and really elsewhere."""
    vm = recount.vms.get(action.vm_id)
    if vm is None or recount.under_way(action):
        return
    if not vm.resched:
        yield Violation("not-rescheduled", f"{action.id} moves VM {vm.id}, which nobody marked for rescheduling")
    elif vm.host_id == action.host_id:
        yield Violation("not-elsewhere", f"{action.id} moves VM {vm.id} to host {vm.host_id}, where it is")


def _victims_were_decided_upon(recount: _Recount) -> Iterator[Violation]:
    for action in recount.plan.actions:
        if not recount.sends_a_victim_out(action):
            continue
        victim = recount.victim_of(action)
        if victim is None or victim.lease_id != action.lease_id:
            yield Violation("foreign-victim", f"{action.id}: preemption {action.preemption_id} has no such victim")
        elif METHOD_ACTIONS[victim.method] is not action.kind:
            yield Violation("foreign-method", f"{action.id} is not the {victim.method} that was decided upon")


def _preemptors_may_preempt(recount: _Recount) -> Iterator[Violation]:
    for preemption in recount.plan.preemptions:
        lease = recount.state.leases.get(preemption.preemptor_lease_id)
        if lease is None or not lease.may_preempt:
            yield Violation("no-right-to-preempt", f"preemption {preemption.id}: its lease may not preempt")
        elif lease.id in preemption.victim_lease_ids:
            yield Violation("preempts-itself", f"preemption {preemption.id}: its lease is among the victims")


def _victims_leave_as_a_whole(recount: _Recount) -> Iterator[Violation]:
    for preemption in recount.plan.preemptions:
        leaving = {victim.vm_id for victim in preemption.victims}
        for lease_id in preemption.victim_lease_ids:
            lease = recount.state.leases.get(lease_id)
            members = [recount.vms[vm_id] for vm_id in (lease.vm_ids if lease is not None else ())]
            staying = [vm.id for vm in members if vm.holds_capacity and vm.id not in leaving]
            if staying:
                yield Violation("victim-torn", f"preemption {preemption.id} leaves VM {staying[0]} of lease {lease_id}")


def _gangs_start_as_a_whole(recount: _Recount) -> Iterator[Violation]:
    """Every member starts in this plan, is on a host already, or was tried and refused a moment ago."""
    starting = {action.vm_id for action in recount.plan.actions if action.kind is ActionKind.DEPLOY}
    tried = {record.vm_id for record in (*recount.state.failed_actions, *recount.state.actions.values())}
    for lease_id in sorted(recount.state.leases):
        lease = recount.state.leases[lease_id]
        if len(lease.vm_ids) < 2 or not starting.intersection(lease.vm_ids):
            continue
        for vm_id in lease.vm_ids:
            if vm_id not in starting and recount.vms[vm_id].may_be_deployed and vm_id not in tried:
                yield Violation("gang-torn", f"lease {lease_id} would start without its VM {vm_id}")


def _pause_is_respected(recount: _Recount) -> Iterator[Violation]:
    if not recount.state.paused:
        return
    for preemption in recount.plan.preemptions:
        yield Violation("paused", f"preemption {preemption.id} is decided while preempting is paused")
    for action in recount.plan.actions:
        if recount.sends_a_victim_out(action) and not recount.under_way(action):
            yield Violation("paused", f"{action.id} sends a victim out while preempting is paused")


def _messages_write_our_own_attributes(recount: _Recount) -> Iterator[Violation]:
    for action in recount.plan.actions:
        for name, _ in action.attributes:
            if action.kind is not ActionKind.MESSAGE or name not in OWN_ATTRIBUTES:
                yield Violation("foreign-attribute", f"{action.id} would write {name} to VM {action.vm_id}")


@dataclass(frozen=True, slots=True)
class _Arrival:
    """A VM that comes to a host, and the VMs that have certainly left it by then."""

    vm: VirtualMachine
    after_leaving: frozenset[int]


def _hosts_hold_what_they_are_given(recount: _Recount) -> Iterator[Violation]:
    """At no moment that the order of the actions permits does a host hold more than it has."""
    for host_id, arrivals in sorted(_arrivals_by_host(recount).items()):
        host = recount.hosts[host_id]
        for left in _possible_departures(arrivals):
            present = [arrival.vm for arrival in arrivals if arrival.after_leaving <= left]
            if present:
                yield from _overfull(host, present, [recount.vms[vm_id] for vm_id in sorted(left)])


def _arrivals_by_host(recount: _Recount) -> dict[int, list[_Arrival]]:
    found: dict[int, list[_Arrival]] = {}
    for action in recount.plan.actions:
        vm, host_id = recount.vms.get(action.vm_id), action.host_id
        if action.kind not in ARRIVALS or vm is None or host_id is None or vm.host_id == host_id:
            continue
        earlier = [recount.action_by_id[action_id] for action_id in recount.ancestors(action)]
        left = frozenset(one.vm_id for one in earlier if _leaves(recount, one, host_id))
        if host_id in recount.hosts:
            found.setdefault(host_id, []).append(_Arrival(vm, left))
    return found


def _leaves(recount: _Recount, action: Action, host_id: int) -> bool:
    """Does the snapshot charge `host_id` for the VM, and will it no longer once the action is done?"""
    vm = recount.vms.get(action.vm_id)
    if vm is None or action.kind not in DEPARTURES | MOVES:
        return False
    if vm.host_id == host_id:
        return action.kind in DEPARTURES or action.host_id != host_id
    victim = recount.victim_of(action)
    return victim is not None and victim.host_id == host_id and vm.state_name in CHARGED_TWICE


def _possible_departures(arrivals: Iterable[_Arrival]) -> list[frozenset[int]]:
    """Every set of departures after which some arrivals may come: the unions of what each one waits for."""
    possible = {frozenset[int]()}
    waits = sorted({arrival.after_leaving for arrival in arrivals}, key=sorted)
    for wait in waits:
        possible |= {wait} | ({wait | other for other in possible} if len(possible) < MAX_ORDERS else set())
    everything = frozenset[int]().union(*waits)
    return sorted(possible | {everything}, key=lambda left: (len(left), sorted(left)))


def _overfull(host: Host, present: list[VirtualMachine], left: list[VirtualMachine]) -> Iterator[Violation]:
    names = ", ".join(f"VM {vm.id}" for vm in present[:5])
    cpu_centi = host.cpu_usage_centi + sum(vm.cpu_centi for vm in present) - sum(vm.cpu_centi for vm in left)
    if cpu_centi > host.max_cpu_centi and any(vm.cpu_centi for vm in present):
        text = f"host {host.id} with {names} would hold {cpu_centi} of {host.max_cpu_centi} hundredths of a CPU"
        yield Violation("over-capacity", text)
    memory_mib = sum(vm.memory_mib for vm in present) - sum(vm.memory_mib for vm in left)
    memory_kib = host.memory_usage_kib + memory_mib * KIB_PER_MIB
    if memory_kib > host.max_memory_kib and any(vm.memory_mib for vm in present):
        text = f"host {host.id} with {names} would hold {memory_kib} of {host.max_memory_kib} KiB"
        yield Violation("over-capacity", text)
    requests = [request for vm in present for request in vm.pci_requests]
    gone = {-1, *(vm.id for vm in left)}
    devices = [device for device in host.pci_devices if device.vm_id in gone]
    if not _each_has_its_own(requests, devices):
        yield Violation("device-double-use", f"host {host.id} has too few PCI devices for {names}")


def _each_has_its_own(requests: list[PciRequest], devices: list[PciDevice]) -> bool:
    """Can every request be given a device of its own? Augmenting paths, one request after the other."""
    holder: dict[int, int] = {}

    def give(request: int, tried: set[int]) -> bool:
        for device in range(len(devices)):
            if device in tried or not _suits(requests[request], devices[device]):
                continue
            tried.add(device)
            if device not in holder or give(holder[device], tried):
                holder[device] = request
                return True
        return False

    return all(give(request, set()) for request in range(len(requests)))


def _suits(request: PciRequest, device: PciDevice) -> bool:
    wanted = (
        (request.vendor, device.vendor),
        (request.device, device.device),
        (request.device_class, device.device_class),
        (request.short_address, device.short_address),
    )
    return all(asked.lower() in ("", has.lower()) for asked, has in wanted)


_RULES: tuple[Rule, ...] = (
    _ids_are_unique,
    _a_vm_is_sent_one_way,
    _predecessors_are_known,
    _nothing_waits_for_itself,
    _reasons_are_given,
    _vms_are_what_the_plan_takes_them_for,
    _states_allow_the_call,
    _holds_of_owners_are_respected,
    _locks_are_respected,
    _hosts_accept_what_comes,
    _victims_are_preemptable,
    _victims_were_decided_upon,
    _preemptors_may_preempt,
    _victims_leave_as_a_whole,
    _gangs_start_as_a_whole,
    _pause_is_respected,
    _messages_write_our_own_attributes,
    _hosts_hold_what_they_are_given,
)
