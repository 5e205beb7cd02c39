"""The plan and the state as the rules look at them, and what a rule yields when it is broken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.host import Host, HostState
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.plan import Action, ActionKind, Plan, Preemption, Victim
from one_preempt.core.model.power_sequence import PowerPhase, PowerSequence
from one_preempt.core.model.recount_rules import RecountRules
from one_preempt.core.model.reservation import Booking, Verdict
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.verify.books import Books, bears_our_lock, rests


class Violation(Struct, frozen=True):
    """One broken rule: a code and a sentence naming the action or host."""

    code: str
    text: str


_DEPLOY = ActionKind.DEPLOY
MOVES = frozenset({ActionKind.MIGRATE, ActionKind.LIVE_MIGRATE})
DEPARTURES = frozenset({ActionKind.STOP, ActionKind.UNDEPLOY, ActionKind.TERMINATE})
ARRIVALS = frozenset({ActionKind.DEPLOY}) | MOVES
# What takes a VM off its host, or off its processors.
REMOVALS = DEPARTURES | MOVES | {ActionKind.SUSPEND}
_NOT_TO_COME = frozenset({PowerPhase.AWAKE, PowerPhase.FAILED, PowerPhase.CUTTING_POWER})

# The states, by name, in which oned accepts each call (its refusals: errors.json in tests/recordings/7.4.0); MESSAGE is
# accepted in any.
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
    ActionKind.SUSPEND: frozenset({"RUNNING"}),
    ActionKind.HOLD: frozenset({"PENDING"}),
}


class Recount:
    """The plan, the state and the books of it, looked up by the rules, of which some were chosen (`chosen`)."""

    def __init__(self, state: ClusterState, plan: Plan, books: Books, chosen: RecountRules) -> None:
        self.state = state
        self.plan = plan
        self.books = books
        self.chosen = chosen
        self.vms = state.snapshot.vms
        self.hosts = state.snapshot.hosts
        self.leases, self.lease_of_vm = state.leases, state.lease_of_vm
        self.action_by_id: dict[str, Action] = {}
        # Starts are by far the most actions; those that wait for others are the fewest.
        self.starts_by_lease: dict[int, list[Action]] = {}
        self.others: list[Action] = []
        self.later: list[Action] = []
        # Those about VMs that there are, or not; of the former those that bring one to a host that there is, or not.
        self.known: list[tuple[Action, VirtualMachine]] = []
        self.of_nobody: list[Action] = []
        self.arrivals: list[tuple[Action, VirtualMachine, Host]] = []
        self.to_nowhere: list[Action] = []
        self._sort_actions()
        self._hosts_then: dict[int, Host | None] = {}

    def _sort_actions(self) -> None:
        vms, hosts = self.vms, self.hosts
        for action in self.plan.actions:
            self.action_by_id[action.id] = action
            vm, host_id = vms.get(action.vm_id), action.host_id
            if action.kind is _DEPLOY:
                self.starts_by_lease.setdefault(action.lease_id, []).append(action)
            else:
                self.others.append(action)
            if action.after:
                self.later.append(action)
            if vm is None:
                self.of_nobody.append(action)
                continue
            self.known.append((action, vm))
            if action.kind not in ARRIVALS:
                continue
            if host_id is not None and host_id in hosts:
                self.arrivals.append((action, vm, hosts[host_id]))
            else:
                self.to_nowhere.append(action)

    def starting_vm_ids(self) -> set[int]:
        """The VMs that the plan starts."""
        return {action.vm_id for starts in self.starts_by_lease.values() for action in starts}

    @cached_property
    def preemptions(self) -> Mapping[str, Preemption]:
        """Those that are not over, and those that the plan begins, by their ids."""
        decided = [opened.preemption for opened in self.state.preemptions]
        return {preemption.id: preemption for preemption in (*decided, *self.plan.preemptions)}

    @cached_property
    def resting_by_host(self) -> Mapping[int, Sequence[VirtualMachine]]:
        """The VMs at rest on each host, by ascending ids."""
        found: dict[int, list[VirtualMachine]] = {}
        for vm_id in sorted(self.books.resting_ids & self.vms.keys()):
            host_id = self.vms[vm_id].host_id
            if host_id is not None:
                found.setdefault(host_id, []).append(self.vms[vm_id])
        return found

    @cached_property
    def booking_by_lease(self) -> Mapping[int, Booking]:
        """What the plan books for each lease of which it says so."""
        return {booking.lease_id: booking for booking in self.plan.bookings}

    @cached_property
    def verdict_by_lease(self) -> Mapping[int, Verdict]:
        """What the plan says to wishes for a time."""
        return {given.lease_id: given.verdict for given in self.plan.verdicts}

    @cached_property
    def power_then(self) -> Mapping[int, PowerSequence]:
        """The power sequences as they are once the plan is written."""
        return {**self.state.power.sequences, **{one.host_id: one for one in self.plan.power_sequences}}

    @cached_property
    def victim_lease_ids(self) -> Set[int]:
        """The leases that are sent out: by this plan, or by a preemption that is not over."""
        return {lease_id for one in self.preemptions.values() for lease_id in one.victim_lease_ids}

    @cached_property
    def moving_vm_ids(self) -> Set[int]:
        """The VMs that something is done about by this plan, or that take part in a preemption that is not over."""
        found = {action.vm_id for action in self.plan.actions}
        for one in self.preemptions.values():
            found |= {victim.vm_id for victim in one.victims} | {placement.vm_id for placement in one.placements}
        return found

    def guests_of(self, host: Host) -> Set[int]:
        """All VMs that a host lists, or that say they are there, are coming, or are not all gone from there."""
        copied = {vm_id for vm_id, source in self.books.sources.items() if source == host.id}
        return self.books.guests(self.state, host.id) | set(host.vm_ids) | copied

    def host_then(self, host_id: int) -> Host | None:
        """A host as it will be to whoever was promised it: one that we bring back is on, as large as known."""
        # Asked of the same few hosts for each of the reservations on them.
        if host_id not in self._hosts_then:
            self._hosts_then[host_id] = self._host_then(host_id)
        return self._hosts_then[host_id]

    def _host_then(self, host_id: int) -> Host | None:
        host, sequence = self.hosts.get(host_id), self.state.power.sequences.get(host_id)
        capacity = self.state.power.capacities.get(host_id)
        if host is None or host.accepts_vms or sequence is None or capacity is None or sequence.phase in _NOT_TO_COME:
            return host
        shown = host.max_cpu_centi > 0
        return replace(
            host,
            state=HostState.MONITORED,
            max_cpu_centi=host.max_cpu_centi if shown else capacity.max_cpu_centi,
            max_memory_kib=host.max_memory_kib if shown else capacity.max_memory_kib,
        )

    def lease_of(self, vm_id: int) -> Lease | None:
        """The lease that the VM is a member of."""
        return self.leases.get(self.lease_of_vm.get(vm_id, -1))

    def under_way(self, action: Action) -> bool:
        """Issued before, and the VM has left the state in which it was issued: nothing will be called again."""
        record = self.state.actions.get(action.id)
        if record is None or record.attempts == 0:
            return False
        vm = self.vms.get(action.vm_id)
        if vm is None:
            return False
        return vm.state_name not in LEGAL_STATES.get(action.kind, frozenset())

    def victim_of(self, action: Action) -> Victim | None:
        """The entry of the preemption that this action carries out, if it does."""
        preemption = self.preemptions.get(action.preemption_id or "")
        victims = preemption.victims if preemption is not None else ()
        return next((victim for victim in victims if victim.vm_id == action.vm_id), None)

    def sends_a_victim_out(self, action: Action) -> bool:
        """Takes a VM off its host, or its processors, for somebody else."""
        return action.preemption_id is not None and action.kind in REMOVALS

    def bears_our_lock(self, vm: VirtualMachine) -> bool:
        """Locked by the user that we are at oned, at the level at which we lock."""
        return bears_our_lock(vm, self.state.snapshot.own_uid)

    def rests(self, vm: VirtualMachine) -> bool:
        """Takes no part of the host that is charged for it: suspended, and nobody but us can resume it."""
        return rests(vm, self.state.snapshot.own_uid)

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


def is_kept_out(lease: Lease, vm: VirtualMachine) -> bool:
    """Its owner had paused it when it left its host, and has not resumed it: it starts with nobody."""
    return vm.id in lease.paused_vm_ids and vm.state_name in ("STOPPED", "UNDEPLOYED")


Rule = Callable[[Recount], Iterator[Violation]]
