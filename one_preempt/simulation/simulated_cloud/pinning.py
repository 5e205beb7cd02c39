"""Pinned VMs: which hardware threads and NUMA memory they get.

The basic part of oned's scheme: a guest node goes to the host node that it leaves the emptiest, CORE takes a whole
core for a vCPU, THREAD and SHARED a thread. Huge pages are counted, affinity to PCI devices is not weighed.
"""

from __future__ import annotations

from one_preempt.simulation.simulated_cloud.objects import SimCore, SimHost, SimNumaNode, SimVm, Vector
from one_preempt.simulation.simulated_cloud.templates import vectors_of

_PINNED = ("CORE", "THREAD", "SHARED")


def pin_policy(vm: SimVm) -> str:
    """CORE, THREAD or SHARED, or an empty string for VMs that are not pinned."""
    policy = next((vector.get("PIN_POLICY", "") for vector in vectors_of(vm.template, "TOPOLOGY")), "").upper()
    return policy if policy in _PINNED else ""


def fits(host: SimHost, vm: SimVm) -> bool:
    """Every guest node finds threads, memory and huge pages (always true for VMs that are not pinned)."""
    return not pin_policy(vm) or _placement(host, vm) is not None


def pin(host: SimHost, vm: SimVm) -> None:
    """Take threads, memory and pages for the VM and write them into its NUMA_NODE attributes, where it fits."""
    placement = _placement(host, vm) if pin_policy(vm) else None
    for guest, node, threads in placement or ():
        for core, thread in threads:
            core.cpus[thread] = vm.id
            core.dedicated = pin_policy(vm) == "CORE"
        memory_kib = int(guest.get("MEMORY", "0"))
        node.memory_usage_kib += memory_kib
        node.pinned_kib[vm.id] = node.pinned_kib.get(vm.id, 0) + memory_kib
        _count_pages(node, vm, memory_kib)
        guest["CPUS"] = ",".join(str(thread) for _, thread in threads)
        guest["NODE_ID"] = guest["MEMORY_NODE_ID"] = str(node.node_id)
    if placement and pin_policy(vm) == "CORE":
        _flatten_topology(vm)


def _flatten_topology(vm: SimVm) -> None:
    """With a core for each vCPU the guest sees cores of one thread."""
    for topology in vectors_of(vm.template, "TOPOLOGY"):
        cores, threads = int(topology.get("CORES") or 1), int(topology.get("THREADS") or 1)
        topology["CORES"], topology["THREADS"] = str(cores * threads), "1"


def unpin(host: SimHost, vm: SimVm) -> None:
    """Give back what `pin` took on this host."""
    for node in host.share.numa_nodes:
        for core in node.cores:
            mine = [thread for thread, holder in core.cpus.items() if holder == vm.id]
            for thread in mine:
                core.cpus[thread] = -1
            if mine:
                core.dedicated = False
        memory_kib = node.pinned_kib.pop(vm.id, 0)
        node.memory_usage_kib -= memory_kib
        _count_pages(node, vm, -memory_kib)


def _placement(host: SimHost, vm: SimVm) -> list[tuple[Vector, SimNumaNode, list[tuple[SimCore, int]]]] | None:
    taken: set[int] = set()
    memory_taken: dict[int, int] = {}
    placement = []
    for guest in vectors_of(vm.template, "NUMA_NODE"):
        wanted, memory_kib = int(guest.get("TOTAL_CPUS", "0")), int(guest.get("MEMORY", "0"))
        fitting = []
        for node in host.share.numa_nodes:
            threads = [pair for pair in _free_threads(node, vm) if pair[1] not in taken]
            already_kib = memory_taken.get(node.node_id, 0)
            if len(threads) >= wanted and _memory_fits(node, vm, already_kib + memory_kib):
                fitting.append((len(threads) - wanted, node.node_id, node, threads[:wanted]))
        if not fitting:
            return None
        _, node_id, node, threads = max(fitting, key=lambda item: (item[0], item[1]))
        taken.update(thread for _, thread in threads)
        memory_taken[node_id] = memory_taken.get(node_id, 0) + memory_kib
        placement.append((guest, node, threads))
    return placement


def _free_threads(node: SimNumaNode, vm: SimVm) -> list[tuple[SimCore, int]]:
    if pin_policy(vm) == "CORE":
        idle = [core for core in node.cores if all(holder == -1 for holder in core.cpus.values())]
        return [(core, next(iter(core.cpus))) for core in idle]
    shareable = [core for core in node.cores if not core.dedicated]
    return [(core, thread) for core in shareable for thread, holder in core.cpus.items() if holder == -1]


def _memory_fits(node: SimNumaNode, vm: SimVm, memory_kib: int) -> bool:
    size_kib = _page_size_kib(vm)
    if size_kib and not any(
        pages.size_kib == size_kib and pages.pages - pages.usage >= memory_kib // size_kib for pages in node.hugepages
    ):
        return False
    return node.memory_total_kib - node.memory_usage_kib >= memory_kib


def _count_pages(node: SimNumaNode, vm: SimVm, memory_kib: int) -> None:
    size_kib = _page_size_kib(vm)
    for pages in node.hugepages:
        if size_kib and pages.size_kib == size_kib:
            pages.usage += memory_kib // size_kib


def _page_size_kib(vm: SimVm) -> int:
    size = next((vector.get("HUGEPAGE_SIZE", "") for vector in vectors_of(vm.template, "TOPOLOGY")), "")
    return int(size) * 1024 if size.isdigit() else 0
