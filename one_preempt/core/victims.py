"""Who may be a victim, and by which method each of its VMs would leave."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from functools import lru_cache
from itertools import groupby
from operator import attrgetter, itemgetter

from msgspec import Struct

from one_preempt.core.matching.datastores import is_monitored
from one_preempt.core.matching.room import Room
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.infrastructure import Datastore
from one_preempt.core.model.lease import Lease, LeaseState, LeaseType, PreemptionMethod
from one_preempt.core.model.lease_lifecycle import may_be_sent_out
from one_preempt.core.model.modes_and_limits import PreemptionLimits, VictimRules
from one_preempt.core.model.plan import Preemption, Reason, Victim
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.time_rules import Overrun, TimeRules
from one_preempt.core.model.virtual_machine import LockLevel, VirtualMachine, VmState
from one_preempt.core.model.written_time import duration_text
from one_preempt.core.tried_in_vain import methods_in_vain

UNMEASURED_MIB = 2**62
MOVES = frozenset({PreemptionMethod.LIVE_MIGRATE, PreemptionMethod.MIGRATE})
# In the pool's documents oned names the ids of scheduled actions alone.
_MAY_WAKE = ("", "resume")
_SAVES = frozenset({PreemptionMethod.STOP, PreemptionMethod.SUSPEND})
_BRINGS_OFF_HOST = frozenset({PreemptionMethod.STOP, PreemptionMethod.UNDEPLOY})

_UNLOCKED, _BE_CANCELLABLE = LockLevel.NONE, LeaseType.BE_CANCELLABLE
_SUSPEND, _UNDEPLOY, _TERMINATE = PreemptionMethod.SUSPEND, PreemptionMethod.UNDEPLOY, PreemptionMethod.TERMINATE
_MIGRATE, _LIVE_MIGRATE = PreemptionMethod.MIGRATE, PreemptionMethod.LIVE_MIGRATE
# What oned takes for a VM that is at rest, and by which its guest loses nothing.
_OUT_OF_REST = {VmState.SUSPENDED: PreemptionMethod.STOP, VmState.POWEROFF: _UNDEPLOY}

# VMs with one system datastore that agree in this leave alike, but for the room on the disks of their own hosts.
_leaves_by = attrgetter(
    "state", "memory_mib", "lock_level", "pci_requests", "topology", "disks", "scheduled_actions",
    "uid", "service_id", "virtual_router_id",
)  # fmt: skip

_ON_SUCH_HOSTS = "on hosts that take no VMs"
_WOULD_NOT = "that would not leave lately"
_NONE: Set[PreemptionMethod] = frozenset()
_RUNNING, _PAUSED, _FAILED = LeaseState.RUNNING, LeaseState.PAUSED_BY_OWNER, LeaseState.FAILED
_IN_PART = frozenset({LeaseState.STARTING, LeaseState.RETURNING})
_MAY_HOLD_ROOM = _IN_PART | {_RUNNING, _PAUSED, _FAILED}


class PossibleVictim(Struct, frozen=True):
    """A lease that may be preempted now, with those of its VMs that are on hosts, and how each of them would leave."""

    lease: Lease
    vms: tuple[VirtualMachine, ...]
    methods: tuple[PreemptionMethod, ...]


class Hindered(Struct, frozen=True):
    """Why those who were chosen cannot leave; others might if these leases stayed, nobody else where there are none.

    `host_rows`: nor would it help if they left, for these hosts lack something else.
    """

    lease_ids: frozenset[int]
    reason: Reason
    host_rows: frozenset[int] = frozenset()


def has_left(state: ClusterState, preemption: Preemption, victim: Victim) -> bool:
    """The victim's VM holds nothing any more on the host it was to leave, or rests there and cannot be resumed.

    Who has left for a start to come may be there again before it, beside the room that was made.
    """
    snapshot = state.snapshot
    if victim.vm_id in snapshot.unreadable_vm_ids:
        return False
    vm = snapshot.vms.get(victim.vm_id)
    if vm is None or victim.host_id not in vm.charged_host_ids or is_resting(snapshot, victim):
        return True
    return _is_there_again(state, preemption, victim, vm)


def _is_there_again(state: ClusterState, preemption: Preemption, victim: Victim, vm: VirtualMachine) -> bool:
    """It was sent out for this preemption, and has come back to its host since.

    Its stay has another number then, as it also has where its owner switched it off and on again, or where it could not
    be moved: so what is moved is not told from what has come back, nor is a lease that was not sent out since.
    """
    if victim.sequence is None or victim.method not in _BRINGS_OFF_HOST or vm.history[-1].sequence <= victim.sequence:
        return False
    lease = state.leases.get(victim.lease_id)
    sent_out_at_s = None if lease is None else lease.last_preempted_at_s
    return sent_out_at_s is not None and sent_out_at_s >= preemption.decided_at_s


def is_resting(snapshot: PoolSnapshot, victim: Victim) -> bool:
    """It was suspended in place and is locked: its room is used, though oned goes on charging for it."""
    vm = snapshot.vms.get(victim.vm_id)
    return victim.method is _SUSPEND and vm is not None and vm.is_set_aside(snapshot.own_uid)


def possible_victims(
    state: ClusterState,
    limits: PreemptionLimits,
    rules: VictimRules,
    busy_leases: frozenset[int],
    time: TimeRules,
) -> tuple[list[PossibleVictim], dict[str, int]]:
    """All leases that may be preempted now, by id; and how many preemptable ones are spared, by the cause."""
    in_vain = methods_in_vain(state, limits)
    found: list[PossibleVictim] = []
    spared: dict[str, int] = {}
    for lease_id in sorted(state.leases):
        lease = state.leases[lease_id]
        makes_room = time.overrun is Overrun.PREEMPT and has_overrun(lease, state.now_s)
        if not (lease.terms.type.preemptable or makes_room) or lease.state not in _MAY_HOLD_ROOM:
            continue
        vms = on_hosts(state.snapshot, lease)
        if not vms or (lease.state in _IN_PART and not _holds_room_while_others_wait(lease, vms)):
            continue
        cause = "leaving or starting already" if lease_id in busy_leases else ""
        tried = in_vain.get(lease_id, _NONE)
        cause = cause or (_WOULD_NOT if tried and tried >= set(methods_of(lease, rules)) else "")
        cause = cause or _why_lease_is_spared(lease, state.now_s, time, rules)
        cause = cause or _why_no_room(state, vms)
        cause = cause or next(filter(None, (_why_spared(state, vm, lease, limits, rules) for vm in vms)), "")
        methods = None if cause else first_methods(state.snapshot, lease, vms, rules, tried)
        if methods is not None:
            found.append(PossibleVictim(lease, vms, methods))
        else:
            cause = cause or (_WOULD_NOT if tried else "without a possible method")
            spared[cause] = spared.get(cause, 0) + 1
    return found, spared


def on_hosts(snapshot: PoolSnapshot, lease: Lease) -> tuple[VirtualMachine, ...]:
    """The VMs of a lease that hold its room: all that there are, as long as it runs."""
    vms = map(snapshot.vms.__getitem__, lease.vm_ids)
    return tuple(vms) if lease.state is _RUNNING else tuple([vm for vm in vms if vm.host_id is not None])


def _holds_room_while_others_wait(lease: Lease, vms: Sequence[VirtualMachine]) -> bool:
    """Nothing of it is being started: some of it runs or is paused, and the rest of it waits, perhaps for ever.

    Its owner can have a VM wait for what no host has.
    """
    return lease.promised_deadline_at_s is None and all(map(may_be_sent_out, vms))


def _why_lease_is_spared(lease: Lease, now_s: int, time: TimeRules, rules: VictimRules) -> str:
    """MAX_SUSPENSIONS is for the DURATION: nobody knows for how long it would spare what runs on after that.

    What is paused keeps its room until its DEADLINE: nobody knows when it would be done elsewhere. Then it is late.
    """
    if lease.state is _FAILED:
        return "failed"
    if lease.state is _PAUSED and not rules.paused_by_owner:
        return "paused by their owners"
    if is_past_its_grace(lease, now_s, time):
        return ""
    if lease.state is _PAUSED and now_s < (lease.promised_deadline_at_s or 0):
        return "paused before their DEADLINE"
    return "with MAX_SUSPENSIONS used up" if is_guarded(lease) else ""


def is_guarded(lease: Lease) -> bool:
    """SR11's starvation guard: it was suspended as often as it may be. A lease without an end has no guard."""
    most = lease.terms.max_suspensions
    return most is not None and lease.terms.duration_s is not None and lease.preemptions >= most


def has_overrun(lease: Lease, now_s: int) -> bool:
    """It runs on after its DURATION."""
    end_at_s = lease.expected_end_at_s
    return end_at_s is not None and end_at_s <= now_s


def is_past_its_grace(lease: Lease, now_s: int, time: TimeRules) -> bool:
    """It runs on after its DURATION, and not only for as long as ending may take: nothing protects it any more.

    Under the rule that overruns make room it is so from the first second on.
    """
    end_at_s = lease.expected_end_at_s
    grace_s = 0 if time.overrun is Overrun.PREEMPT else time.overrun_grace_s
    return end_at_s is not None and end_at_s + grace_s <= now_s


def _why_no_room(state: ClusterState, vms: Sequence[VirtualMachine]) -> str:
    """A gang of which a part is on a host that was disabled makes room on its others."""
    hosts = (state.snapshot.hosts.get(vm.host_id) for vm in vms if vm.host_id is not None)
    return "" if any(host is not None and host.accepts_vms for host in hosts) else _ON_SUCH_HOSTS


def _why_spared(
    state: ClusterState, vm: VirtualMachine, lease: Lease, limits: PreemptionLimits, rules: VictimRules
) -> str:
    """What spares this VM and its lease with it; "" where nothing does."""
    host = state.snapshot.hosts.get(vm.host_id) if vm.host_id is not None else None
    history = vm.last_history
    if host is None or history is None or not host.lets_vms_leave:
        return _ON_SUCH_HOSTS
    if is_shielded(vm, lease):
        return "locked"
    if not may_be_sent_out(vm) or vm.resched:
        return "in the middle of something else"
    kind = why_never(vm, lease, rules)
    if kind or vm.is_at_rest:
        return kind
    undisturbed = undisturbed_s(lease, limits)
    spared_until_s = runs_since_s(lease, history.running_start_at_s) + undisturbed
    return "" if state.now_s >= spared_until_s else _running_for_less_than(undisturbed)


@lru_cache(maxsize=64)
def _running_for_less_than(undisturbed_s: int) -> str:
    return f"running for less than {duration_text(undisturbed_s)}"


def runs_since_s(lease: Lease, running_start_at_s: int) -> int:
    """Since when a VM of it runs: RSTIME is only when its hypervisor began to boot it, or to read its memory back."""
    return max(running_start_at_s, lease.run_began_at_s or 0)


def undisturbed_s(lease: Lease, limits: PreemptionLimits) -> int:
    """For how long it is left alone after each start, in seconds; longer once it was preempted."""
    return max(limits.minimum_run_time_s, limits.cooldown_s if lease.preemptions else 0)


def why_never(vm: VirtualMachine, lease: Lease, rules: VictimRules) -> str:
    """What spares a VM however long it has run, and whatever it is doing; "" where nothing does."""
    if vm.uid != lease.uid:
        return "with another owner by now"
    if _is_service_member(vm, lease) and not rules.service_members:
        return "in OneFlow services"
    if vm.virtual_router_id is not None and not rules.virtual_routers:
        return "virtual routers"
    return ""


def _is_service_member(vm: VirtualMachine, lease: Lease) -> bool:
    """OneFlow marks its VMs in the user template, where owners can write too: it spares no lease that was claimed."""
    return bool(vm.service_id) and not lease.explicit


def is_shielded(vm: VirtualMachine, lease: Lease) -> bool:
    """A lock spares its VM. An ADMIN lock, under which oned still lets it be stopped, may not if a rule says so."""
    if vm.lock_level is _UNLOCKED:
        return False
    return lease.shielded_by_lock or vm.lock_level is not LockLevel.ADMIN


def first_methods(
    snapshot: PoolSnapshot,
    lease: Lease,
    vms: Sequence[VirtualMachine],
    rules: VictimRules,
    in_vain: Set[PreemptionMethod] = _NONE,
) -> tuple[PreemptionMethod, ...] | None:
    """For each VM the first method of the administrator's list that it can take; None where one can take none.

    None takes one that was tried `in_vain`.

    A lease is suspended in place as a whole: its VMs could not return together otherwise. Beside a VM that is paused no
    other one is moved or suspended in place. It leaves by the way that oned has for it, listed or not, unless the
    administrator would sooner have it terminated.
    """
    return first_methods_of(snapshot, lease, kinds_of(snapshot, vms), rules, in_vain)


def first_methods_of(
    snapshot: PoolSnapshot,
    lease: Lease,
    kinds: Sequence[tuple[VirtualMachine, int]],
    rules: VictimRules,
    in_vain: Set[PreemptionMethod] = _NONE,
) -> tuple[PreemptionMethod, ...] | None:
    """The same for VMs that `kinds_of` has sorted."""
    listed, out_of_rest = methods_of(lease, rules), tuple[PreemptionMethod, ...]()
    if lease.state is _PAUSED and listed:
        out_of_rest = (listed[0], *_OUT_OF_REST.values())
        listed = tuple(method for method in listed if method not in MOVES and method is not _SUSPEND)
    elif _SUSPEND in listed and not _may_all_rest_in_place(snapshot, lease, kinds):
        listed = tuple(method for method in listed if method is not _SUSPEND)
    chosen: list[PreemptionMethod] = []
    for vm, count in kinds:
        among = [one for one in (out_of_rest if out_of_rest and vm.is_at_rest else listed) if one not in in_vain]
        first = next((one for one in among if method_is_possible(snapshot, vm, lease, one)), None)
        if first is None:
            return None
        chosen += [first] * count
    return tuple(chosen)


def _may_all_rest_in_place(snapshot: PoolSnapshot, lease: Lease, kinds: Sequence[tuple[VirtualMachine, int]]) -> bool:
    is_whole = sum(count for _, count in kinds) == len(lease.vm_ids)
    return is_whole and all(method_is_possible(snapshot, vm, lease, _SUSPEND) for vm, _ in kinds)


def kinds_of(snapshot: PoolSnapshot, vms: Sequence[VirtualMachine]) -> list[tuple[VirtualMachine, int]]:
    """VMs that each stand for so many in a row: the same spares them, and they can leave by the same methods."""
    kinds: list[tuple[VirtualMachine, int]] = []
    stores = [vm.history[-1].datastore_id if vm.history else None for vm in vms]
    for (store_id, _), alike in groupby(zip(stores, map(_leaves_by, vms), vms, strict=True), key=itemgetter(0, 1)):
        there = [vm for _, _, vm in alike]
        datastore = None if store_id is None else snapshot.datastores.get(store_id)
        # Where their memory goes to the disks of their own hosts, each may have other room there.
        if datastore is None or datastore.shared:
            kinds.append((there[0], len(there)))
        else:
            kinds += [(vm, 1) for vm in there]
    return kinds


def methods_of(lease: Lease, rules: VictimRules) -> tuple[PreemptionMethod, ...]:
    """How a lease may leave. One that nobody may preempt, but outlives its duration, leaves as one that returns."""
    of_type = lease.terms.type if lease.terms.type.preemptable else LeaseType.BE_SUSPENDABLE
    listed = rules.methods.get(of_type, ())
    if rules.suspend_in_place and lease.terms.type.returns:
        return listed
    return tuple(method for method in listed if method is not _SUSPEND)


def method_is_possible(snapshot: PoolSnapshot, vm: VirtualMachine, lease: Lease, method: PreemptionMethod) -> bool:
    """Whether oned can take `vm` off its host this way without losing what its lease was promised.

    Where a migration goes is found later; here only that the VM can be moved at all.
    """
    cancellable = lease.terms.type is _BE_CANCELLABLE
    if method is _TERMINATE:
        return cancellable
    if vm.is_at_rest:
        return method is _OUT_OF_REST[vm.state]
    if method is _UNDEPLOY:
        return cancellable or lease.terms.shutdown_ok
    if vm.pci_requests:
        return False
    if method is _SUSPEND and not _may_rest_in_place(vm, lease):
        return False
    if method in MOVES and vm.lock_level is not _UNLOCKED:
        return False
    if method is _LIVE_MIGRATE:
        return not vm.is_pinned and not any(disk.type == "FILESYSTEM" for disk in vm.disks)
    if method is _MIGRATE:
        return True
    return has_room_for_memory_image(snapshot, vm)


def _may_rest_in_place(vm: VirtualMachine, lease: Lease) -> bool:
    """It can return only where it is: nothing with a deadline may be bound so, and nothing may wake it meanwhile.

    Pinned threads and huge pages stay its own while it rests, and oned checks them whatever it is asked.
    """
    woken = any(one.action in _MAY_WAKE for one in vm.scheduled_actions)
    locked = vm.lock_level is not _UNLOCKED
    return not (locked or woken) and vm.topology is None and lease.terms.deadline_at_s is None


def has_room_for_memory_image(snapshot: PoolSnapshot, vm: VirtualMachine) -> bool:
    """A stop or a suspension writes the VM's memory to its system datastore."""
    datastore = _system_datastore(snapshot, vm)
    return datastore is None or vm.memory_mib < _free_mib(snapshot, vm, datastore)


def writes_memory(vm: VirtualMachine, method: PreemptionMethod) -> bool:
    """Its memory goes to its system datastore when it leaves so; that of what is suspended is there already."""
    return method in _SAVES and not vm.is_at_rest


def memory_images_obstacle(
    room: Room, leaving: Iterable[tuple[int, VirtualMachine, PreemptionMethod]]
) -> Hindered | None:
    """Whose memory image does not fit beside the others', and beside all that is held where it is written; else None.

    `leaving` are (lease id, VM, how it leaves).
    """
    left_mib: dict[tuple[int, int], int] = {}
    for lease_id, vm, method in leaving:
        datastore = _system_datastore(room.snapshot, vm)
        if not writes_memory(vm, method) or datastore is None:
            continue
        host_id = vm.history[-1].host_id
        place = (datastore.id, -1 if datastore.shared else host_id)
        if place not in left_mib:
            left_mib[place] = _left_mib(room, datastore, host_id)
        left_mib[place] -= vm.memory_mib
        if left_mib[place] <= 0:
            text = f"does not fit; the memory of the VMs that would leave has no room on datastore {datastore.id}"
            return Hindered(frozenset({lease_id}), Reason("datastore-full", text))
    return None


def _left_mib(room: Room, datastore: Datastore, host_id: int) -> int:
    """What is not held yet of the space where an image is written."""
    if not datastore.shared:
        return room.host_disk_free_mib(host_id, datastore.id)
    return room.datastore_free_mib(datastore.id) if is_monitored(datastore) else UNMEASURED_MIB


def _system_datastore(snapshot: PoolSnapshot, vm: VirtualMachine) -> Datastore | None:
    history = vm.last_history
    return snapshot.datastores.get(history.datastore_id) if history is not None else None


def shared_free_mib(datastore: Datastore) -> int:
    """Free space for memory images on a datastore that all hosts share."""
    if not is_monitored(datastore):
        # Unknown is not full: a save that finds no room falls back, and the preemption is given up.
        return UNMEASURED_MIB
    if datastore.limit_mib is None:
        return datastore.free_mib
    return min(datastore.free_mib, datastore.limit_mib - datastore.used_mib)


def _free_mib(snapshot: PoolSnapshot, vm: VirtualMachine, datastore: Datastore) -> int:
    """Free space where the image is written: the datastore itself, or its part on the VM's host."""
    if datastore.shared:
        return shared_free_mib(datastore)
    host = snapshot.hosts[vm.history[-1].host_id]
    for local in host.datastores:
        if local.datastore_id == datastore.id:
            return local.free_mib
    return host.free_disk_mib
