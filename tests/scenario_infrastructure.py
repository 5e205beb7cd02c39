"""What a scenario says of clusters, datastores, networks, VM groups, access rules and NUMA (see scenario_reader).

    clusters:   {1: {PRIORITY: 5}}                                     the template of each cluster but 0
    datastores: {100: {free: 5000, shared: false, clusters: [0, 1]}}   instead of the one that every host shares
    networks:   {5: {size: 10, used: 3, clusters: [0], attributes: {SPEED: 10}}}
    vm_groups:  {7: {roles: {web: {policy: ANTI_AFFINED, hosts: [1], not_hosts: [2]}}, affined: [[web, db]]}}
    acl:        ["@102 HOST/#1 MANAGE"]                                instead of "every group may use everything"

A VM names its VM group and role by `group: [7, web]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from one_preempt.core.model.access import AclRule
from one_preempt.core.model.host import HugePages, NumaCore, NumaNode
from one_preempt.core.model.infrastructure import (
    Cluster,
    Datastore,
    DatastoreType,
    Network,
    Permissions,
    VmGroup,
    VmGroupRole,
)
from one_preempt.core.model.virtual_machine import Disk, Nic, NumaNodeRequest, Topology
from one_preempt.simulation.emulator.acl_text import parse_rule

KIB_PER_MIB = 1024
PAGE_KIB = 2048

Given = Mapping[str, Any]


def attributes_of(given: Given) -> dict[str, tuple[str, ...]]:
    return {f"TEMPLATE/{name}": (str(value),) for name, value in given.get("attributes", {}).items()}


def clusters_of(document: Given, host_clusters: Mapping[int, int]) -> dict[int, Cluster]:
    templates = {0: {}, **document.get("clusters", {})}
    return {
        cluster_id: Cluster(
            id=cluster_id,
            name=f"cluster{cluster_id}" if cluster_id else "default",
            host_ids=tuple(host_id for host_id, where in host_clusters.items() if where == cluster_id),
            attributes={name: (str(value),) for name, value in (template or {}).items()},
        )
        for cluster_id, template in templates.items()
    }


def datastores_of(document: Given, usual_id: int) -> dict[int, Datastore]:
    given = document.get("datastores", {usual_id: document.get("datastore") or {}})
    return {store_id: _datastore(store_id, entry or {}) for store_id, entry in given.items()}


def _datastore(store_id: int, given: Given) -> Datastore:
    free_mib = given.get("free", 900_000)
    return Datastore(
        id=store_id,
        name=given.get("name", "system"),
        uid=0,
        gid=0,
        permissions=Permissions(),
        type=DatastoreType[given.get("type", "SYSTEM")],
        enabled=given.get("enabled", True),
        shared=given.get("shared", True),
        cluster_ids=tuple(given.get("clusters", (0,))),
        total_mib=given.get("total", 1_000_000),
        free_mib=free_mib,
        used_mib=given.get("used", 100_000),
        limit_mib=given.get("limit"),
        tm_mad=given.get("tm_mad", "shared"),
        attributes=attributes_of(given),
    )


def networks_of(document: Given) -> dict[int, Network]:
    return {
        network_id: Network(
            id=network_id,
            name=f"net{network_id}",
            uid=0,
            gid=0,
            permissions=Permissions(),
            cluster_ids=tuple(given.get("clusters", (0,))),
            size_leases=given.get("size", 10),
            used_leases=given.get("used", 0),
            attributes=attributes_of(given),
        )
        for network_id, given in document.get("networks", {}).items()
    }


def vm_groups_of(document: Given) -> dict[int, VmGroup]:
    return {group_id: _vm_group(group_id, given, document) for group_id, given in document.get("vm_groups", {}).items()}


def _vm_group(group_id: int, given: Given, document: Given) -> VmGroup:
    roles = tuple(
        VmGroupRole(
            id=number,
            name=name,
            policy=(role or {}).get("policy", "NONE"),
            vm_ids=tuple(
                vm_id for vm_id, vm in document.get("vms", {}).items() if (vm or {}).get("group") == [group_id, name]
            ),
            host_affined=tuple((role or {}).get("hosts", ())),
            host_anti_affined=tuple((role or {}).get("not_hosts", ())),
        )
        for number, (name, role) in enumerate(given["roles"].items())
    )
    return VmGroup(
        id=group_id,
        name=f"group{group_id}",
        roles=roles,
        affined=tuple(map(tuple, given.get("affined", ()))),
        anti_affined=tuple(map(tuple, given.get("anti_affined", ()))),
    )


def acl_rules_of(document: Given, group_ids: Iterable[int]) -> tuple[AclRule, ...]:
    """As shipped by OpenNebula, every group may use every host, datastore and network of the zone."""
    usual = [f"@{gid} {right}" for gid in group_ids for right in ("HOST/* MANAGE", "DATASTORE/* USE", "NET/* USE")]
    return tuple(
        AclRule(number, *(int(part, 16) for part in parse_rule(text)))
        for number, text in enumerate(document.get("acl", usual))
    )


def numa_nodes_of(given: Given) -> tuple[NumaNode, ...]:
    """`numa: {nodes: 2, cores: 2, threads: 2, memory: 4096, pages: 512, pinned: [7, 7]}`: each node alike.

    All of it is free, but for the first threads, on which the VMs of `pinned` are; with `held_by` one VM has all cores.
    """
    numa = given.get("numa")
    if numa is None:
        return ()
    count, cores, threads = numa.get("nodes", 1), numa.get("cores", 2), numa.get("threads", 1)
    pages, holder = numa.get("pages", 0), numa.get("held_by", -1)
    pinned = dict(enumerate(numa.get("pinned", ())))
    return tuple(
        NumaNode(
            id=node,
            cores=tuple(
                NumaCore(
                    id=node * cores + core,
                    threads=tuple(
                        (number, pinned.get(number, holder))
                        for number in range((node * cores + core) * threads, (node * cores + core + 1) * threads)
                    ),
                    dedicated=holder >= 0,
                )
                for core in range(cores)
            ),
            hugepages=(HugePages(PAGE_KIB, pages, 0, pages),) if pages else (),
            total_memory_kib=numa.get("memory", 4096) * KIB_PER_MIB,
            usage_memory_kib=0,
            distance=(node, *(other for other in range(count) if other != node)),
        )
        for node in range(count)
    )


def topology_of(given: Given) -> tuple[Topology | None, tuple[NumaNodeRequest, ...]]:
    """`topology: {pin: THREAD, cpus: 4, memory: 1024, threads: 1, pages: 2, affinity: 1}`: one guest node."""
    topology = given.get("topology")
    if topology is None:
        return None, ()
    cpus, memory_mib = topology.get("cpus", 1), topology.get("memory", 1024)
    asked = Topology(
        cores=cpus,
        threads=topology.get("threads", 0),
        pin_policy=topology.get("pin", ""),
        hugepage_size_mib=topology.get("pages"),
        node_affinity=topology.get("affinity"),
    )
    return asked, (NumaNodeRequest(None, cpus, memory_mib * KIB_PER_MIB, None),)


def disks_of(given: Given) -> tuple[Disk, ...]:
    """`disks: [{size: 1000, target: SELF, datastore: 1}, {size: 500, type: SWAP}]`; images are cloned.

    Which one is said by `image: 7`, whose size is that of the disk, and that it is not cloned by `persistent: true`.
    """
    return tuple(
        Disk(
            id=number,
            size_mib=disk["size"],
            type=disk.get("type", "FILE"),
            datastore_id=None if disk.get("type") in ("SWAP", "FS") else disk.get("datastore", 1),
            clone=None if disk.get("type") in ("SWAP", "FS") else not disk.get("persistent", False),
            clone_target=disk.get("target", "SYSTEM"),
            ln_target="NONE",
            tm_mad="shared",
            snapshot_total_mib=disk.get("snapshots", 0),
            image_id=disk.get("image"),
            image_size_mib=disk["size"] if "image" in disk else 0,
        )
        for number, disk in enumerate(given.get("disks", ()))
    )


def nics_of(given: Given) -> tuple[Nic, ...]:
    """`nics: [{requirements: ..., rank: ..., given: 5}]`: each leaves its network to the scheduler, or has one."""
    told = [nic or {} for nic in given.get("nics", ())]
    return tuple(
        Nic(number, nic.get("given"), True, nic.get("requirements", ""), nic.get("rank", ""))
        for number, nic in enumerate(told)
    )
