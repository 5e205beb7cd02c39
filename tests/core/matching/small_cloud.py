"""Hosts, VMs and datastores of a few words, for tests of matching."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from one_preempt.core.matching.host_table import host_table
from one_preempt.core.matching.options import MatchOptions
from one_preempt.core.matching.placement import Matchmaker
from one_preempt.core.model.access import AclRule, Directory, User
from one_preempt.core.model.host import Host, HostState, PciDevice
from one_preempt.core.model.infrastructure import Datastore, DatastoreType, Network, Permissions
from one_preempt.core.model.pool_snapshot import PoolSnapshot, RaftState
from one_preempt.core.model.virtual_machine import HistoryRecord, VirtualMachine, VmState

USERS_GID = 1
ALL_MAY_PLACE = AclRule(id=0, user=0x2_0000_0001, resource=0x24_0000_0000, rights=2, zone=0x4_0000_0000)
NO_LIMITS = MatchOptions(max_dispatch=0, max_host=0)


def host(
    host_id: int,
    cpu_centi: int = 400,
    memory_mib: int = 8192,
    *,
    used_cpu_centi: int = 0,
    used_memory_mib: int = 0,
    vm_ids: tuple[int, ...] = (),
    devices: Iterable[PciDevice] = (),
    state: HostState = HostState.MONITORED,
    cluster_id: int = 0,
    free_disk_mib: int = 100_000,
    attributes: Mapping[str, tuple[str, ...]] | None = None,
) -> Host:
    return Host(
        id=host_id,
        name=f"node{host_id}",
        state=state,
        cluster_id=cluster_id,
        cluster_name=f"cluster{cluster_id}",
        max_cpu_centi=cpu_centi,
        cpu_usage_centi=used_cpu_centi,
        max_memory_kib=memory_mib * 1024,
        memory_usage_kib=used_memory_mib * 1024,
        total_cpu_centi=cpu_centi,
        total_memory_kib=memory_mib * 1024,
        running_vms=len(vm_ids),
        vm_ids=vm_ids,
        free_disk_mib=free_disk_mib,
        pci_devices=tuple(devices),
        attributes=attributes or {},
    )


def vm(vm_id: int, cpu_centi: int = 100, memory_mib: int = 1024) -> VirtualMachine:
    return VirtualMachine(
        id=vm_id,
        name=f"vm{vm_id}",
        uid=5,
        gid=USERS_GID,
        uname="ann",
        gname="users",
        state=VmState.PENDING,
        lcm_state=0,
        resched=False,
        submitted_at_s=0,
        ended_at_s=0,
        cpu_centi=cpu_centi,
        memory_mib=memory_mib,
    )


def stay(host_id: int, *, datastore_id: int = 100, action: int = 0) -> HistoryRecord:
    return HistoryRecord(0, host_id, f"node{host_id}", 0, datastore_id, action, 0, 0, 0, 0, 0, 0, 0)


def running(machine: VirtualMachine, host_id: int) -> VirtualMachine:
    return replace(machine, state=VmState.ACTIVE, lcm_state=3, history=(stay(host_id),))


def device(address: str, vm_id: int = -1, vendor: str = "10de", kind: str = "20b5") -> PciDevice:
    return PciDevice(
        address=f"0000:{address}",
        short_address=address,
        vendor=vendor,
        device=kind,
        device_class="0302",
        vm_id=vm_id,
    )


def datastore(store_id: int = 100, free_mib: int = 1_000_000, **changes: object) -> Datastore:
    store = Datastore(
        id=store_id,
        name=f"store{store_id}",
        uid=0,
        gid=0,
        permissions=Permissions(other_use=True),
        type=DatastoreType.SYSTEM,
        enabled=True,
        shared=True,
        cluster_ids=(0,),
        total_mib=1_000_000,
        free_mib=free_mib,
        used_mib=1,
        limit_mib=None,
        tm_mad="qcow2",
    )
    return replace(store, **changes)


def network(network_id: int, leases: int = 10, used: int = 0, **changes: object) -> Network:
    net = Network(
        id=network_id,
        name=f"net{network_id}",
        uid=0,
        gid=0,
        permissions=Permissions(other_use=True),
        cluster_ids=(0,),
        size_leases=leases,
        used_leases=used,
    )
    return replace(net, **changes)


def cloud(
    hosts: Iterable[Host],
    vms: Iterable[VirtualMachine] = (),
    *,
    stores: Iterable[Datastore] | None = None,
    networks: Iterable[Network] = (),
    rules: Iterable[AclRule] = (ALL_MAY_PLACE,),
    **changes: object,
) -> PoolSnapshot:
    snapshot = PoolSnapshot(
        observed_at_s=0,
        version="7.4.0",
        zone_id=0,
        raft_state=RaftState.SOLO,
        hosts={each.id: each for each in hosts},
        vms={each.id: each for each in vms},
        datastores={each.id: each for each in ((datastore(),) if stores is None else stores)},
        networks={each.id: each for each in networks},
        directory=Directory(users={5: User(5, "ann", USERS_GID, "users", (USERS_GID,))}, acl_rules=tuple(rules)),
    )
    return replace(snapshot, **changes)


def matchmaker(snapshot: PoolSnapshot, options: MatchOptions = NO_LIMITS) -> Matchmaker:
    return Matchmaker(snapshot, host_table(snapshot.hosts), options)
