"""Recorded hosts, read back into the records of the simulated cloud."""

from __future__ import annotations

from one_preempt.simulation.emulator.recorded_objects import (
    Element,
    id_list,
    number,
    template,
    vector,
    vectors,
    word,
)
from one_preempt.simulation.simulated_cloud.objects import (
    SimCore,
    SimHost,
    SimHostMonitoring,
    SimHostShare,
    SimHugePages,
    SimNumaNode,
)
from one_preempt.simulation.simulated_cloud.states import HostState

_RESERVED = -2


def host(element: Element, monitoring: Element | None) -> SimHost:
    """HOST; the pool has no figures, so the record of one.hostpool.monitoring comes beside it."""
    share = _share(element)
    record = _monitoring(monitoring)
    return SimHost(
        id=number(element, "ID"),
        name=word(element, "NAME"),
        state=HostState(number(element, "STATE")),
        prev_state=HostState(number(element, "PREV_STATE")),
        im_mad=word(element, "IM_MAD"),
        vm_mad=word(element, "VM_MAD"),
        cluster_id=number(element, "CLUSTER_ID"),
        cluster=word(element, "CLUSTER"),
        physical_cpu=share.total_cpu or _sum(record.capacity, "FREE_CPU", "USED_CPU"),
        physical_memory_kib=share.total_mem or _sum(record.capacity, "FREE_MEMORY", "USED_MEMORY"),
        share=share,
        vm_ids=id_list(element, "VMS"),
        template=template(element),
        monitoring=record,
    )


def _share(element: Element) -> SimHostShare:
    datastores = element.find("HOST_SHARE/DATASTORES")
    return SimHostShare(
        mem_usage=number(element, "HOST_SHARE/MEM_USAGE"),
        cpu_usage=number(element, "HOST_SHARE/CPU_USAGE"),
        total_mem=number(element, "HOST_SHARE/TOTAL_MEM"),
        total_cpu=number(element, "HOST_SHARE/TOTAL_CPU"),
        max_mem=number(element, "HOST_SHARE/MAX_MEM"),
        max_cpu=number(element, "HOST_SHARE/MAX_CPU"),
        running_vms=number(element, "HOST_SHARE/RUNNING_VMS"),
        vms_thread=number(element, "HOST_SHARE/VMS_THREAD", 1),
        disks={} if datastores is None else {str(part.tag): part.text or "" for part in datastores if not len(part)},
        datastores=vectors(element, "HOST_SHARE/DATASTORES/DS"),
        pci_devices=vectors(element, "HOST_SHARE/PCI_DEVICES/PCI"),
        numa_nodes=[_numa_node(node) for node in element.iterfind("HOST_SHARE/NUMA_NODES/NODE")],
    )


def _numa_node(element: Element) -> SimNumaNode:
    return SimNumaNode(
        node_id=number(element, "NODE_ID"),
        cores=[_core(core) for core in element.iterfind("CORE")],
        hugepages=[
            SimHugePages(number(pages, "SIZE"), number(pages, "PAGES"), number(pages, "USAGE"))
            for pages in element.iterfind("HUGEPAGE")
        ],
        memory_total_kib=number(element, "MEMORY/TOTAL"),
        memory_usage_kib=number(element, "MEMORY/USAGE"),
        memory_distance=word(element, "MEMORY/DISTANCE"),
    )


def _core(element: Element) -> SimCore:
    core = SimCore(id=number(element, "ID"), cpus={}, dedicated=word(element, "DEDICATED") == "YES")
    for cpu, vm_id in (map(int, part.split(":")) for part in word(element, "CPUS").split(",") if part):
        holders = core.cpus.setdefault(cpu, [])
        if vm_id >= 0:
            holders.append(vm_id)
        elif vm_id == _RESERVED:
            core.reserved.add(cpu)
    return core


def _monitoring(element: Element | None) -> SimHostMonitoring:
    if element is None:
        return SimHostMonitoring()
    capacity, system = element.find("CAPACITY"), element.find("SYSTEM")
    return SimHostMonitoring(
        timestamp_s=number(element, "TIMESTAMP"),
        capacity={} if capacity is None else vector(capacity),
        system={} if system is None else vector(system),
    )


def _sum(figures: dict[str, str], *names: str) -> int:
    return sum(int(figures.get(name) or 0) for name in names)
