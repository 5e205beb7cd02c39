"""A host of the simulated cloud as the scheduler observes it.

What stays while VMs come and go (name, devices' places, template) is built once (`fixed_part`); a change of load costs
one new value.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.model.host import Host, HostDatastore, HostState, HugePages, NumaCore, NumaNode, PciDevice
from one_preempt.simulation.simulated_cloud.objects import SimCluster, SimCore, SimHost, SimNumaNode, Vector
from one_preempt.simulation.simulator.observed_attributes import Attributes, paths_of

_STATES = {int(state): state for state in HostState}
_NOBODY = -1
_RESERVED = -2


class FixedPart(Struct, frozen=True):
    """What does not change with the load of a host.

    `is_plain`: what runs there shows in the host's sums and in the list of its VMs alone.
    """

    attributes: Attributes
    datastores: tuple[HostDatastore, ...]
    free_disk_mib: int
    is_plain: bool


def cluster_part(cluster: SimCluster | None) -> Attributes:
    """What the documents of a cluster's hosts say of its template."""
    return paths_of(cluster.template, "CLUSTER_TEMPLATE/") if cluster is not None and cluster.template else {}


def fixed_part(host: SimHost, of_cluster: Attributes) -> FixedPart:
    """What a host's document says beside its load; `of_cluster` is the `cluster_part` of its cluster."""
    share = host.share
    attributes: Attributes = {
        "ID": (str(host.id),),
        "NAME": (host.name,),
        "STATE": (str(int(host.state)),),
        "PREV_STATE": (str(int(host.prev_state)),),
        "IM_MAD": (host.im_mad,),
        "VM_MAD": (host.vm_mad,),
        "CLUSTER_ID": (str(host.cluster_id),),
        "CLUSTER": (host.cluster,),
        "HOST_SHARE/TOTAL_MEM": (str(share.total_mem),),
        "HOST_SHARE/TOTAL_CPU": (str(share.total_cpu),),
        "HOST_SHARE/VMS_THREAD": (str(share.vms_thread),),
        **paths_of({**{name: [text] for name, text in share.disks.items()}, "DS": share.datastores}, _DATASTORES),
        **paths_of(host.template, "TEMPLATE/"),
        **of_cluster,
    }
    return FixedPart(
        attributes=attributes,
        datastores=tuple(map(_host_datastore, share.datastores)),
        free_disk_mib=int(share.disks.get("FREE_DISK") or "0"),
        is_plain=not (share.pci_devices or share.numa_nodes),
    )


_DATASTORES = "HOST_SHARE/DATASTORES/"


def observed_host(host: SimHost, fixed: FixedPart, is_monitored: bool) -> Host:
    """The host with its load, and where `is_monitored` with its monitoring record, which must be fresh."""
    share = host.share
    return Host(
        id=host.id,
        name=host.name,
        state=_STATES[host.state],
        cluster_id=host.cluster_id,
        cluster_name=host.cluster,
        max_cpu_centi=share.max_cpu,
        cpu_usage_centi=share.cpu_usage,
        max_memory_kib=share.max_mem,
        memory_usage_kib=share.mem_usage,
        total_cpu_centi=share.total_cpu,
        total_memory_kib=share.total_mem,
        running_vms=share.running_vms,
        vm_ids=tuple(host.vm_ids),
        vms_thread=share.vms_thread,
        free_disk_mib=fixed.free_disk_mib,
        datastores=fixed.datastores,
        pci_devices=tuple(map(_pci_device, share.pci_devices)),
        numa_nodes=tuple(map(_numa_node, share.numa_nodes)),
        vm_mad=host.vm_mad,
        im_mad=host.im_mad,
        attributes=_with_monitoring(host, fixed.attributes) if is_monitored else fixed.attributes,
    )


def loaded_host(host: SimHost, before: Host) -> Host:
    """A plain host without monitoring records, of which only the load changed since `before`."""
    share = host.share
    return replace(
        before,
        cpu_usage_centi=share.cpu_usage,
        memory_usage_kib=share.mem_usage,
        running_vms=share.running_vms,
        vm_ids=tuple(host.vm_ids),
    )


def _with_monitoring(host: SimHost, attributes: Attributes) -> Attributes:
    record = host.monitoring
    if not record.timestamp_s:
        return attributes
    monitored = dict(attributes)
    monitored["MONITORING/TIMESTAMP"] = (str(record.timestamp_s),)
    monitored["MONITORING/ID"] = (str(host.id),)
    for name, text in record.capacity.items():
        monitored["MONITORING/CAPACITY/" + name] = (text,)
    for name, text in record.system.items():
        monitored["MONITORING/SYSTEM/" + name] = (text,)
    return monitored


def _host_datastore(texts: Vector) -> HostDatastore:
    return HostDatastore(
        datastore_id=int(texts["ID"]),
        free_mib=int(texts.get("FREE_MB") or "0"),
        total_mib=int(texts.get("TOTAL_MB") or "0"),
        used_mib=int(texts.get("USED_MB") or "0"),
    )


def _pci_device(texts: Vector) -> PciDevice:
    return PciDevice(
        address=texts.get("ADDRESS", ""),
        short_address=texts.get("SHORT_ADDRESS", ""),
        vendor=texts.get("VENDOR", "").lower(),
        device=texts.get("DEVICE", "").lower(),
        device_class=texts.get("CLASS", "").lower(),
        vm_id=int(texts["VMID"]),
    )


def _numa_node(node: SimNumaNode) -> NumaNode:
    return NumaNode(
        id=node.node_id,
        cores=tuple(map(_numa_core, node.cores)),
        hugepages=tuple(
            HugePages(pages.size_kib, pages.pages, pages.usage, pages.pages - pages.usage) for pages in node.hugepages
        ),
        total_memory_kib=node.memory_total_kib,
        usage_memory_kib=node.memory_usage_kib,
        distance=tuple(map(int, node.memory_distance.split())),
    )


def _numa_core(core: SimCore) -> NumaCore:
    return NumaCore(
        id=core.id,
        threads=tuple((cpu, holder) for cpu in core.cpus for holder in _holders(core, cpu)),
        dedicated=core.dedicated,
    )


def _holders(core: SimCore, cpu: int) -> list[int]:
    if cpu in core.reserved:
        return [_RESERVED]
    return sorted(core.cpus[cpu]) or [_NOBODY]
