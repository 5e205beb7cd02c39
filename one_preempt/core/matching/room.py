"""What is still free while one decision is being made: hosts, devices, datastores, leases of networks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import TypeVar

import numpy as np

from one_preempt.core.matching.demands import NO_DEMAND, DatastoreDemand, datastore_demand, moves, returns_to_its_disks
from one_preempt.core.matching.devices import assign_devices
from one_preempt.core.matching.expressions.attributes import BoolArray
from one_preempt.core.matching.host_table import host_table
from one_preempt.core.matching.numa import NumaRoom
from one_preempt.core.model.cluster_state import HostTable, IntArray
from one_preempt.core.model.host import PciDevice
from one_preempt.core.model.plan import Placement
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.resources import Resources
from one_preempt.core.model.virtual_machine import VirtualMachine

_vm_id = attrgetter("vm_id")
_PLENTY = 1 << 40
Key = TypeVar("Key")
Value = TypeVar("Value")


class Room:
    """Free capacity that shrinks with every placement taken, and can be rolled back to a checkpoint.

    `free` has shape (hosts, 2), CPU in hundredths and MiB, rows as in `hosts`; it must not be written to.
    Capacity changes only by `take`, `leave` and `hold`. `waking` VMs are resumed on the hosts where they rest. Where it
    `serves_all`, there is space on all datastores, and networks have addresses, whatever was observed.
    """

    def __init__(
        self,
        snapshot: PoolSnapshot,
        hosts: HostTable | None = None,
        *,
        memory_system_ds_scale: float = 0.0,
        serves_all: bool = False,
    ) -> None:
        self.snapshot = snapshot
        self.hosts = hosts if hosts is not None else host_table(snapshot.hosts)
        self.free: IntArray = self.hosts.free.copy()
        self.dispatched: IntArray = np.zeros(len(self.hosts.ids), dtype=np.int64)
        self.placed: dict[int, Placement] = {}
        # The hosts on which room is kept for VMs that are to come.
        self.expected_on: dict[int, int] = {}
        self.gone: dict[int, int] = {}
        self.waking: set[int] = set()
        self._scale = memory_system_ds_scale
        self._serves_all = serves_all
        self._demands: dict[int, DatastoreDemand] = {}
        self._residents: dict[int, list[int]] | None = None
        # Of what something was taken; of the rest as much is left as was observed.
        self._datastore_free_mib: dict[int, int] = {}
        self._host_disk_free_mib: dict[tuple[int, int], int] = {}
        self._network_free: dict[int, int] = {}
        self._devices_taken: dict[int, frozenset[str]] = {}
        self._numa: dict[int, NumaRoom] = {}
        # What undoes each change is given the room: if it kept hold of it, no room would ever be let go of at once.
        self._journal: list[Callable[[Room], None]] = []

    # -- what is free ------------------------------------------------------------------------------------

    def hosts_for(self, cpu_centi: int, memory_mib: int) -> BoolArray:
        """The hosts, as a mask of rows, that have so much left."""
        fits: BoolArray = (self.free[:, 0] >= cpu_centi) & (self.free[:, 1] >= memory_mib)
        return fits

    def free_devices(self, host_id: int, leaving: Iterable[int] = ()) -> list[PciDevice]:
        """The devices of a host that nobody has, or only VMs that are gone or `leaving`."""
        taken = self._devices_taken.get(host_id, frozenset())
        without = {-1, *leaving}
        return [
            device
            for device in self.snapshot.hosts[host_id].pci_devices
            if (device.vm_id in without or device.vm_id in self.gone) and device.address not in taken
        ]

    def numa_room(self, host_id: int) -> NumaRoom:
        """What is left of a host's NUMA nodes; not to be changed."""
        if host_id not in self._numa:
            self._numa[host_id] = NumaRoom(self.snapshot.hosts[host_id])
        return self._numa[host_id]

    def datastore_free_mib(self, datastore_id: int) -> int:
        """Space left on a shared or image datastore, below its limit too; 0 for an unknown one."""
        known = _PLENTY if self._serves_all else self._datastore_free_mib.get(datastore_id)
        return _free_mib(self.snapshot, datastore_id) if known is None else known

    def host_disk_free_mib(self, host_id: int, datastore_id: int) -> int:
        """Space left for a datastore that is not shared, on one host's own disks."""
        known = _PLENTY if self._serves_all else self._host_disk_free_mib.get((host_id, datastore_id))
        if known is not None:
            return known
        host = self.snapshot.hosts[host_id]
        of_datastore = (disk.free_mib for disk in host.datastores if disk.datastore_id == datastore_id)
        return next(of_datastore, host.free_disk_mib)

    def free_leases(self, network_id: int) -> int:
        """Leases left in a network; 0 for an unknown one."""
        known = _PLENTY if self._serves_all else self._network_free.get(network_id)
        if known is not None:
            return known
        network = self.snapshot.networks.get(network_id)
        return 0 if network is None else network.size_leases - network.used_leases

    def demand_of(self, vm: VirtualMachine) -> DatastoreDemand:
        """What the VM asks of datastores."""
        if not vm.disks and self._scale <= 0:
            return NO_DEMAND
        if vm.id not in self._demands:
            self._demands[vm.id] = datastore_demand(vm, self._scale)
        return self._demands[vm.id]

    def rows_of(self, vm_id: int) -> Sequence[int]:
        """The rows of the hosts on which a VM is, or was placed in this decision."""
        placement = self.placed.get(vm_id)
        rows = [] if vm_id in self.gone else self.observed_rows_of(vm_id)
        return rows if placement is None else [*rows, self.hosts.index_by_id[placement.host_id]]

    def observed_rows_of(self, vm_id: int) -> Sequence[int]:
        """The rows of the hosts on which a VM was observed."""
        if self._residents is None:
            self._residents = self._observe_residents()
        return self._residents.get(vm_id, [])

    # -- changes -----------------------------------------------------------------------------------------

    def take(self, placement: Placement) -> None:
        """Charge a placement that `Matchmaker.place` found."""
        vm = self.snapshot.vms[placement.vm_id]
        self._charge(self.hosts.index_by_id[placement.host_id], vm.resources)
        self._count(self.hosts.index_by_id[placement.host_id])
        self._put(self.placed, vm.id, placement)
        if vm.pci_requests:
            given = assign_devices(vm.pci_requests, self.free_devices(placement.host_id)) or ()
            taken = self._devices_taken.get(placement.host_id, frozenset())
            self._put(self._devices_taken, placement.host_id, taken | {device.address for device in given})
        if vm.topology is not None:
            numa = self.numa_room(placement.host_id).copy()
            numa.charge(vm)
            self._put(self._numa, placement.host_id, numa)
        self._take_space(vm, placement)
        self._take_leases(placement)

    def takes_capacity_alone(self, vm: VirtualMachine) -> bool:
        """It asks for CPU and memory; for no device, NUMA node, network, or space of a datastore."""
        plain = not (vm.pci_requests or vm.nics) and vm.topology is None and self.demand_of(vm) is NO_DEMAND
        return plain and vm.cpu_centi > 0 and vm.memory_mib > 0

    def take_alike(self, vm: VirtualMachine, vms_by_row: Mapping[int, int], placements: Sequence[Placement]) -> None:
        """Charge placements of VMs that take as much capacity as `vm` does, and nothing else: so many on these rows."""
        before = self.placed.copy()
        self._charge_alike(vm, vms_by_row)
        self.placed.update(zip(map(_vm_id, placements), placements, strict=True))

        def undo(room: Room) -> None:
            room._charge_alike(vm, {row: -vms for row, vms in vms_by_row.items()})
            room.placed.clear()
            room.placed.update(before)

        self._journal.append(undo)

    def leave(self, vm_id: int) -> None:
        """Count a VM as gone from its host: capacity, devices and pinned threads come back, disk space does not."""
        row = self._row_held_by(vm_id)
        if row is None:
            return
        self._charge(row, Resources(0, 0) - self.snapshot.vms[vm_id].resources)
        host_id = int(self.hosts.ids[row])
        self._put(self.gone, vm_id, host_id)
        if self.snapshot.vms[vm_id].topology is not None:
            numa = self.numa_room(host_id).copy()
            numa.release(self.snapshot.vms[vm_id])
            self._put(self._numa, host_id, numa)

    def give_back(self, vm: VirtualMachine) -> None:
        """Count what a VM that ends leaves beside its place on its host: the space of its disks, and its addresses.

        It may have been placed in this decision.
        """
        demand, last, placed = self.demand_of(vm), vm.last_history, self.placed.get(vm.id)
        if demand is not NO_DEMAND and (last is not None or placed is not None):
            if last is not None:
                self.hold_space(last.datastore_id, last.host_id, -demand.system_mib)
            elif placed is not None and placed.datastore_id is not None:
                self.hold_space(placed.datastore_id, placed.host_id, -demand.system_mib)
            self._take_image_space({store_id: -size_mib for store_id, size_mib in demand.image_mib.items()})
        given = [nic.network_id for nic in vm.nics if nic.network_id is not None]
        given += [network_id for _, network_id in placed.nics] if placed is not None else []
        for network_id in given:
            self._put(self._network_free, network_id, self.free_leases(network_id) + 1)

    def hold(self, host_id: int, resources: Resources, device_addresses: Iterable[str] = ()) -> None:
        """Keep capacity and devices of a host back for somebody who is to come."""
        self._charge(self.hosts.index_by_id[host_id], resources)
        taken = self._devices_taken.get(host_id, frozenset())
        self._put(self._devices_taken, host_id, taken | frozenset(device_addresses))

    def reserve(
        self, placement: Placement, device_addresses: Iterable[str] = (), leaving: Iterable[VirtualMachine] = ()
    ) -> None:
        """Keep all that a VM will need at `placement` once it comes: capacity, devices, cores, disk space, leases.

        Cores may be those of VMs that are `leaving` the host.
        """
        vm = self.snapshot.vms[placement.vm_id]
        self.hold(placement.host_id, vm.resources, device_addresses)
        self._put(self.expected_on, vm.id, placement.host_id)
        if vm.topology is not None:
            numa = self.numa_room(placement.host_id).copy()
            numa.expect(vm, leaving)
            self._put(self._numa, placement.host_id, numa)
        self._take_space(vm, placement)
        self._take_leases(placement)

    def hold_space(self, datastore_id: int, host_id: int, size_mib: int) -> None:
        """Keep space on a system datastore: on its part on `host_id` where it is not shared, and the host is known."""
        store = self.snapshot.datastores.get(datastore_id)
        if store is not None and store.shared:
            self._put(self._datastore_free_mib, store.id, self.datastore_free_mib(store.id) - size_mib)
        elif store is not None and host_id in self.snapshot.hosts:
            left_mib = self.host_disk_free_mib(host_id, store.id) - size_mib
            self._put(self._host_disk_free_mib, (host_id, store.id), left_mib)

    @contextmanager
    def capped(self, ceiling: IntArray | None) -> Iterator[None]:
        """Meanwhile no more than `ceiling`, shape (hosts, 2), counts as free: the rest is promised for later."""
        if ceiling is None:
            yield
            return
        excess = np.maximum(self.free - ceiling, 0)
        self.free -= excess
        try:
            yield
        finally:
            self.free += excess

    @contextmanager
    def beside(self, resting: IntArray) -> Iterator[None]:
        """Meanwhile the room of VMs that rest on their hosts, shape (hosts, 2), counts as free though it is charged."""
        self.free += resting
        try:
            yield
        finally:
            self.free -= resting

    def checkpoint(self) -> int:
        """A mark to which `rollback` returns."""
        return len(self._journal)

    def rollback(self, mark: int) -> None:
        """Undo everything since the mark."""
        while len(self._journal) > mark:
            self._journal.pop()(self)

    # -- bookkeeping -------------------------------------------------------------------------------------

    def _observe_residents(self) -> dict[int, list[int]]:
        """Where VMs are by the hosts' own lists, and by the VMs' own records: one may be newer than the other."""
        residents: dict[int, list[int]] = {}
        for row, host_id in enumerate(self.hosts.ids.tolist()):
            for resident in self.snapshot.hosts[host_id].vm_ids:
                residents.setdefault(resident, []).append(row)
        for vm in self.snapshot.vms.values():
            own_row = None if vm.host_id is None else self.hosts.index_by_id.get(vm.host_id)
            if own_row is not None and own_row not in residents.get(vm.id, ()):
                residents.setdefault(vm.id, []).append(own_row)
        return residents

    def _row_held_by(self, vm_id: int) -> int | None:
        """The row whose capacity the VM holds, unless it was counted as gone already."""
        vm = self.snapshot.vms.get(vm_id)
        if vm is None or vm.host_id is None or vm_id in self.gone:
            return None
        return self.hosts.index_by_id.get(vm.host_id)

    def _take_space(self, vm: VirtualMachine, placement: Placement) -> None:
        demand = self.demand_of(vm)
        if demand is NO_DEMAND:
            return
        store = self.snapshot.datastores.get(-1 if placement.datastore_id is None else placement.datastore_id)
        already_there = moves(vm) or returns_to_its_disks(vm)
        if store is not None and not (store.shared and already_there):
            self.hold_space(store.id, placement.host_id, demand.system_mib)
        if already_there:
            return
        self._take_image_space(demand.image_mib)

    def _take_image_space(self, image_mib: Mapping[int, int]) -> None:
        for store_id, size_mib in image_mib.items():
            self._put(self._datastore_free_mib, store_id, self.datastore_free_mib(store_id) - size_mib)

    def _take_leases(self, placement: Placement) -> None:
        for _, network_id in placement.nics:
            self._put(self._network_free, network_id, self.free_leases(network_id) - 1)

    def _charge_alike(self, vm: VirtualMachine, vms_by_row: Mapping[int, int]) -> None:
        # A number at a time takes less time here than finding the places of some dozens for numpy.
        free, dispatched = self.free.data, self.dispatched.data
        for row, vms in vms_by_row.items():
            free[row, 0] -= vms * vm.cpu_centi
            free[row, 1] -= vms * vm.memory_mib
            dispatched[row] += vms

    def _charge(self, row: int, resources: Resources) -> None:
        amounts = _amounts(resources)
        self.free[row] -= amounts

        def undo(room: Room) -> None:
            room.free[row] += amounts

        self._journal.append(undo)

    def _count(self, row: int) -> None:
        self.dispatched[row] += 1

        def undo(room: Room) -> None:
            room.dispatched[row] -= 1

        self._journal.append(undo)

    def _put(self, table: dict[Key, Value], key: Key, value: Value) -> None:
        if key in table:
            old = table[key]
            self._journal.append(lambda _: table.__setitem__(key, old))
        else:
            self._journal.append(lambda _: table.__delitem__(key))
        table[key] = value


def _amounts(resources: Resources) -> IntArray:
    return np.array((resources.cpu_centi, resources.memory_mib), dtype=np.int64)


def _free_mib(snapshot: PoolSnapshot, datastore_id: int) -> int:
    store = snapshot.datastores.get(datastore_id)
    if store is None:
        return 0
    if store.limit_mib is None:
        return store.free_mib
    return max(0, min(store.free_mib, store.limit_mib - store.used_mib))
