"""The pools of one zone, its time, its logs, and the look-ups that every call shares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from msgspec import Struct

from one_preempt.simulation.simulated_cloud.authorization import AccessControl, ObjectKind, Right, Subject
from one_preempt.simulation.simulated_cloud.change_log import ChangeLogs
from one_preempt.simulation.simulated_cloud.drivers import Drivers
from one_preempt.simulation.simulated_cloud.durations import DriverLimits, Durations
from one_preempt.simulation.simulated_cloud.errors import OnedError, no_exists
from one_preempt.simulation.simulated_cloud.faults import FaultPlan
from one_preempt.simulation.simulated_cloud.image_link import ImageLink
from one_preempt.simulation.simulated_cloud.objects import (
    Caller,
    SimAcl,
    SimCluster,
    SimDatastore,
    SimGroup,
    SimHost,
    SimImage,
    SimNetwork,
    SimUser,
    SimVm,
    SimVmGroup,
    SimVmTemplate,
    SimZone,
    TemplateDict,
)
from one_preempt.simulation.simulated_cloud.quotas import QuotaBooks
from one_preempt.simulation.simulated_cloud.states import HostState, LcmState, VmState
from one_preempt.simulation.simulated_cloud.virtual_time import EventQueue, VirtualClock

_MANAGE, _DONE = Right.MANAGE, VmState.DONE
_Value = TypeVar("_Value")
_Result = TypeVar("_Result")
_Parameters = ParamSpec("_Parameters")


class AcceptedCall(Struct, frozen=True):
    """One call that was accepted: what, by whom, when, and on what it acted."""

    at_ms: int
    request_id: int
    method: str
    uid: int
    arguments: tuple[object, ...]
    result: object


class StateChange(NamedTuple):
    """One transition of a VM or a host; for hosts the LCM states are None."""

    at_ms: int
    kind: str
    object_id: int
    old_state: int
    new_state: int
    old_lcm_state: int | None = None
    new_lcm_state: int | None = None


class SharedChange(NamedTuple):
    """The same transition of several VMs at one instant: a `StateChange` of each, in this order."""

    at_ms: int
    vm_ids: tuple[int, ...]
    old_state: int
    new_state: int
    old_lcm_state: int
    new_lcm_state: int

    def of_each(self) -> Iterator[StateChange]:
        """As it is told of one VM after the other."""
        states = (self.old_state, self.new_state, self.old_lcm_state, self.new_lcm_state)
        return (StateChange(self.at_ms, "VM", vm_id, *states) for vm_id in self.vm_ids)


class Overcommit(Struct, frozen=True):
    """A host was charged beyond what it may use; among `CloudState.overloads`: more runs there than it may use."""

    at_ms: int
    host_id: int
    vm_id: int
    cpu_usage: int
    max_cpu: int
    mem_usage: int
    max_mem: int


ALONE = SimZone(0, "OpenNebula", "http://localhost:2633/RPC2", "localhost:2634")
"""As oned makes it where there is no federation."""


@dataclass
class CloudState:
    """What a zone is. Pools map ids to objects; `durations_of_vm` and `durations_of_host` override `durations`.

    `keeps_logs` False: `history_log` and `state_changes` stay empty, for runs with millions of calls.
    """

    clock: VirtualClock = field(default_factory=VirtualClock)
    version: str = "7.4.0"
    durations: Durations = field(default_factory=Durations)
    limits: DriverLimits = field(default_factory=DriverLimits)
    faults: FaultPlan = field(default_factory=FaultPlan)
    hypervisor: str = "kvm"
    durations_of_vm: dict[int, Durations] = field(default_factory=dict)
    durations_of_host: dict[int, Durations] = field(default_factory=dict)
    vms: dict[int, SimVm] = field(default_factory=dict)
    hosts: dict[int, SimHost] = field(default_factory=dict)
    clusters: dict[int, SimCluster] = field(default_factory=dict)
    datastores: dict[int, SimDatastore] = field(default_factory=dict)
    images: dict[int, SimImage] = field(default_factory=dict)
    networks: dict[int, SimNetwork] = field(default_factory=dict)
    vm_groups: dict[int, SimVmGroup] = field(default_factory=dict)
    vm_templates: dict[int, SimVmTemplate] = field(default_factory=dict)
    users: dict[int, SimUser] = field(default_factory=dict)
    groups: dict[int, SimGroup] = field(default_factory=dict)
    acls: dict[int, SimAcl] = field(default_factory=dict)
    hooks: dict[int, TemplateDict] = field(default_factory=dict)
    raft_state: int = 0
    zone_id: int = 0
    zones: list[SimZone] = field(default_factory=lambda: [ALONE])
    history_log: list[AcceptedCall] = field(default_factory=list)
    state_changes: list[StateChange] = field(default_factory=list)
    overcommits: list[Overcommit] = field(default_factory=list)
    overloads: list[Overcommit] = field(default_factory=list)
    request_id: int = 0
    keeps_logs: bool = True

    def __post_init__(self) -> None:
        # Of machines that are dead, so that the others' need not be asked for.
        self.dead_host_ids: set[int] = set()
        # None: images take no time of their own to come to a host.
        self.image_link: ImageLink | None = None
        self.changes = ChangeLogs()
        self.events = EventQueue()
        self.drivers = Drivers(self.clock, self.events, self.limits)
        self.access = AccessControl(self.acls, self.zone_id)
        self.quota_books = QuotaBooks(self.users, self.groups, self.changes)
        self._observers: list[Callable[[StateChange], None]] = []
        self._hears_passing = self.keeps_logs
        # Observers of shared changes; whether somebody has to hear of each VM by itself.
        self._shared_observers: list[Callable[[SharedChange], None]] = []
        self._hears_each = self.keeps_logs

    @property
    def is_series_7(self) -> bool:
        """The cloud answers as a 7.x oned."""
        return _is_series_7(self.version)

    # ---------------------------------------------------------------- time

    @property
    def now_s(self) -> int:
        """Now, in whole seconds since the epoch."""
        return self.clock.now_ms // 1000

    def next_event_at(self) -> float | None:
        """When something is due next, in seconds, or None while nothing is under way."""
        at_ms = self.events.next_at_ms()
        return None if at_ms is None else at_ms / 1000

    def run_until(self, at_s: float) -> None:
        """Let everything happen that is due until `at_s`, each at its instant; time does not go back."""
        self.run_until_ms(round(at_s * 1000))

    def run_until_ms(self, at_ms: int) -> None:
        """The same in whole milliseconds."""
        until_ms = max(at_ms, self.clock.now_ms)
        while (due_ms := self.events.next_at_ms()) is not None and due_ms <= until_ms:
            planned_ms, effect = self.events.take()
            self.clock.now_ms = max(self.clock.now_ms, planned_ms)
            effect()
        self.clock.now_ms = until_ms

    def advance(self, duration_s: float) -> None:
        """Let `duration_s` pass."""
        self.run_until(self.clock.now_ms / 1000 + duration_s)

    def settle(self, within_s: float = 1_000_000) -> None:
        """Let all that is under way come to its end, up to a bound of `within_s`."""
        end_s = self.clock.now_ms / 1000 + within_s
        while (at_s := self.next_event_at()) is not None and at_s <= end_s:
            self.run_until(at_s)

    def forget_vms(self, vm_ids: Iterable[int]) -> None:
        """Drop those that are DONE, which oned keeps for ever: runs with millions of VMs need the memory."""
        for vm_id in vm_ids:
            if self.vms[vm_id].state == _DONE:
                del self.vms[vm_id]

    # ---------------------------------------------------------------- observers

    def on_transition(
        self,
        observer: Callable[[StateChange], None],
        *,
        passing: bool = True,
        shared: Callable[[SharedChange], None] | None = None,
    ) -> None:
        """Call `observer` with every state change of VMs and hosts, after it happened.

        Without `passing` it need not hear of states that a VM leaves at the instant at which it enters them. `shared`
        is called once for several VMs to which the same happens at an instant, after it happened to all of them.
        """
        self._observers.append(observer)
        self._hears_passing |= passing
        if shared is None:
            self._hears_each = True
        else:
            self._shared_observers.append(shared)

    def change_vm(self, vm: SimVm, state: VmState, lcm_state: LcmState = LcmState.LCM_INIT) -> None:
        """Put the VM into a state, log it and tell the observers; meanwhile PREV_STATE names the old one."""
        before, lcm_before = vm.prev_state, vm.prev_lcm_state = vm.state, vm.lcm_state
        vm.state, vm.lcm_state = state, lcm_state
        self._note_vm(vm)
        if self._observers or self.keeps_logs:
            change = StateChange(self.clock.now_ms, "VM", vm.id, before, state, lcm_before, lcm_state)
            if self.keeps_logs:
                self.state_changes.append(change)
            for observer in self._observers:
                observer(change)
        vm.prev_state, vm.prev_lcm_state = state, lcm_state

    def change_host(self, host: SimHost, state: HostState) -> None:
        """The same for a host."""
        if host.state == state:
            return
        host.prev_state, host.state = host.state, state
        self.changes.host(host.id)
        self._publish(StateChange(self.clock.now_ms, "HOST", host.id, host.prev_state, state))
        host.prev_state = state

    def _note_vm(self, vm: SimVm) -> None:
        """The VM's state changed, and with it what its host's monitoring, its networks and its group tell."""
        template = vm.template
        for log in self.changes.logs:
            log.vms.add(vm.id)
            if vm.state != vm.prev_state and vm.history:
                log.usage.add(vm.history[-1].host_id)
            if "NIC" in template or "VMGROUP" in template:
                log.networks = True

    def _publish_shared(self, change: SharedChange) -> None:
        """Tell of a change that several VMs share; only where nobody has to hear of each by itself."""
        for observer in self._shared_observers:
            observer(change)

    def _publish(self, change: StateChange) -> None:
        if self.keeps_logs:
            self.state_changes.append(change)
        for observer in self._observers:
            observer(change)

    # ---------------------------------------------------------------- look-ups

    def vm(self, vm_id: int) -> SimVm:
        """The VM, or NO_EXISTS."""
        return found(self.vms, vm_id, "virtual machine")

    def host(self, host_id: int) -> SimHost:
        """The host, or NO_EXISTS."""
        return found(self.hosts, host_id, "host")

    def datastore(self, datastore_id: int) -> SimDatastore:
        """The datastore, or NO_EXISTS."""
        return found(self.datastores, datastore_id, "datastore")

    def user(self, uid: int) -> SimUser:
        """The user, or NO_EXISTS."""
        return found(self.users, uid, "user")

    def group(self, gid: int) -> SimGroup:
        """The group, or NO_EXISTS."""
        return found(self.groups, gid, "group")

    def demand_vm(self, caller: Caller, right: Right, vm: SimVm, *others: tuple[Right, Subject]) -> None:
        """The right on the VM, and more where a call needs more; else AUTHORIZATION."""
        is_plain = vm.lock is None and not others
        if is_plain and (caller.is_admin or (caller.uid == vm.uid and right == _MANAGE and vm.permissions.owner_m)):
            return
        self.access.demand(caller, (right, vm_subject(vm)), *others)


@lru_cache(maxsize=16)
def _is_series_7(version: str) -> bool:
    return not version.startswith(("5.", "6."))


def found(pool: Mapping[int, _Value], object_id: int, kind: str) -> _Value:
    """The object, or NO_EXISTS in oned's words."""
    try:
        return pool[object_id]
    except KeyError:
        raise no_exists(kind, object_id) from None


def vm_subject(vm: SimVm) -> Subject:
    """The VM as rights and locks see it."""
    lock_level = vm.lock.level if vm.lock else 0
    return Subject(ObjectKind.VM, vm.id, vm.uid, vm.gid, vm.permissions, lock_level=lock_level)


def host_subject(host: SimHost) -> Subject:
    """The host as rights see it: it has no permissions, only rules."""
    return Subject(ObjectKind.HOST, host.id, cluster_ids=(host.cluster_id,))


def datastore_subject(datastore: SimDatastore) -> Subject:
    """The datastore as rights see it."""
    clusters = tuple(datastore.cluster_ids)
    return Subject(ObjectKind.DATASTORE, datastore.id, datastore.uid, datastore.gid, datastore.permissions, clusters)


_Cloud = TypeVar("_Cloud", bound=CloudState)


def oned_call(
    method: Callable[Concatenate[_Cloud, Caller, _Parameters], _Result],
) -> Callable[Concatenate[_Cloud, Caller, _Parameters], _Result]:
    """Number a state-changing call and write it into `history_log` once it was accepted.

    What the call did to the object whose id it returns is told to the change logs; a call that was refused half-way
    may have left traces anywhere.
    """
    kind = method.__name__.partition("_")[0]
    is_of_vm, is_of_host = kind == "vm", kind == "host"

    @wraps(method)
    def call(cloud: _Cloud, caller: Caller, /, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        cloud.request_id += 1
        at_ms, request_id = cloud.clock.now_ms, cloud.request_id
        try:
            result = method(cloud, caller, *args, **kwargs)
        except OnedError:
            cloud.changes.surroundings()
            raise
        if is_of_vm and isinstance(result, int):
            cloud._note_vm(cloud.vms[result])
        elif is_of_host and isinstance(result, int):
            cloud.changes.host(result)
        else:
            cloud.changes.surroundings()
        if cloud.keeps_logs:
            arguments = (*args, *kwargs.values())
            cloud.history_log.append(AcceptedCall(at_ms, request_id, method.__name__, caller.uid, arguments, result))
        return result

    return call
