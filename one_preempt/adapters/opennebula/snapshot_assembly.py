"""The answers of a whole reading, put together into one snapshot. Live and recorded pools come this way."""

from __future__ import annotations

from collections.abc import Mapping

from one_preempt.adapters.opennebula.access_reader import read_directory
from one_preempt.adapters.opennebula.host_reader import ids_in_host_pool, read_host_pool
from one_preempt.adapters.opennebula.infrastructure_reader import (
    read_cluster_pool,
    read_datastore_pool,
    read_network_pool,
    read_vm_group_pool,
)
from one_preempt.adapters.opennebula.virtual_machine_reader import (
    ids_in_vm_pool,
    read_vm_pool,
    untraced_in_vm_pool,
)
from one_preempt.adapters.opennebula.xml_document import UnreadableDocument, parse_document, whole_number_or
from one_preempt.core.model.pool_snapshot import PoolSnapshot, RaftState

VM_POOL = "vmpool.infoextended"
SHORT_VM_POOL = "vmpool.info"
HOST_POOL = "hostpool.info"
HOST_MONITORING = "hostpool.monitoring"
CLUSTER_POOL = "clusterpool.info"
DATASTORE_POOL = "datastorepool.info"
NETWORK_POOL = "vnpool.info"
VM_GROUP_POOL = "vmgrouppool.info"
# No parts of a snapshot.
IMAGE_POOL = "imagepool.info"
TEMPLATE_POOL = "templatepool.info"
ACL = "acl.info"
USER_POOL = "userpool.info"
GROUP_POOL = "grouppool.info"
RAFT_STATUS = "zone.raftstatus"
VERSION = "system.version"
CONFIGURATION = "system.config"


def assemble_snapshot(documents: Mapping[str, bytes], observed_at_s: int) -> PoolSnapshot:
    """The snapshot told by `documents`, which are named by the calls they answer.

    Without hosts or VMs there is nothing to decide: `UnreadableDocument`. Other documents may be absent.
    """
    problems: list[str] = []

    def document(name: str) -> bytes:
        return documents.get(name, b"")

    vm_pool = document(VM_POOL) or document(SHORT_VM_POOL)
    if not vm_pool or not document(HOST_POOL):
        raise UnreadableDocument(f"{HOST_POOL} and {VM_POOL} are needed; one of them is absent or empty")
    vms = read_vm_pool(vm_pool, problems)
    unreadable_vm_ids = ids_in_vm_pool(vm_pool) - vms.keys() if problems else frozenset()
    clusters = read_cluster_pool(document(CLUSTER_POOL), problems)
    hosts = read_host_pool(document(HOST_POOL), document(HOST_MONITORING), clusters, problems)
    unreadable_host_ids = ids_in_host_pool(document(HOST_POOL)) - hosts.keys() if problems else frozenset()
    return PoolSnapshot(
        observed_at_s=observed_at_s,
        version=document(VERSION).decode(errors="replace").strip(),
        zone_id=zone_id_in(document(CONFIGURATION)),
        raft_state=raft_state(document(RAFT_STATUS)),
        hosts=hosts,
        vms=vms,
        clusters=clusters,
        datastores=read_datastore_pool(document(DATASTORE_POOL), problems),
        networks=read_network_pool(document(NETWORK_POOL), problems),
        vm_groups=read_vm_group_pool(document(VM_GROUP_POOL), problems),
        directory=read_directory(document(USER_POOL), document(GROUP_POOL), document(ACL), problems),
        unreadable_vm_ids=unreadable_vm_ids,
        untraced_vm_ids=untraced_in_vm_pool(vm_pool, unreadable_vm_ids) if unreadable_vm_ids else frozenset(),
        unreadable_host_ids=unreadable_host_ids,
        problems=tuple(problems),
    )


def zone_id_in(configuration: bytes) -> int:
    """The zone that oned serves; 0, the only zone of a site without federation, where it is not told."""
    if not configuration:
        return 0
    return whole_number_or(parse_document(configuration, [], CONFIGURATION).findtext(".//FEDERATION/ZONE_ID"), 0)


def raft_state(status: bytes) -> RaftState:
    """The STATE of zone.raftstatus; SOLO for an empty answer. Raises `UnreadableDocument`."""
    if not status:
        return RaftState.SOLO
    text = parse_document(status, [], RAFT_STATUS).findtext("STATE", "")
    try:
        return RaftState(int(text))
    except ValueError:
        raise UnreadableDocument(f"{RAFT_STATUS} tells no known state: {text[:40]!r}") from None
