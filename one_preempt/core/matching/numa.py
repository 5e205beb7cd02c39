"""NUMA topology: may a host hold a VM that is pinned, or wants huge pages? (FACTS 2.3)

A conservative test on what is free now: every guest node needs one host node with its threads, its memory and
its huge pages. oned places the threads itself; this only keeps VMs from hosts that would be refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from one_preempt.core.model.host import Host, NumaNode
from one_preempt.core.model.virtual_machine import NumaNodeRequest, Topology, VirtualMachine

_KIB_PER_MIB = 1024


@dataclass(slots=True)
class _NodeRoom:
    """What is left of one host node while the guest nodes are placed one after another."""

    id: int
    threads: int
    cores: int
    memory_kib: int
    pages: dict[int, int]


def fits_topology(vm: VirtualMachine, host: Host) -> bool:
    """True for VMs without a NUMA topology; else whether the host's nodes have room for the VM's."""
    topology = vm.topology
    if topology is None or not vm.numa_nodes or not (vm.is_pinned or topology.hugepage_size_mib):
        return True
    rooms = [_node_room(node, topology.threads) for node in sorted(host.numa_nodes, key=lambda node: node.id)]
    if topology.node_affinity is not None:
        rooms = [room for room in rooms if room.id == topology.node_affinity]
    largest_first = sorted(vm.numa_nodes, key=lambda node: (-node.total_cpus, -node.memory_kib, node.node_id or 0))
    return all(_take(node, topology, vm.is_pinned, rooms) for node in largest_first)


def _node_room(node: NumaNode, threads_per_core: int) -> _NodeRoom:
    width = max(threads_per_core, 1)
    free_threads = [0 if core.dedicated else core.free_threads for core in node.cores]
    untouched = sum(1 for core in node.cores if not core.dedicated and all(vm_id == -1 for _, vm_id in core.threads))
    return _NodeRoom(
        id=node.id,
        threads=sum(free // width * width for free in free_threads),
        cores=untouched,
        memory_kib=node.total_memory_kib - node.usage_memory_kib,
        pages={pages.size_kib: pages.pages - pages.usage_pages for pages in node.hugepages},
    )


def _take(node: NumaNodeRequest, topology: Topology, pinned: bool, rooms: list[_NodeRoom]) -> bool:
    """Put one guest node on the first host node with room."""
    page_kib = (topology.hugepage_size_mib or 0) * _KIB_PER_MIB
    for room in rooms:
        cpus_fit = not pinned or node.total_cpus <= (room.cores if topology.pin_policy == "CORE" else room.threads)
        pages = -(-node.memory_kib // page_kib) if page_kib else 0
        memory_fits = pages <= room.pages.get(page_kib, 0) if page_kib else node.memory_kib <= room.memory_kib
        if cpus_fit and memory_fits:
            room.threads -= node.total_cpus
            room.cores -= node.total_cpus
            room.memory_kib -= node.memory_kib
            if page_kib:
                room.pages[page_kib] -= pages
            return True
    return False
