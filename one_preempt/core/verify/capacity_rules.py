"""What a host holds now, in whatever order the permitted actions are done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from one_preempt.core.model.host import KIB_PER_MIB, Host
from one_preempt.core.model.plan import Action, ActionKind
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.verify.pci_devices import left_over
from one_preempt.core.verify.recount import DEPARTURES, MOVES, Recount, Rule, Violation

# While these last, a moving VM is still charged to the host it leaves, and to the one it goes to.
CHARGED_TWICE = frozenset({"MIGRATE", "SAVE_MIGRATE"})
MAX_ORDERS = 512
NOBODY: frozenset[int] = frozenset()


class _Arrival(Struct):
    """A VM that comes to a host, or runs there again, and the VMs that have certainly left it by then, or rest there.

    `by_the_books`: oned is asked to count, so that what rests there does not help it.
    """

    vm: VirtualMachine
    after_leaving: frozenset[int]
    by_the_books: bool
    resumes: bool = False


def _hosts_hold_what_they_are_given(recount: Recount) -> Iterator[Violation]:
    """At no moment that the order of the actions permits does a host hold more than it has."""
    for host_id, coming in sorted(_coming_by_host(recount).items()):
        host = recount.hosts[host_id]
        if _has_room_whoever_stays(host, coming):
            continue
        arrivals = [_arrival(recount, action, vm, host_id) for action, vm in coming]
        if not [arrival for arrival in arrivals if arrival.after_leaving]:
            yield from _overfull(recount, host, arrivals, [])
            continue
        for left in _possible_departures(arrivals):
            present = [arrival for arrival in arrivals if arrival.after_leaving <= left]
            if present:
                yield from _overfull(recount, host, present, [recount.vms[vm_id] for vm_id in sorted(left)])


def _has_room_whoever_stays(host: Host, coming: Iterable[tuple[Action, VirtualMachine]]) -> bool:
    """All who come fit beside all who are there, as mostly, and ask for no device: who leaves before is no matter."""
    cpu_centi, memory_mib = host.cpu_usage_centi, 0
    for _, vm in coming:
        if vm.pci_requests:
            return False
        cpu_centi, memory_mib = cpu_centi + vm.cpu_centi, memory_mib + vm.memory_mib
    memory_kib = host.memory_usage_kib + memory_mib * KIB_PER_MIB
    return cpu_centi <= host.max_cpu_centi and memory_kib <= host.max_memory_kib


def _coming_by_host(recount: Recount) -> dict[int, list[tuple[Action, VirtualMachine]]]:
    """What brings a VM to each host, or lets it run there again."""
    found: dict[int, list[tuple[Action, VirtualMachine]]] = {}
    for action, vm, host in recount.arrivals:
        if vm.host_id != host.id:
            found.setdefault(host.id, []).append((action, vm))
    stopped = {action.vm_id for action in recount.others if action.kind is ActionKind.STOP}
    for action, vm in recount.known if recount.others else ():
        host_id = action.host_id
        wakes = action.kind is ActionKind.UNLOCK and recount.rests(vm) and vm.id not in stopped
        if wakes and host_id is not None and host_id == vm.host_id and host_id in recount.hosts:
            found.setdefault(host_id, []).append((action, vm))
    return found


def _arrival(recount: Recount, action: Action, vm: VirtualMachine, host_id: int) -> _Arrival:
    resumes = action.kind is ActionKind.UNLOCK
    left = _left_before(recount, action, host_id) if action.after else NOBODY
    return _Arrival(vm, left, action.enforce_capacity and not resumes, resumes)


def _left_before(recount: Recount, action: Action, host_id: int) -> frozenset[int]:
    """The VMs that have certainly left a host by the time that an action is done."""
    earlier = [recount.action_by_id[action_id] for action_id in recount.ancestors(action)]
    return frozenset(one.vm_id for one in earlier if _leaves(recount, one, host_id))


def _leaves(recount: Recount, action: Action, host_id: int) -> bool:
    """Does the VM take part of `host_id` now, and will it no longer once the action is done?"""
    vm = recount.vms.get(action.vm_id)
    if vm is not None and action.kind is ActionKind.LOCK:
        return vm.host_id == host_id and not recount.rests(vm)
    if vm is None or action.kind not in DEPARTURES | MOVES:
        return False
    if vm.host_id == host_id:
        return action.kind in DEPARTURES or action.host_id != host_id
    victim = recount.victim_of(action)
    return victim is not None and victim.host_id == host_id and vm.state_name in CHARGED_TWICE


def _possible_departures(arrivals: Iterable[_Arrival]) -> list[frozenset[int]]:
    """Every set of departures after which some arrivals may come: the unions of what each one waits for."""
    sets = {arrival.after_leaving for arrival in arrivals}
    possible = {NOBODY}
    waits = sorted(sets, key=sorted)
    for wait in waits:
        possible |= {wait} | ({wait | other for other in possible} if len(possible) < MAX_ORDERS else set())
    everything = frozenset[int]().union(*waits)
    return sorted(possible | {everything}, key=lambda left: (len(left), sorted(left)))


def _overfull(
    recount: Recount, host: Host, arrivals: list[_Arrival], left: list[VirtualMachine]
) -> Iterator[Violation]:
    """More runs there than the host has; or more is charged, by what oned is asked to count."""
    present = [arrival.vm for arrival in arrivals]
    resting = recount.resting_by_host.get(host.id, [])
    yield from _too_much(host, present, [*left, *resting])
    gone = [vm for vm in left if not _goes_on_being_charged(recount, vm)] if left else []
    if resting or len(gone) < len(left):
        charged = [arrival.vm for arrival in arrivals if arrival.by_the_books]
        if charged:
            yield from _too_much(host, charged, gone)
    coming = [arrival.vm for arrival in arrivals if arrival.vm.pci_requests and not arrival.resumes]
    if not coming:
        return
    requests = [request for vm in coming for request in vm.pci_requests]
    without = {-1, *(vm.id for vm in gone)}
    devices = [device for device in host.pci_devices if device.vm_id in without]
    if left_over(requests, devices):
        yield Violation("device-double-use", f"host {host.id} has too few PCI devices for {_named(coming)}")


def _goes_on_being_charged(recount: Recount, vm: VirtualMachine) -> bool:
    """It leaves its room by being locked where it rests."""
    return any(action.kind is ActionKind.LOCK and action.vm_id == vm.id for action in recount.others)


def _too_much(host: Host, present: list[VirtualMachine], left: list[VirtualMachine]) -> Iterator[Violation]:
    cpu_centi, memory_mib = host.cpu_usage_centi, 0
    for vm in present:
        cpu_centi, memory_mib = cpu_centi + vm.cpu_centi, memory_mib + vm.memory_mib
    for vm in left:
        cpu_centi, memory_mib = cpu_centi - vm.cpu_centi, memory_mib - vm.memory_mib
    if cpu_centi > host.max_cpu_centi and any(vm.cpu_centi for vm in present):
        what = f"{cpu_centi} of {host.max_cpu_centi} hundredths of a CPU"
        text = f"host {host.id} with {_named(present)} would hold {what}"
        yield Violation("over-capacity", text)
    memory_kib = host.memory_usage_kib + memory_mib * KIB_PER_MIB
    if memory_kib > host.max_memory_kib and any(vm.memory_mib for vm in present):
        text = f"host {host.id} with {_named(present)} would hold {memory_kib} of {host.max_memory_kib} KiB"
        yield Violation("over-capacity", text)


def _named(vms: list[VirtualMachine]) -> str:
    return ", ".join(f"VM {vm.id}" for vm in vms[:5])


RULES: tuple[Rule, ...] = (_hosts_hold_what_they_are_given,)
