"""A simulated cloud that starts where a recording ends: its pools answer as the recorded ones did.

A recording is a file made by ``one-preempt record``, or a folder of raw pool documents, one file a call
(``vmpool.infoextended.xml``, ``hostpool.info.xml``, ...). Where the folder has documents of single VMs
(``vm.info.*.xml``) they are taken, since they alone have the whole history. VMs that were under way when the
recording was made stay there: no driver works on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from lxml import etree

from one_preempt.adapters.recorded.recording import read_recording
from one_preempt.errors import OnePreemptError
from one_preempt.simulation.emulator import recorded_objects as recorded
from one_preempt.simulation.emulator.address_owners import ON_HOLD
from one_preempt.simulation.emulator.recorded_hosts import host
from one_preempt.simulation.emulator.recorded_objects import Element
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.objects import SimCluster, SimDatastore, SimHost, SimNetwork, SimVm
from one_preempt.simulation.simulated_cloud.states import VmState
from one_preempt.simulation.simulated_cloud.templates import vectors_of
from one_preempt.simulation.simulated_cloud.virtual_time import VirtualClock

# The first of these that exists: with DONE VMs where there is such a document.
_VM_POOLS = ("vmpool.infoextended.state_all_including_done", "vmpool.infoextended")
_HOST_POOL = "hostpool.info"
_VERSION = "system.version"
_Thing = TypeVar("_Thing")


def recorded_cloud(path: Path) -> SimulatedCloud:
    """The cloud of a recording. Hosts and VMs must be there; of what else is absent there is nothing, and without
    users the usual two. Raises `OnePreemptError` where a document is absent, broken or not what it says.
    """
    documents = _documents_of_folder(path) if path.is_dir() else read_recording(path).documents
    try:
        return _Recording(path, documents).cloud()
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise OnePreemptError(f"{path}: a recorded document has not oned's form: {error}") from error


def _documents_of_folder(folder: Path) -> dict[str, bytes]:
    files = [*sorted(folder.glob("*.xml")), folder / f"{_VERSION}.txt"]
    try:
        return {file.stem: file.read_bytes() for file in files if file.is_file()}
    except OSError as error:
        raise OnePreemptError(f"{error.filename}: cannot be read: {error.strerror}") from error


class _Recording:
    """The documents of one recording by the names of their calls."""

    def __init__(self, path: Path, documents: Mapping[str, bytes]) -> None:
        self._path = path
        self._documents = documents

    def cloud(self) -> SimulatedCloud:
        vms, hosts = self._vms(), self._hosts()
        _forget_unknown_guests(hosts, vms)
        _charge_pinned_memory(hosts, vms)
        clusters = self._pool("clusterpool.info", "CLUSTER", recorded.cluster)
        datastores = self._pool("datastorepool.info", "DATASTORE", recorded.datastore)
        _match_clusters(clusters, hosts, datastores)
        networks = self._pool("vnpool.info", "VNET", recorded.network)
        for number, element in _elements(self._root("vnpool.info"), "VNET"):
            _lease_addresses(networks[number], recorded.number(element, "USED_LEASES"), vms)
        users, groups = self._root("userpool.info"), self._root("grouppool.info")
        return SimulatedCloud(
            clock=VirtualClock(_last_instant(hosts, vms)),
            version=self._documents.get(_VERSION, b"7.4.0").decode().strip(),
            vms=vms,
            hosts=hosts,
            clusters=clusters,
            datastores=datastores,
            images=self._pool("imagepool.info", "IMAGE", recorded.image),
            networks=networks,
            vm_groups=self._pool("vmgrouppool.info", "VM_GROUP", recorded.vm_group),
            vm_templates=self._pool("templatepool.info", "VMTEMPLATE", recorded.vm_template),
            users={number: recorded.user(user, _quotas(users, number)) for number, user in _elements(users, "USER")},
            groups={
                number: recorded.group(group, _quotas(groups, number)) for number, group in _elements(groups, "GROUP")
            },
            acls=self._pool("acl.info", "ACL", recorded.acl),
        )

    def _vms(self) -> dict[int, SimVm]:
        name = next((name for name in _VM_POOLS if name in self._documents), _VM_POOLS[-1])
        elements = dict(_elements(self._root(name, must_exist=True), "VM"))
        for single in sorted(self._documents):
            if single.startswith("vm.info."):
                element = self._root(single)
                elements[recorded.number(element, "ID")] = element
        figures = {recorded.number(entry, "ID"): recorded.vector(entry) for entry in self._root("vmpool.monitoring")}
        return {number: recorded.vm(elements[number], figures.get(number, {})) for number in sorted(elements)}

    def _hosts(self) -> dict[int, SimHost]:
        figures = {recorded.number(entry, "ID"): entry for entry in self._root("hostpool.monitoring")}
        machines = _elements(self._root(_HOST_POOL, must_exist=True), "HOST")
        return {number: host(element, figures.get(number)) for number, element in machines}

    def _pool(self, name: str, tag: str, read: Callable[[Element], _Thing]) -> dict[int, _Thing]:
        return {number: read(element) for number, element in _elements(self._root(name), tag)}

    def _root(self, name: str, must_exist: bool = False) -> Element:
        text = self._documents.get(name, b"")
        if not text and must_exist:
            raise OnePreemptError(f"{self._path}: there is no {name} in it; a recording needs it")
        if not text:
            return etree.Element("ABSENT")
        try:
            return etree.fromstring(text, etree.XMLParser(huge_tree=True, resolve_entities=False))
        except etree.XMLSyntaxError as error:
            raise OnePreemptError(f"{self._path}: {name} is cut or broken: {error}") from error


def _elements(root: Element, tag: str) -> Iterator[tuple[int, Element]]:
    """Pools come in descending order; the cloud keeps them ascending."""
    for element in reversed(root.findall(tag)):
        yield recorded.number(element, "ID"), element


def _quotas(root: Element, holder: int) -> Element | None:
    return next((quotas for quotas in root.iterfind("QUOTAS") if recorded.number(quotas, "ID") == holder), None)


def _forget_unknown_guests(hosts: dict[int, SimHost], vms: dict[int, SimVm]) -> None:
    """The pools are read one after the other: a host may name a VM that came in between. Its room stays charged."""
    for machine in hosts.values():
        machine.vm_ids = [vm_id for vm_id in machine.vm_ids if vm_id in vms]


def _match_clusters(
    clusters: dict[int, SimCluster], hosts: dict[int, SimHost], datastores: dict[int, SimDatastore]
) -> None:
    """Clusters that hosts name are there, and name no datastores that are not, whatever the recording lacks."""
    for number, machine in hosts.items():
        cluster = clusters.setdefault(machine.cluster_id, SimCluster(machine.cluster_id, machine.cluster))
        cluster.host_ids = sorted({*cluster.host_ids, number})
    for cluster in clusters.values():
        cluster.datastore_ids = [number for number in cluster.datastore_ids if number in datastores]


def _lease_addresses(network: SimNetwork, taken: int, vms: dict[int, SimVm]) -> None:
    """`taken` addresses are leased. A recording without secrets does not say to whom: to the NICs of its VMs, and
    what is left to nobody who will ever give it back.
    """
    holders = [
        vm.id
        for vm in vms.values()
        if vm.state != VmState.DONE
        for nic in vectors_of(vm.template, "NIC")
        if nic.get("NETWORK_ID") == str(network.id)
    ]
    for addresses in network.address_ranges:
        for offset in range(addresses.size):
            if network.used_leases >= taken:
                return
            if offset not in addresses.leases:
                addresses.leases[offset] = holders.pop(0) if holders else ON_HOLD


def _charge_pinned_memory(hosts: dict[int, SimHost], vms: dict[int, SimVm]) -> None:
    """A host's document says how much memory of a node is used, the VMs' say by whom."""
    for machine in hosts.values():
        nodes = {str(node.node_id): node for node in machine.share.numa_nodes}
        for vm_id in machine.vm_ids:
            for guest in vectors_of(vms[vm_id].template, "NUMA_NODE"):
                if guest.get("MEMORY_NODE_ID") in nodes:
                    pinned_kib = nodes[guest["MEMORY_NODE_ID"]].pinned_kib
                    pinned_kib[vm_id] = pinned_kib.get(vm_id, 0) + int(guest["MEMORY"])


def _last_instant(hosts: dict[int, SimHost], vms: dict[int, SimVm]) -> int:
    """The latest time that the recording speaks of: when it was made, as far as one can tell."""
    instants = [machine.monitoring.timestamp_s for machine in hosts.values()]
    for vm in vms.values():
        instants += [vm.stime_s, vm.etime_s, vm.last_poll_s]
        for record in vm.history:
            instants += [record.stime_s, record.etime_s, record.rstime_s, record.retime_s, record.eetime_s]
    return max(instants, default=0)
