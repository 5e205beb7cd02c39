"""Nobody who is pinned comes to a host that surely has too few threads for him.

Counted generously: how threads are grouped, and which node each guest node gets, is left to oned. Of several who come
at once only those are added up that have one guest node: of others oned gives what it finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from one_preempt.core.model.host import Host, NumaCore, NumaNode
from one_preempt.core.model.virtual_machine import NumaNodeRequest, VirtualMachine
from one_preempt.core.verify.recount import REMOVALS, Recount, Rule, Violation

_RESERVED = -2
_WHOLE_CORES = "CORE"
_NO_NODE = (None, -1)


def _pinned_vms_find_threads(recount: Recount) -> Iterator[Violation]:
    coming: dict[int, list[VirtualMachine]] = {}
    for action, vm, host in recount.arrivals:
        if vm.topology is not None and _is_counted(vm) and not recount.under_way(action):
            coming.setdefault(host.id, []).append(vm)
    for host_id, vms in sorted(coming.items()):
        host = recount.hosts[host_id]
        for fault in _faults(host, vms, _staying(recount, host)):
            yield Violation("numa-overfull", f"host {host_id} {fault}")


def _is_counted(vm: VirtualMachine) -> bool:
    """It is pinned, wherever oned puts it: on a node that it names it is given no threads."""
    return vm.is_pinned and vm.topology is not None and vm.topology.node_affinity in _NO_NODE


def _requests(vm: VirtualMachine) -> list[NumaNodeRequest]:
    return [one for one in vm.numa_nodes if one.total_cpus > 0 and one.memory_kib > 0]


def _staying(recount: Recount, host: Host) -> Set[int]:
    """The VMs that have threads there and surely keep them: they run, and nothing takes them off by now."""
    leaving = {action.vm_id for action in recount.plan.actions if action.kind in REMOVALS}
    leaving |= {victim.vm_id for one in recount.preemptions.values() for victim in one.victims}
    holders = {vm_id for node in host.numa_nodes for core in node.cores for _, vm_id in core.threads}
    vms = [recount.vms[vm_id] for vm_id in holders - leaving if vm_id in recount.vms]
    return {vm.id for vm in vms if vm.is_running and vm.host_id == host.id}


def _faults(host: Host, vms: Sequence[VirtualMachine], staying: Set[int]) -> Iterator[str]:
    """What is too little for one of those who come, or for all of them together."""
    rooms = {True: [_room(host, one, staying, whole=True) for one in host.numa_nodes]}
    rooms[False] = [_room(host, one, staying, whole=False) for one in host.numa_nodes]
    together = 0
    for vm in vms:
        whole = vm.topology is not None and vm.topology.pin_policy == _WHOLE_CORES
        requests = _requests(vm)
        most = max((one.total_cpus for one in requests), default=0)
        if most > max(rooms[whole], default=0):
            yield f"has no node with {most} {'cores' if whole else 'threads'} left for VM {vm.id}"
        together += sum(one.total_cpus for one in requests) if len(requests) == 1 else 0
    if len(vms) > 1 and together > sum(rooms[False]) and _tells_all_distances(host):
        yield f"has {sum(rooms[False])} threads left, and {together} would be taken"


def _room(host: Host, node: NumaNode, staying: Set[int], *, whole: bool) -> int:
    """How many virtual CPUs a node takes at the most: one a free core, or as many as the threads share."""
    if whole:
        return sum(1 for core in node.cores if _slots(host, core, staying) and _is_unused(core, staying))
    return sum(_slots(host, core, staying) for core in node.cores)


def _slots(host: Host, core: NumaCore, staying: Set[int]) -> int:
    cpus = {cpu for cpu, vm_id in core.threads if vm_id != _RESERVED}
    taken = [vm_id for _, vm_id in core.threads if vm_id in staying]
    return 0 if core.dedicated and taken else max(0, len(cpus) * host.vms_thread - len(taken))


def _is_unused(core: NumaCore, staying: Set[int]) -> bool:
    return staying.isdisjoint(vm_id for _, vm_id in core.threads)


def _tells_all_distances(host: Host) -> bool:
    """Else oned may find no memory near the threads, and gives neither."""
    return all(len(node.distance) >= len(host.numa_nodes) for node in host.numa_nodes)


RULES: tuple[Rule, ...] = (_pinned_vms_find_threads,)
