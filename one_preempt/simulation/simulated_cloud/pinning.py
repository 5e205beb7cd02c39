"""Threads, memory and huge pages of NUMA nodes: which VMs get which, as oned gives them out.

The check before a deploy looks at each guest node alone; only when a VM is charged are the nodes planned together. A
VM for which that plan fails is charged nevertheless and holds no threads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from msgspec import Struct

from one_preempt.simulation.simulated_cloud.objects import (
    SimCore,
    SimHost,
    SimHugePages,
    SimNumaNode,
    SimVm,
    TemplateDict,
    Vector,
)
from one_preempt.simulation.simulated_cloud.templates import text_of, vectors_of
from one_preempt.simulation.simulated_cloud.topology import node_affinity, page_size_kib, pin_policy, topology_of


class _Guest(Struct):
    """A NUMA node of the VM, and the nodes of the host that its threads and its memory come from."""

    vector: Vector
    cpus: int
    memory_kib: int
    cpu_node: int = -1
    memory_node: int = -1


class _Planned(Struct):
    """What guest nodes planned before take of a node."""

    cpus: int = 0
    memory_kib: int = 0


def free_threads(core: SimCore, vms_thread: int) -> int:
    """CORE/FREE: how many virtual CPUs the core still takes."""
    if core.dedicated:
        return 0
    return max((len(core.cpus) - len(core.reserved)) * vms_thread - _used(core), 0)


def fits(host: SimHost, vm: SimVm) -> bool:
    """Every guest node, taken alone, finds threads, memory and huge pages."""
    guests = _guests(vm)
    if not guests:
        return True
    if _on_one_node(vm):
        return _one_node(host, vm) is not None
    return any(
        all(all(_wishes(host, vm, guest, threads, {}, -1)) for guest in guests)
        for threads in _threads_per_core(host, vm, guests)
    )


def pin(host: SimHost, vm: SimVm, series_7: bool) -> None:
    """Take threads, memory and pages for the VM and write them into its NUMA_NODE attributes, where it fits."""
    guests = _guests(vm)
    if not guests:
        return
    if _on_one_node(vm):
        _pin_to_one_node(host, vm, guests)
        return
    nodes = _nodes(host)
    for threads in _threads_per_core(host, vm, guests):
        if not _plan(host, vm, guests, threads, series_7):
            continue
        for guest in guests:
            taken = _take_threads(host, nodes[guest.cpu_node], vm, guest.cpus, threads)
            _take_memory(nodes[guest.memory_node], vm, guest.memory_kib)
            guest.vector["CPUS"] = ",".join(map(str, taken))
            guest.vector["NODE_ID"] = str(guest.cpu_node)
            guest.vector["MEMORY_NODE_ID"] = str(guest.memory_node)
        topology = topology_of(vm)
        sockets = int(topology.get("SOCKETS") or 1)
        topology["THREADS"] = str(threads)
        topology["CORES"] = str(int(text_of(vm.template, "VCPU")) // (threads * sockets))
        return


def unpin(host: SimHost, vm: SimVm) -> None:
    """Give back what `pin` took on this host."""
    for node in host.share.numa_nodes:
        for core in node.cores:
            if any(vm.id in holders for holders in core.cpus.values()):
                core.cpus = {thread: [by for by in holders if by != vm.id] for thread, holders in core.cpus.items()}
                core.dedicated = False
        if vm.id in node.pinned_kib:
            memory_kib = node.pinned_kib.pop(vm.id)
            node.memory_usage_kib -= memory_kib
            for pages in _pages(node, vm):
                pages.usage = max(pages.usage - memory_kib // pages.size_kib, 0)


def configure(host: SimHost) -> None:
    """Read VMS_THREAD and ISOLCPUS from the host's template; a thread in use cannot be reserved."""
    share, template = host.share, host.template
    if "VMS_THREAD" in template:
        text = text_of(template, "VMS_THREAD")
        share.vms_thread = int(text) if text.isdecimal() and int(text) else 1
    if "ISOLCPUS" in template:
        named = _thread_ids(template)
        for core in (core for node in share.numa_nodes for core in node.cores):
            core.reserved = {
                thread
                for thread, holders in core.cpus.items()
                if thread in named and (not holders or thread in core.reserved)
            }


def _thread_ids(template: TemplateDict) -> set[int]:
    return {int(part) for part in text_of(template, "ISOLCPUS").split(",") if part.strip().isdecimal()}


# -------------------------------------------------------------------- VMs near one node


def _on_one_node(vm: SimVm) -> bool:
    return node_affinity(vm) is not None or (page_size_kib(vm) > 0 and not pin_policy(vm))


def _one_node(host: SimHost, vm: SimVm) -> SimNumaNode | None:
    """The node named by NODE_AFFINITY, or the one with most free huge pages, if it has room for the whole VM."""
    memory_kib = int(text_of(vm.template, "MEMORY")) * 1024
    affinity = node_affinity(vm)
    best, most_free = None, 0
    for node in host.share.numa_nodes:
        if affinity is not None and node.node_id != affinity:
            continue
        free_kib = node.memory_total_kib - node.memory_usage_kib
        if free_kib <= 0 or free_kib < memory_kib:
            continue
        if page_size_kib(vm) == 0:
            return node
        for pages in _pages(node, vm):
            free = pages.pages - pages.usage
            if free > most_free and free >= memory_kib // pages.size_kib:
                best, most_free = node, free
    return best


def _pin_to_one_node(host: SimHost, vm: SimVm, guests: Iterable[_Guest]) -> None:
    node = _one_node(host, vm)
    if node is None:
        return
    _take_memory(node, vm, int(text_of(vm.template, "MEMORY")) * 1024)
    threads = [thread for core in node.cores for thread in core.cpus if thread not in core.reserved]
    for guest in guests:
        guest.vector["NODE_ID"] = guest.vector["MEMORY_NODE_ID"] = str(node.node_id)
        guest.vector["CPUS"] = ",".join(map(str, threads))


# -------------------------------------------------------------------- pinned VMs


def _guests(vm: SimVm) -> list[_Guest]:
    if "TOPOLOGY" not in vm.template:
        return []
    guests = [
        _Guest(vector, int(vector.get("TOTAL_CPUS") or 0), int(vector.get("MEMORY") or 0))
        for vector in vectors_of(vm.template, "NUMA_NODE")
    ]
    return [guest for guest in guests if guest.cpus and guest.memory_kib]


def _threads_per_core(host: SimHost, vm: SimVm, guests: Iterable[_Guest]) -> list[int]:
    """Virtual CPUs of one core that share a core of the host, the most first: powers of two that divide every guest
    node, up to what the VM asks for and the host has; what the VM asks for exactly, where it does."""
    if pin_policy(vm) == "CORE":
        return [1]
    on_host = next((len(core.cpus) for node in host.share.numa_nodes for core in node.cores), 0)
    asked = int(topology_of(vm).get("THREADS") or 0)
    most = min(asked or on_host, on_host)
    powers = [1 << exponent for exponent in reversed(range(most.bit_length()))]
    valid = [threads for threads in powers if all(guest.cpus % threads == 0 for guest in guests)]
    return [threads for threads in valid if asked in (0, threads)]


def _wishes(
    host: SimHost, vm: SimVm, guest: _Guest, threads: int, planned: dict[int, _Planned], near: int | None
) -> tuple[list[tuple[float, int]], set[int]]:
    """Nodes with the threads for the guest, by the part of them left free then (`near` nodes come first), and nodes
    with the memory."""
    with_threads: list[tuple[float, int]] = []
    with_memory: set[int] = set()
    for node in host.share.numa_nodes:
        before = planned.get(node.node_id, _Planned())
        cores = _free_cores(host, node, vm, threads) - before.cpus // threads
        if cores * threads >= guest.cpus:
            left = 1 - guest.cpus / (threads * cores)
            with_threads.append((left + (node.node_id == near), node.node_id))
        free_kib = node.memory_total_kib - node.memory_usage_kib - before.memory_kib
        if free_kib >= guest.memory_kib and _has_pages(node, vm, before.memory_kib, guest.memory_kib):
            with_memory.add(node.node_id)
    return with_threads, with_memory


def _free_cores(host: SimHost, node: SimNumaNode, vm: SimVm, threads: int) -> int:
    """Whole idle cores for the policy CORE, else groups of `threads` virtual CPUs that fit one core."""
    if pin_policy(vm) == "CORE":
        return sum(_is_idle(core) for core in node.cores)
    return sum(free_threads(core, host.share.vms_thread) // threads for core in node.cores)


def _has_pages(node: SimNumaNode, vm: SimVm, planned_kib: int, memory_kib: int) -> bool:
    size_kib = page_size_kib(vm)
    if size_kib == 0:
        return True
    return any(
        (free := pages.pages - pages.usage - planned_kib // size_kib) > 0 and free >= memory_kib // size_kib
        for pages in _pages(node, vm)
    )


def _plan(host: SimHost, vm: SimVm, guests: list[_Guest], threads: int, series_7: bool) -> bool:
    """Choose nodes for all guests together: the emptiest for the threads, memory as near to them as there is."""
    planned: dict[int, _Planned] = defaultdict(_Planned)
    with_devices = {
        int(device["NUMA_NODE"]) for device in vectors_of(vm.template, "PCI") if device.get("NUMA_NODE", "").isdecimal()
    }
    for index, guest in enumerate(guests):
        # 7.x wants the guest's node n on the host's node n where that has a device, 6.x any node with a device.
        near = index if index in with_devices else None
        candidates, with_memory = _wishes(host, vm, guest, threads, planned, near if series_7 else None)
        if not series_7:
            candidates = [(left + (node_id in with_devices), node_id) for left, node_id in candidates]
        if not _choose(host, guest, sorted(candidates, reverse=True), with_memory):
            return False
        planned[guest.cpu_node].cpus += guest.cpus
        planned[guest.cpu_node].memory_kib += guest.memory_kib
    return True


def _choose(host: SimHost, guest: _Guest, candidates: list[tuple[float, int]], with_memory: set[int]) -> bool:
    nodes = _nodes(host)
    for hop in range(len(nodes)):
        for _, node_id in candidates:
            by_distance = nodes[node_id].memory_distance.split()
            memory_node = int(by_distance[hop]) if hop < len(by_distance) else node_id
            if memory_node in with_memory:
                guest.cpu_node, guest.memory_node = node_id, memory_node
                return True
    return False


def _take_threads(host: SimHost, node: SimNumaNode, vm: SimVm, wanted: int, threads: int) -> list[int]:
    """Pin virtual CPUs: whole cores for CORE, else as many groups of `threads` as each core has free, one virtual CPU
    a thread. Empty where the cores run out first."""
    taken: list[int] = []
    for core in node.cores:
        if pin_policy(vm) == "CORE":
            chosen = [next(iter(core.cpus))] if _is_idle(core) else []
        else:
            groups = free_threads(core, host.share.vms_thread) // threads
            chosen = [
                thread
                for thread, holders in core.cpus.items()
                if len(holders) < host.share.vms_thread and thread not in core.reserved
            ][: groups * threads]
        for thread in chosen[: wanted - len(taken)]:
            core.cpus[thread].append(vm.id)
            core.dedicated = pin_policy(vm) == "CORE"
            taken.append(thread)
    return taken if len(taken) == wanted else []


def _take_memory(node: SimNumaNode, vm: SimVm, memory_kib: int) -> None:
    node.memory_usage_kib += memory_kib
    node.pinned_kib[vm.id] = node.pinned_kib.get(vm.id, 0) + memory_kib
    for pages in _pages(node, vm):
        pages.usage += memory_kib // pages.size_kib


def _nodes(host: SimHost) -> dict[int, SimNumaNode]:
    return {node.node_id: node for node in host.share.numa_nodes}


def _pages(node: SimNumaNode, vm: SimVm) -> list[SimHugePages]:
    """The node's pages of the size that the VM asked for."""
    size_kib = page_size_kib(vm)
    return [pages for pages in node.hugepages if size_kib and pages.size_kib == size_kib]


def _is_idle(core: SimCore) -> bool:
    return _used(core) == 0 and len(core.reserved) < len(core.cpus)


def _used(core: SimCore) -> int:
    return 1 if core.dedicated else sum(len(holders) for holders in core.cpus.values())
