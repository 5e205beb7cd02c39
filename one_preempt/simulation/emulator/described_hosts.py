"""The machines of a description."""

from __future__ import annotations

from one_preempt.errors import OnePreemptError
from one_preempt.simulation.emulator.described_infrastructure import cluster_id, template_of_version
from one_preempt.simulation.emulator.description import Description, HostEntry, NumaEntry, VectorEntry
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN, SimCore, SimHugePages, SimNumaNode, Vector
from one_preempt.simulation.simulated_cloud.states import HostStatus

_KIB_PER_MIB = 1024
_STATUSES = {"enabled": HostStatus.ENABLED, "disabled": HostStatus.DISABLED, "offline": HostStatus.OFFLINE}


def add_hosts(cloud: SimulatedCloud, description: Description) -> None:
    """Put the machines in place, monitored already.

    Raises `OnePreemptError` for an unknown cluster, a name that another has, and devices without an address.
    """
    found = description.devices.get(description.version, [])
    taken: set[str] = set()
    for entry in description.hosts:
        cluster = cluster_id(cloud, entry.cluster, f"hosts: {entry.name}")
        for name in host_names(entry):
            if name in taken:
                raise OnePreemptError(f"hosts: {name}: another host has this name")
            taken.add(name)
            machine = cloud.add_host(
                name,
                round(entry.cpu * 100),
                entry.memory_mib,
                cluster,
                template_of_version(cloud, entry),
                [_device(device) for device in found] if entry.devices else (),
                [_numa_node(entry.numa, node) for node in range(entry.numa.nodes)] if entry.numa else (),
            )
            machine.share.disks |= {"FREE_DISK": str(entry.disk_mib), "MAX_DISK": str(entry.disk_mib)}


def set_statuses(cloud: SimulatedCloud, description: Description) -> None:
    """Disable, and put offline, the hosts that shall be so. Raises `OnePreemptError` for an unknown status."""
    ids = {host.name: host.id for host in cloud.hosts.values()}
    for entry in description.hosts:
        if entry.status not in _STATUSES:
            known = ", ".join(_STATUSES)
            raise OnePreemptError(f"hosts: {entry.name}: status {entry.status!r} is none of {known}")
        for name in host_names(entry):
            if entry.status != "enabled":
                cloud.host_status(ONEADMIN, ids[name], _STATUSES[entry.status])


def host_names(entry: HostEntry) -> list[str]:
    """The names of the machines of one entry, numbered from 1. Raises `OnePreemptError` as `numbered_names`."""
    return numbered_names(entry.name, entry.count, "hosts")


def numbered_names(name: str, count: int, place: str) -> list[str]:
    """`count` names: the name itself, or with braces in it the name with the numbers 1, 2, ... in their place.

    Raises `OnePreemptError` for braces that no number fits into; `place` says whose name it is.
    """
    try:
        return [name.format(number) if "{" in name else name for number in range(1, count + 1)]
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise OnePreemptError(
            f"{place}: {name!r} has braces that no number fits into; write one pair, as in node{{}} or node{{:02}}"
        ) from error


def _device(entry: VectorEntry) -> Vector:
    """A PCI device with all that follows from its address and its three numbers."""
    device = {name: str(value) for name, value in entry.items()}
    try:
        domain, bus, slot, function = device["ADDRESS"].split(":")
        kind = ":".join(device[name] for name in ("VENDOR", "DEVICE", "CLASS"))
    except (KeyError, ValueError) as error:
        raise OnePreemptError(
            f"devices: {device} lacks ADDRESS as in '0000:02:00:0', or VENDOR, DEVICE or CLASS"
        ) from error
    return device | {
        "DOMAIN": domain,
        "BUS": bus,
        "SLOT": slot,
        "FUNCTION": function,
        "SHORT_ADDRESS": f"{bus}:{slot}.{function}",
        "TYPE": kind,
    }


def _numa_node(entry: NumaEntry, node_id: int) -> SimNumaNode:
    """Cores are numbered through all nodes, threads of a core lie one number of cores apart, as on x86 machines."""
    all_cores = entry.nodes * entry.cores_per_node
    first = node_id * entry.cores_per_node
    cores = [
        SimCore(core, {core + thread * all_cores: [] for thread in range(entry.threads_per_core)})
        for core in range(first, first + entry.cores_per_node)
    ]
    pages = [SimHugePages(size_kib, count) for size_kib, count in entry.hugepages.items()]
    nearest_first = sorted(range(entry.nodes), key=lambda other: (abs(other - node_id), other))
    distance = " ".join(map(str, nearest_first))
    memory_kib = entry.memory_mib_per_node * _KIB_PER_MIB
    return SimNumaNode(node_id, cores, pages, memory_kib, memory_distance=distance)
