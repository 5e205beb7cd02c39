"""Host documents and their monitoring records."""

from __future__ import annotations

from collections.abc import Iterable

from one_preempt.simulation.emulator.xml_writing import attributes, cdata, element, ids, plain, template, vector
from one_preempt.simulation.simulated_cloud.objects import SimCore, SimHost, SimHostShare, SimNumaNode
from one_preempt.simulation.simulated_cloud.pinning import free_threads

# What 6.x keeps in HOST_SHARE alone.
_NOBODY, _RESERVED = -1, -2
_TEMPLATE_OF_7 = frozenset({"TOTALCPU", "TOTALMEMORY"})


def host(machine: SimHost, version: str, monitored: bool) -> str:
    """HOST; the pool has an empty MONITORING, one.host.info the last record."""
    entries = machine.template
    if version.startswith("6."):
        entries = {name: entries[name] for name in entries if name not in _TEMPLATE_OF_7}
    return element(
        "HOST",
        f"<ID>{machine.id}</ID>{plain('NAME', machine.name)}<STATE>{machine.state:d}</STATE>"
        f"<PREV_STATE>{machine.prev_state:d}</PREV_STATE>",
        cdata("IM_MAD", machine.im_mad),
        cdata("VM_MAD", machine.vm_mad),
        plain("CLUSTER_ID", machine.cluster_id),
        plain("CLUSTER", machine.cluster),
        _share(machine.share),
        ids("VMS", machine.vm_ids),
        template("TEMPLATE", entries),
        monitoring_record(machine) if monitored else "<MONITORING/>",
    )


def host_monitoring(machines: Iterable[SimHost]) -> str:
    """The last record of each host that was ever monitored, in ascending id order."""
    known = (machine for machine in machines if machine.monitoring.timestamp_s)
    return "".join(monitoring_record(machine) for machine in sorted(known, key=lambda machine: machine.id))


def monitoring_record(machine: SimHost) -> str:
    """MONITORING of one host; empty until it was monitored."""
    record = machine.monitoring
    if not record.timestamp_s:
        return "<MONITORING/>"
    return element(
        "MONITORING",
        plain("TIMESTAMP", record.timestamp_s),
        plain("ID", machine.id),
        vector("CAPACITY", record.capacity),
        vector("SYSTEM", record.system),
        *(_monitored_node(node) for node in machine.share.numa_nodes),
    )


def _share(share: SimHostShare) -> str:
    return element(
        "HOST_SHARE",
        f"<MEM_USAGE>{share.mem_usage}</MEM_USAGE><CPU_USAGE>{share.cpu_usage}</CPU_USAGE>"
        f"<TOTAL_MEM>{share.total_mem}</TOTAL_MEM><TOTAL_CPU>{share.total_cpu}</TOTAL_CPU>"
        f"<MAX_MEM>{share.max_mem}</MAX_MEM><MAX_CPU>{share.max_cpu}</MAX_CPU>"
        f"<RUNNING_VMS>{share.running_vms}</RUNNING_VMS><VMS_THREAD>{share.vms_thread}</VMS_THREAD>",
        element("DATASTORES", attributes({"DS": share.datastores, **{k: [v] for k, v in share.disks.items()}})),
        element("PCI_DEVICES", *(vector("PCI", device) for device in share.pci_devices)),
        element("NUMA_NODES", *(_numa_node(node, share.vms_thread) for node in share.numa_nodes)),
    )


def _numa_node(node: SimNumaNode, vms_thread: int) -> str:
    memory = {
        "DISTANCE": node.memory_distance,
        "TOTAL": str(node.memory_total_kib),
        "USAGE": str(node.memory_usage_kib),
    }
    return element(
        "NODE",
        *(_core(core, vms_thread) for core in node.cores),
        *(
            element("HUGEPAGE", cdata("PAGES", pages.pages), cdata("SIZE", pages.size_kib), cdata("USAGE", pages.usage))
            for pages in node.hugepages
        ),
        vector("MEMORY", memory),
        cdata("NODE_ID", node.node_id),
    )


def _core(core: SimCore, vms_thread: int) -> str:
    return element(
        "CORE",
        cdata("CPUS", ",".join(f"{cpu}:{holder}" for cpu in core.cpus for holder in _holders(core, cpu))),
        cdata("DEDICATED", "YES" if core.dedicated else "NO"),
        cdata("FREE", free_threads(core, vms_thread)),
        cdata("ID", core.id),
    )


def _holders(core: SimCore, cpu: int) -> list[int]:
    if cpu in core.reserved:
        return [_RESERVED]
    return sorted(core.cpus[cpu]) or [_NOBODY]


def _monitored_node(node: SimNumaNode) -> str:
    memory = element(
        "MEMORY",
        cdata("FREE", node.memory_total_kib - node.memory_usage_kib),
        cdata("USED", node.memory_usage_kib),
    )
    pages = (
        element("HUGEPAGE", cdata("FREE", pages.pages - pages.usage), cdata("SIZE", pages.size_kib))
        for pages in node.hugepages
    )
    return element("NUMA_NODE", *pages, memory, cdata("NODE_ID", node.node_id))
