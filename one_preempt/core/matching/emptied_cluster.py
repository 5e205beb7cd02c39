"""All that there would be if nobody had anything: what cannot be placed even then never can, whoever leaves."""

from __future__ import annotations

from msgspec.structs import replace

from one_preempt.core.matching.numa import RESERVED_THREAD
from one_preempt.core.model.cluster_state import HostTable
from one_preempt.core.model.host import Host, NumaNode
from one_preempt.core.model.infrastructure import Datastore
from one_preempt.core.model.pool_snapshot import PoolSnapshot

# What was never measured may be as large as anybody wishes.
_PLENTY_MIB = 1 << 50


def emptied_snapshot(snapshot: PoolSnapshot) -> PoolSnapshot:
    """The same cluster with all VMs off their hosts, datastores empty, and no address given out."""
    return replace(
        snapshot,
        hosts={host_id: _emptied_host(host) for host_id, host in snapshot.hosts.items()},
        vms={vm_id: vm for vm_id, vm in snapshot.vms.items() if vm.host_id is None},
        datastores={store_id: _emptied_datastore(store) for store_id, store in snapshot.datastores.items()},
        networks={network_id: replace(one, used_leases=0) for network_id, one in snapshot.networks.items()},
    )


def emptied_table(hosts: HostTable, snapshot: PoolSnapshot) -> HostTable:
    """The table of hosts that `emptied_snapshot` has emptied."""
    rows = tuple([snapshot.hosts[host_id] for host_id in hosts.ids.tolist()])
    return replace(hosts, free=hosts.capacity, hosts=rows)


def _emptied_host(host: Host) -> Host:
    return replace(
        host,
        vm_ids=(),
        free_disk_mib=_PLENTY_MIB,
        datastores=tuple(
            replace(disk, free_mib=max(disk.free_mib, disk.total_mib or _PLENTY_MIB)) for disk in host.datastores
        ),
        pci_devices=tuple(replace(device, vm_id=-1) for device in host.pci_devices),
        numa_nodes=tuple(_emptied_node(node) for node in host.numa_nodes),
    )


def _emptied_node(node: NumaNode) -> NumaNode:
    cores = [
        replace(
            core,
            dedicated=False,
            threads=tuple((cpu, vm_id if vm_id == RESERVED_THREAD else -1) for cpu, vm_id in core.threads),
        )
        for core in node.cores
    ]
    pages = tuple(replace(pages, usage_pages=0) for pages in node.hugepages)
    return replace(node, cores=tuple(cores), hugepages=pages, usage_memory_kib=0)


def _emptied_datastore(store: Datastore) -> Datastore:
    return replace(store, free_mib=max(store.free_mib, store.total_mib or _PLENTY_MIB), used_mib=0)
