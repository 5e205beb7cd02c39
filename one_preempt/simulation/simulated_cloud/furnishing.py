"""Building a cloud: machines, storage, networks and people put in place at once, without rights or waiting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from one_preempt.simulation.simulated_cloud import capacity
from one_preempt.simulation.simulated_cloud.authorization import access_rules_of_group, creation_rule
from one_preempt.simulation.simulated_cloud.calls.hosts import HostCalls
from one_preempt.simulation.simulated_cloud.calls.vms import parsed
from one_preempt.simulation.simulated_cloud.errors import ErrorCode
from one_preempt.simulation.simulated_cloud.image_link import ImageLink
from one_preempt.simulation.simulated_cloud.objects import (
    Caller,
    SimAcl,
    SimAddressRange,
    SimCluster,
    SimCore,
    SimDatastore,
    SimGroup,
    SimHost,
    SimHugePages,
    SimImage,
    SimNetwork,
    SimNumaNode,
    SimPermissions,
    SimRole,
    SimUser,
    SimVmGroup,
    SimVmTemplate,
    SimZone,
    TemplateDict,
    Vector,
)
from one_preempt.simulation.simulated_cloud.quotas import full_request
from one_preempt.simulation.simulated_cloud.states import DatastoreType, HostState
from one_preempt.simulation.simulated_cloud.templates import copy_template, merged
from one_preempt.simulation.simulated_cloud.vm_building import build_vm, copies_of_vm

_FIRST_ID = 100
# What belongs to one VM alone, or is written into while the VM lives.
_DIFFERENT_IN_EACH = frozenset({"CONTEXT", "DISK", "GRAPHICS", "NIC", "NUMA_NODE", "PCI", "TOPOLOGY", "VMGROUP"})
_TYPE_NAMES = {DatastoreType.IMAGE: "IMAGE_DS", DatastoreType.SYSTEM: "SYSTEM_DS", DatastoreType.FILE: "FILE_DS"}


def usable_by_group() -> SimPermissions:
    """640: what oned gives datastores."""
    return SimPermissions(group_u=True)


class Furnishing(HostCalls):
    """`add_*` for everything that VMs need; ids count up as oned's do (clusters, groups and datastores from 100)."""

    def add_cluster(self, name: str, template: TemplateDict | None = None) -> SimCluster:
        """A cluster."""
        cluster_id = max(max(self.clusters, default=-1) + 1, _FIRST_ID)
        empty: TemplateDict = {"RESERVED_CPU": [""], "RESERVED_MEM": [""]}
        cluster = SimCluster(cluster_id, name, template=merged(empty, template or {}))
        self.clusters[cluster_id] = cluster
        return cluster

    def add_host(
        self,
        name: str,
        cpu: int = 800,
        memory_mib: int = 16384,
        cluster_id: int = 0,
        template: TemplateDict | None = None,
        pci_devices: Sequence[Vector] = (),
        numa_nodes: Sequence[SimNumaNode] = (),
    ) -> SimHost:
        """A machine that is MONITORED already; `cpu` in hundredths."""
        cluster = self.clusters[cluster_id]
        host = self.place_host(name, cluster, cpu, memory_mib * 1024, self.hypervisor, self.hypervisor)
        machine: TemplateDict = {
            "ARCH": ["x86_64"], "HOSTNAME": [name], "HYPERVISOR": [self.hypervisor], "MODELNAME": ["simulated"],
        }  # fmt: skip
        host.template = merged(host.template, {**machine, **(template or {})})
        host.share.pci_devices = [{"VMID": "-1", **device} for device in pci_devices]
        host.share.numa_nodes = list(numa_nodes)
        host.share.disks = {"DISK_USAGE": "0", "FREE_DISK": "20480", "MAX_DISK": "20480", "USED_DISK": "0"}
        capacity.set_capacity(host, cluster.template)
        self.change_host(host, HostState.MONITORED)
        self.refresh_monitoring(host)
        return host

    def add_datastore(
        self,
        name: str,
        kind: DatastoreType = DatastoreType.SYSTEM,
        total_mib: int = 1_000_000,
        tm_mad: str = "ssh",
        cluster_ids: Sequence[int] | None = None,
        template: TemplateDict | None = None,
    ) -> SimDatastore:
        """An empty datastore in the clusters named, or in all there are."""
        datastore_id = max(max(self.datastores, default=-1) + 1, _FIRST_ID)
        clusters = sorted(self.clusters if cluster_ids is None else cluster_ids)
        ds_mad = "-" if kind == DatastoreType.SYSTEM else "fs"
        shipped: TemplateDict = {"ALLOW_ORPHANS": ["NO"], "TM_MAD": [tm_mad], "TYPE": [_TYPE_NAMES[kind]]}
        shipped |= {"SHARED": ["NO"]} if kind == DatastoreType.SYSTEM else {"CLONE_TARGET": ["SYSTEM"]}
        datastore = SimDatastore(
            datastore_id, 0, 0, "oneadmin", "oneadmin", name, usable_by_group(), ds_mad, tm_mad,
            f"/var/lib/one//datastores/{datastore_id}", kind, cluster_ids=clusters, total_mib=total_mib,
            free_mib=total_mib, template=merged(shipped, template or {}),
        )  # fmt: skip
        self.datastores[datastore_id] = datastore
        for cluster_id in clusters:
            self.clusters[cluster_id].datastore_ids.append(datastore_id)
        return datastore

    def add_image(
        self, name: str, datastore_id: int, size_mib: int = 1024, image_format: str = "raw", source: str = ""
    ) -> SimImage:
        """An image that anyone may use."""
        image_id = max(self.images, default=-1) + 1
        datastore = self.datastore(datastore_id)
        image = SimImage(
            image_id, 0, 0, "oneadmin", "oneadmin", name, SimPermissions(other_u=True), self.now_s, datastore_id,
            datastore.name, size_mib, format=image_format, source=source or f"{datastore.base_path}/{image_id}",
            template={"DEV_PREFIX": ["sd"]},
        )  # fmt: skip
        self.images[image_id] = image
        datastore.image_ids.append(image_id)
        return image

    def lay_image_link(self, megabit_per_s: int, *, keeps_copies: bool) -> ImageLink:
        """From now on images come to hosts over one link, and a VM waits for those that its host lacks.

        `keeps_copies`: what a deployment copies stays on its host.
        """
        self.image_link = ImageLink(self.clock, self.events, megabit_per_s, keeps_copies=keeps_copies)
        self._know_instant()
        return self.image_link

    def add_network(
        self, name: str, size: int = 200, ip: str = "192.168.150.10", cluster_ids: Sequence[int] | None = None
    ) -> SimNetwork:
        """A network with one range of addresses that anyone may use."""
        network_id = max(self.networks, default=-1) + 1
        clusters = sorted(self.clusters if cluster_ids is None else cluster_ids)
        mac = "02:00:" + ":".join(f"{int(part):02x}" for part in ip.split("."))
        addresses = SimAddressRange(
            {"AR_ID": "0", "IP": ip, "MAC": mac, "SHARED": "NO", "SIZE": str(size), "TYPE": "IP4"}, size
        )
        network = SimNetwork(
            network_id, 0, 0, "oneadmin", "oneadmin", name, SimPermissions(other_u=True), clusters, "br0",
            vn_mad="dummy" if self.hypervisor == "dummy" else "bridge", template={"SECURITY_GROUPS": ["0"]},
            address_ranges=[addresses],
        )  # fmt: skip
        self.networks[network_id] = network
        for cluster_id in clusters:
            self.clusters[cluster_id].network_ids.append(network_id)
        return network

    def join_federation(self, zone_id: int, zones: Iterable[SimZone]) -> None:
        """From now on this is the zone `zone_id` of `zones`, and rules for other zones have no force here."""
        self.zone_id = self.access.zone_id = zone_id
        self.zones = list(zones)

    def add_group(self, name: str, may_create_vms: bool = True) -> SimGroup:
        """A group whose members may have VMs on the zone's hosts, networks and datastores, and create them."""
        gid = max(max(self.groups, default=-1) + 1, _FIRST_ID)
        self.groups[gid] = SimGroup(gid, name)
        for rule in self.rules_of_members(gid):
            self.acls[rule.id] = rule
        if may_create_vms:
            rule = creation_rule(max(self.acls) + 1, gid)
            self.acls[rule.id] = rule
        return self.groups[gid]

    def rules_of_members(self, gid: int) -> list[SimAcl]:
        """The rules that oned makes for a new group, numbered on."""
        return access_rules_of_group(max(self.acls, default=-1) + 1, gid)

    def add_user(self, name: str, gid: int = 1, password: str = "") -> SimUser:
        """A user; the password is the name unless given."""
        uid = max(self.users, default=-1) + 1
        group = self.group(gid)
        self.users[uid] = SimUser(uid, gid, [gid], group.name, name, password or name)
        group.user_ids.append(uid)
        return self.users[uid]

    def add_vms(self, owner: Caller, template: str | TemplateDict, count: int, hold: bool = False) -> range:
        """VMs that are alike, PENDING or on HOLD; their ids. Rights and quotas are not asked, but quotas are used.

        Raises INTERNAL for a template that cannot be read or used.
        """
        asked = parsed(template, ErrorCode.INTERNAL) if isinstance(template, str) else template
        first_id = self._next_vm_id()
        first = build_vm(self, owner, first_id, copy_template(asked), hold)
        ids_of_others = range(first_id + 1, first_id + count)
        if _DIFFERENT_IN_EACH.isdisjoint(first.template):
            self._enter_together([first, *copies_of_vm(first, ids_of_others)])
        else:
            self._enter(first)
            for vm_id in ids_of_others:
                self._enter(build_vm(self, owner, vm_id, copy_template(asked), hold))
        self.quota_books.add(owner.uid, owner.gid, full_request(first), count)
        return range(first_id, first_id + count)

    def add_vm_group(self, name: str, roles: dict[str, Vector], template: TemplateDict | None = None) -> SimVmGroup:
        """A VM group; `roles` maps names to their other attributes (POLICY, HOST_AFFINED, ...)."""
        group_id = max(self.vm_groups, default=-1) + 1
        members = [SimRole(index, role, dict(vector)) for index, (role, vector) in enumerate(roles.items())]
        group = SimVmGroup(
            group_id, 0, 0, "oneadmin", "oneadmin", name, SimPermissions(), members, dict(template or {})
        )
        self.vm_groups[group_id] = group
        return group

    def add_vm_template(self, name: str, template: TemplateDict) -> SimVmTemplate:
        """A VM template."""
        template_id = max(self.vm_templates, default=-1) + 1
        self.vm_templates[template_id] = SimVmTemplate(
            template_id, 0, 0, "oneadmin", "oneadmin", name, SimPermissions(), self.now_s, template
        )
        return self.vm_templates[template_id]


def numa_nodes(nodes: int, cores: int, threads_per_core: int = 2, memory_mib: int = 8192) -> list[SimNumaNode]:
    """Equal NUMA nodes of `cores` cores each; the second threads are numbered after all first ones."""
    total = nodes * cores
    return [
        SimNumaNode(
            node,
            [
                SimCore(core, {core + thread * total: [] for thread in range(threads_per_core)})
                for core in range(node * cores, (node + 1) * cores)
            ],
            [SimHugePages(2048, 1024)],
            memory_mib * 1024,
            memory_distance=" ".join(str(other) for other in sorted(range(nodes), key=partial(_nearest, node))),
        )
        for node in range(nodes)
    ]


def _nearest(node: int, other: int) -> tuple[bool, int]:
    return other != node, other
