"""A simulated cloud that starts where a recording ends: its pools answer as the recorded ones did.

A recording here is a folder of raw pool documents, one file a call (``vmpool.infoextended.xml``,
``hostpool.info.xml``, ...). VMs that were under way when it was made stay there: no driver works on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from lxml import etree

from one_preempt.errors import OnePreemptError
from one_preempt.simulation.emulator import recorded_objects as recorded
from one_preempt.simulation.emulator.recorded_hosts import host
from one_preempt.simulation.emulator.recorded_objects import Element
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.objects import SimHost, SimVm
from one_preempt.simulation.simulated_cloud.templates import vectors_of
from one_preempt.simulation.simulated_cloud.virtual_time import VirtualClock

# The first of these that exists: with DONE VMs where there is such a file.
_VM_POOLS = ("vmpool.infoextended.state_all_including_done.xml", "vmpool.infoextended.xml")
_Thing = TypeVar("_Thing")


def recorded_cloud(folder: Path) -> SimulatedCloud:
    """The cloud of a recording. Raises `OnePreemptError` where a document is absent, broken or not what it says."""
    try:
        return _read(folder)
    except (AttributeError, KeyError, ValueError) as error:
        raise OnePreemptError(f"{folder}: a recorded document has not oned's form: {error}") from error


def _read(folder: Path) -> SimulatedCloud:
    vm_figures = {recorded.word(entry, "ID"): entry for entry in _optional(folder, "vmpool.monitoring.xml")}
    host_figures = {recorded.word(entry, "ID"): entry for entry in _optional(folder, "hostpool.monitoring.xml")}
    users, groups = _document(folder, "userpool.info.xml"), _document(folder, "grouppool.info.xml")
    vm_pool = next((name for name in _VM_POOLS if (folder / name).exists()), _VM_POOLS[-1])
    vms = {
        number: recorded.vm(element, _figures(vm_figures.get(str(number))))
        for number, element in _elements(_document(folder, vm_pool), "VM")
    }
    hosts = {
        number: host(element, host_figures.get(str(number)))
        for number, element in _elements(_document(folder, "hostpool.info.xml"), "HOST")
    }
    _charge_pinned_memory(hosts, vms)
    return SimulatedCloud(
        clock=VirtualClock(_last_instant(hosts, vms)),
        version=_version(folder),
        vms=vms,
        hosts=hosts,
        clusters=_pool(folder, "clusterpool.info.xml", "CLUSTER", recorded.cluster),
        datastores=_pool(folder, "datastorepool.info.xml", "DATASTORE", recorded.datastore),
        images=_pool(folder, "imagepool.info.xml", "IMAGE", recorded.image),
        networks=_pool(folder, "vnpool.info.xml", "VNET", recorded.network),
        vm_groups=_pool(folder, "vmgrouppool.info.xml", "VM_GROUP", recorded.vm_group),
        vm_templates=_pool(folder, "templatepool.info.xml", "VMTEMPLATE", recorded.vm_template),
        users={number: recorded.user(element, _quotas(users, number)) for number, element in _elements(users, "USER")},
        groups={
            number: recorded.group(element, _quotas(groups, number)) for number, element in _elements(groups, "GROUP")
        },
        acls=_pool(folder, "acl.info.xml", "ACL", recorded.acl),
    )


def _document(folder: Path, name: str) -> Element:
    try:
        return etree.parse(folder / name, etree.XMLParser(huge_tree=True, resolve_entities=False)).getroot()
    except OSError as error:
        raise OnePreemptError(f"{folder / name}: cannot be read; a recording needs it") from error
    except etree.XMLSyntaxError as error:
        raise OnePreemptError(f"{folder / name}: is cut or broken: {error}") from error


def _optional(folder: Path, name: str) -> list[Element]:
    return list(_document(folder, name)) if (folder / name).exists() else []


def _version(folder: Path) -> str:
    try:
        return (folder / "system.version.txt").read_text().strip()
    except OSError as error:
        raise OnePreemptError(f"{folder / 'system.version.txt'}: cannot be read; a recording needs it") from error


def _elements(root: Element, tag: str) -> Iterator[tuple[int, Element]]:
    """Pools come in descending order; the cloud keeps them ascending."""
    for element in reversed(root.findall(tag)):
        yield recorded.number(element, "ID"), element


def _pool(folder: Path, name: str, tag: str, read: Callable[[Element], _Thing]) -> dict[int, _Thing]:
    return {number: read(element) for number, element in _elements(_document(folder, name), tag)}


def _quotas(root: Element, holder: int) -> Element | None:
    return next((quotas for quotas in root.iterfind("QUOTAS") if recorded.number(quotas, "ID") == holder), None)


def _figures(element: Element | None) -> dict[str, str]:
    return {} if element is None else recorded.vector(element)


def _charge_pinned_memory(hosts: dict[int, SimHost], vms: dict[int, SimVm]) -> None:
    """A host's document says how much memory of a node is used, the VMs' say by whom."""
    for machine in hosts.values():
        nodes = {str(node.node_id): node for node in machine.share.numa_nodes}
        for vm_id in machine.vm_ids:
            for guest in vectors_of(vms[vm_id].template, "NUMA_NODE") if vm_id in vms else ():
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
