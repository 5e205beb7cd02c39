"""What a VM asks of datastores in MiB, counted as oned counts it: volatile disks, clones, snapshots, memory images."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from one_preempt.core.model.virtual_machine import Disk, HistoryAction, VirtualMachine, VmState

_VOLATILE_TYPES = frozenset({"SWAP", "FS"})
_LEFT_THE_HOST = frozenset({HistoryAction.STOP, HistoryAction.UNDEPLOY, HistoryAction.UNDEPLOY_HARD})
_OUT_STATES = frozenset({VmState.STOPPED, VmState.UNDEPLOYED})


class DatastoreDemand(Struct, frozen=True):
    """Space in MiB: on the system datastore, and on image datastores by id."""

    system_mib: int
    image_mib: Mapping[int, int]


NO_DEMAND = DatastoreDemand(0, {})


def datastore_demand(vm: VirtualMachine, memory_scale: float) -> DatastoreDemand:
    """Volatile disks and disks cloned to the system datastore, with snapshots, and memory times `memory_scale`
    (MEMORY_SYSTEM_DS_SCALE; negative: not counted)."""
    system_mib = 0
    image_mib: dict[int, int] = {}
    for disk in vm.disks:
        size_mib = disk.size_mib + disk.snapshot_total_mib
        if disk.type.upper() in _VOLATILE_TYPES:
            system_mib += size_mib
        elif disk.datastore_id is not None:
            target = _target(disk)
            if target == "SYSTEM":
                system_mib += size_mib
            elif target == "SELF":
                image_mib[disk.datastore_id] = image_mib.get(disk.datastore_id, 0) + size_mib
    return DatastoreDemand(system_mib + int(vm.memory_mib * max(memory_scale, 0.0)), image_mib)


def returns_to_its_disks(vm: VirtualMachine) -> bool:
    """The VM was stopped or undeployed: its disks are on a system datastore already, and it goes back there."""
    last = vm.last_history
    if last is None:
        return False
    return vm.state in _OUT_STATES or (vm.state in (VmState.PENDING, VmState.HOLD) and last.action in _LEFT_THE_HOST)


def moves(vm: VirtualMachine) -> bool:
    """The VM is on a host: placing it is moving it, and only another host is chosen."""
    return vm.host_id is not None


def _target(disk: Disk) -> str:
    if disk.clone is None:
        return ""
    return (disk.clone_target if disk.clone else disk.ln_target).upper()
