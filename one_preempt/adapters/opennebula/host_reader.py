"""Host documents as values, with the last monitoring record and the cluster's template merged in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from lxml import etree
from lxml.etree import _Element
from msgspec.structs import replace

from one_preempt.adapters.opennebula.pool_pieces import ids_named
from one_preempt.adapters.opennebula.xml_document import (
    UnreadableDocument,
    amount,
    ids_in,
    numbers_in,
    parse_document,
    read_objects,
    scalar_paths,
    texts_of,
    whole_number,
)
from one_preempt.core.model.host import Host, HostDatastore, HostState, HugePages, NumaCore, NumaNode, PciDevice
from one_preempt.core.model.infrastructure import Cluster

T = TypeVar("T")

# Lists of typed fields, and containers that are empty where a host has none.
_NOT_ATTRIBUTES = frozenset({"PCI_DEVICES", "NUMA_NODES", "NUMA_NODE", "MONITORING", "VMS"})


class HostReader:
    """Reads host elements; hosts of one model share their lists of devices and NUMA nodes.

    Those lists are most of a host: whoever has no use for one leaves it out, and it is empty then.
    """

    def __init__(
        self,
        monitoring: Mapping[int, _Element],
        clusters: Mapping[int, Cluster],
        *,
        with_devices: bool = True,
        with_numa_nodes: bool = True,
    ) -> None:
        self._monitoring = monitoring
        self._clusters = clusters
        self._with_devices = with_devices
        self._with_numa_nodes = with_numa_nodes
        self._pci_devices = _SharedParts(_pci_device)
        self._numa_nodes = _SharedParts(_numa_node)

    def read(self, element: _Element) -> Host:
        """One HOST element. `KeyError` or `ValueError` where it lacks what every host has."""
        parts = {child.tag: child for child in element}
        share = {child.tag: child for child in parts["HOST_SHARE"]}
        texts = {tag: part.text or "" for tag, part in (*share.items(), *parts.items())}
        host_id = amount(texts["ID"])
        monitored = self._monitored(host_id, parts.get("MONITORING"))
        datastores = share.get("DATASTORES")
        return Host(
            id=host_id,
            name=texts["NAME"],
            state=HostState(whole_number(texts["STATE"])),
            cluster_id=whole_number(texts["CLUSTER_ID"]),
            cluster_name=texts.get("CLUSTER", ""),
            max_cpu_centi=whole_number(texts["MAX_CPU"]),
            cpu_usage_centi=whole_number(texts["CPU_USAGE"]),
            max_memory_kib=whole_number(texts["MAX_MEM"]),
            memory_usage_kib=whole_number(texts["MEM_USAGE"]),
            total_cpu_centi=amount(texts["TOTAL_CPU"]),
            total_memory_kib=amount(texts["TOTAL_MEM"]),
            running_vms=amount(texts["RUNNING_VMS"]),
            vm_ids=ids_in(parts.get("VMS")),
            vms_thread=whole_number(texts.get("VMS_THREAD") or "1"),
            free_disk_mib=_free_disk_mib(datastores),
            datastores=_host_datastores(datastores),
            pci_devices=self._pci_devices.of(share.get("PCI_DEVICES")) if self._with_devices else (),
            numa_nodes=(
                _with_free_pages(self._numa_nodes.of(share.get("NUMA_NODES")), monitored)
                if self._with_numa_nodes
                else ()
            ),
            vm_mad=texts.get("VM_MAD", ""),
            im_mad=texts.get("IM_MAD", ""),
            attributes=self._attributes(element, monitored, whole_number(texts["CLUSTER_ID"])),
        )

    def _monitored(self, host_id: int, own: _Element | None) -> _Element | None:
        """The record inside the document (one.host.info) or that of one.hostpool.monitoring."""
        return own if own is not None and len(own) else self._monitoring.get(host_id)

    def _attributes(
        self, element: _Element, monitored: _Element | None, cluster_id: int
    ) -> Mapping[str, tuple[str, ...]]:
        attributes: dict[str, tuple[str, ...]] = {}
        scalar_paths(element, "", attributes, _NOT_ATTRIBUTES)
        if monitored is not None:
            scalar_paths(monitored, "MONITORING/", attributes, _NOT_ATTRIBUTES)
        if cluster_id in self._clusters:
            for path, values in self._clusters[cluster_id].attributes.items():
                attributes["CLUSTER_TEMPLATE/" + path] = values
        return attributes


def read_host_pool(
    document: bytes, monitoring: bytes, clusters: Mapping[int, Cluster], problems: list[str]
) -> dict[int, Host]:
    """The hosts of one.hostpool.info by ascending id; `monitoring` answers one.hostpool.monitoring(0)."""
    reader = HostReader(_monitoring_records(monitoring, problems), clusters)
    hosts = read_objects(document, "HOST_POOL", "HOST", reader.read, problems)
    return {host.id: host for host in sorted(hosts, key=lambda host: host.id)}


def ids_in_host_pool(document: bytes) -> frozenset[int]:
    """The ids of all hosts of a pool, also of those whose documents cannot be read."""
    return ids_named(document, "HOST")


def _monitoring_records(document: bytes, problems: list[str]) -> dict[int, _Element]:
    """The newest record of each host. Unreadable monitoring costs the figures, not the hosts."""
    if not document:
        return {}
    try:
        records = parse_document(document, problems, "the monitoring of the hosts")
    except UnreadableDocument as error:
        problems.append(str(error))
        return {}
    newest: dict[int, tuple[int, _Element]] = {}
    for record in records:
        texts = texts_of(record)
        try:
            host_id, stamp = whole_number(texts["ID"]), whole_number(texts["TIMESTAMP"])
        except (KeyError, ValueError):
            problems.append("a monitoring record without host or time was left out")
            continue
        if host_id not in newest or newest[host_id][0] <= stamp:
            newest[host_id] = (stamp, record)
    return {host_id: record for host_id, (_, record) in newest.items()}


class _SharedParts(Generic[T]):
    """Lists of typed parts, read once for all hosts on which oned writes them alike."""

    def __init__(self, read_one: Callable[[_Element], T]) -> None:
        self._read_one = read_one
        self._known: dict[bytes, tuple[T, ...]] = {}

    def of(self, listed: _Element | None) -> tuple[T, ...]:
        """The parts listed in an element."""
        if listed is None or not len(listed):
            return ()
        text = etree.tostring(listed, with_tail=False)
        if text not in self._known:
            self._known[text] = tuple(self._read_one(part) for part in listed)
        return self._known[text]


def _pci_device(element: _Element) -> PciDevice:
    texts = texts_of(element)
    return PciDevice(
        address=texts.get("ADDRESS", ""),
        short_address=texts.get("SHORT_ADDRESS", ""),
        vendor=texts.get("VENDOR", "").lower(),
        device=texts.get("DEVICE", "").lower(),
        device_class=texts.get("CLASS", "").lower(),
        vm_id=whole_number(texts["VMID"]),
    )


def _numa_node(element: _Element) -> NumaNode:
    memory = element.find("MEMORY")
    memory_texts = {} if memory is None else texts_of(memory)
    return NumaNode(
        id=whole_number(element.findtext("NODE_ID") or ""),
        cores=tuple(_numa_core(texts_of(core)) for core in element.iterchildren("CORE")),
        hugepages=tuple(_huge_pages(texts_of(pages)) for pages in element.iterchildren("HUGEPAGE")),
        total_memory_kib=whole_number(memory_texts.get("TOTAL") or "0"),
        usage_memory_kib=whole_number(memory_texts.get("USAGE") or "0"),
        distance=numbers_in(memory_texts.get("DISTANCE", "")),
    )


def _numa_core(texts: dict[str, str]) -> NumaCore:
    threads = (pair.partition(":") for pair in texts["CPUS"].split(",") if pair)
    return NumaCore(
        id=whole_number(texts["ID"]),
        threads=tuple((whole_number(cpu), whole_number(vm_id or "-1")) for cpu, _, vm_id in threads),
        dedicated=texts.get("DEDICATED", "NO").upper() == "YES",
    )


def _huge_pages(texts: dict[str, str]) -> HugePages:
    pages, usage = whole_number(texts["PAGES"]), whole_number(texts.get("USAGE") or "0")
    return HugePages(whole_number(texts["SIZE"]), pages, usage, free_pages=pages - usage)


def _with_free_pages(nodes: tuple[NumaNode, ...], monitored: _Element | None) -> tuple[NumaNode, ...]:
    """`nodes` with the free pages that were really seen: others than VMs may use huge pages too."""
    if monitored is None or not any(node.hugepages for node in nodes):
        return nodes
    seen = {
        (node.findtext("NODE_ID"), pages.findtext("SIZE")): pages.findtext("FREE")
        for node in monitored.iterchildren("NUMA_NODE")
        for pages in node.iterchildren("HUGEPAGE")
    }

    def corrected(node: NumaNode, pages: HugePages) -> HugePages:
        free = seen.get((str(node.id), str(pages.size_kib)))
        return replace(pages, free_pages=whole_number(free)) if free and free != str(pages.free_pages) else pages

    changed = ((node, tuple(corrected(node, pages) for pages in node.hugepages)) for node in nodes)
    return tuple(node if pages == node.hugepages else replace(node, hugepages=pages) for node, pages in changed)


def _free_disk_mib(datastores: _Element | None) -> int:
    return 0 if datastores is None else whole_number(datastores.findtext("FREE_DISK") or "0")


def _host_datastores(datastores: _Element | None) -> tuple[HostDatastore, ...]:
    spaces = (texts_of(space) for space in (datastores.iterchildren("DS") if datastores is not None else ()))
    return tuple(
        HostDatastore(
            datastore_id=whole_number(texts["ID"]),
            free_mib=whole_number(texts.get("FREE_MB") or "0"),
            total_mib=whole_number(texts.get("TOTAL_MB") or "0"),
            used_mib=whole_number(texts.get("USED_MB") or "0"),
        )
        for texts in spaces
    )
