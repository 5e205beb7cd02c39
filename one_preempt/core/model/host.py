"""A physical host as oned reports it: its state, and what counts there as used, SUSPENDED and POWEROFF VMs too."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from operator import attrgetter

from msgspec import Struct, field

from one_preempt.core.model.resources import Resources

KIB_PER_MIB = 1024


class HostState(IntEnum):
    """HOST/STATE. The MONITORING_* values are legacy and mean "monitoring in progress"."""

    INIT = 0
    MONITORING_MONITORED = 1
    MONITORED = 2
    ERROR = 3
    DISABLED = 4
    MONITORING_ERROR = 5
    MONITORING_INIT = 6
    MONITORING_DISABLED = 7
    OFFLINE = 8


_TAKING_VMS = frozenset({HostState.MONITORED, HostState.MONITORING_MONITORED})
_IN_REACH = _TAKING_VMS | {HostState.DISABLED, HostState.MONITORING_DISABLED}


class PciDevice(Struct, frozen=True):
    """One PCI device of a host; `vm_id` is -1 while the device is free. Ids are lower-case hexadecimal."""

    address: str
    short_address: str
    vendor: str
    device: str
    device_class: str
    vm_id: int


class NumaCore(Struct, frozen=True):
    """One core: its hardware threads as (cpu id, id of the VM pinned to it or -1)."""

    id: int
    threads: tuple[tuple[int, int], ...]
    dedicated: bool


class HugePages(Struct, frozen=True):
    """Huge pages of one size on one NUMA node, in pages; `size_kib` is the size of one page."""

    size_kib: int
    pages: int
    usage_pages: int
    free_pages: int


class NumaNode(Struct, frozen=True):
    """One NUMA node; memory in KiB as oned writes it."""

    id: int
    cores: tuple[NumaCore, ...]
    hugepages: tuple[HugePages, ...]
    total_memory_kib: int
    usage_memory_kib: int
    distance: tuple[int, ...]


class HostDatastore(Struct, frozen=True):
    """Space of one datastore as seen on one host (non-shared system datastores)."""

    datastore_id: int
    free_mib: int
    total_mib: int
    used_mib: int


class Host(Struct, frozen=True):
    """One host of the pool.

    `attributes` holds every scalar element of the document as {path below HOST: values in document order},
    for example ``{"TEMPLATE/RACK": ("A",)}``; PCI devices and NUMA nodes are typed fields instead. Cluster
    template entries are under ``CLUSTER_TEMPLATE/``, the last monitoring record under ``MONITORING/``.
    `max_*` is what may be used (TOTAL - RESERVED, zero while OFFLINE), `*_usage` what oned has charged.
    """

    id: int
    name: str
    state: HostState
    cluster_id: int
    cluster_name: str
    max_cpu_centi: int
    cpu_usage_centi: int
    max_memory_kib: int
    memory_usage_kib: int
    total_cpu_centi: int
    total_memory_kib: int
    running_vms: int
    vm_ids: tuple[int, ...]
    vms_thread: int = 1
    free_disk_mib: int = 0
    datastores: tuple[HostDatastore, ...] = ()
    pci_devices: tuple[PciDevice, ...] = ()
    numa_nodes: tuple[NumaNode, ...] = ()
    vm_mad: str = ""
    im_mad: str = ""
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def capacity(self) -> Resources:
        """What VMs may use in all; memory rounded down to whole MiB."""
        return Resources(self.max_cpu_centi, self.max_memory_kib // KIB_PER_MIB)

    @property
    def free(self) -> Resources:
        """What is left by oned's accounting; negative where the host is overcommitted."""
        return Resources(*self.free_amounts)

    @property
    def free_amounts(self) -> tuple[int, int]:
        """The same as plain numbers: CPU in hundredths, MiB."""
        free_memory_kib = self.max_memory_kib - self.memory_usage_kib
        return self.max_cpu_centi - self.cpu_usage_centi, free_memory_kib // KIB_PER_MIB

    @property
    def accepts_vms(self) -> bool:
        """MONITORED, or its legacy twin: the states in which the matchmaker places VMs."""
        return self.state in _TAKING_VMS

    @property
    def lets_vms_leave(self) -> bool:
        """It answers: who is there can be saved or moved away, though perhaps nobody comes any more."""
        return self.state in _IN_REACH

    @property
    def pinned_only(self) -> bool:
        """The host takes pinned VMs only (PIN_POLICY = PINNED in its template)."""
        return self.attributes.get("TEMPLATE/PIN_POLICY", ("",))[0].upper() == "PINNED"


# All of a host that does not change because VMs come and go there. Who asks nothing about load finds the same wherever
# this is the same.
lasting_of = attrgetter(
    "name", "state", "cluster_id", "max_cpu_centi", "max_memory_kib", "total_cpu_centi", "total_memory_kib",
    "attributes",
)  # fmt: skip


class HostCapacity(Struct, frozen=True):
    """Last known capacity of a host; oned zeroes it while the host is OFFLINE (node06 in the recordings)."""

    host_id: int
    observed_at_s: int
    max_cpu_centi: int
    max_memory_kib: int
    total_cpu_centi: int
    total_memory_kib: int
