"""What the recount knows of VMs and reservations beforehand, so that it need not go through all for every plan.

The books are its own: they are made from the snapshot, and kept with what is said to have changed. Nothing that a
decision remembers goes into them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Set

from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.virtual_machine import LcmState, LockLevel, VirtualMachine, VmState
from one_preempt.core.verify.suiting_hosts import SuitingHosts

_ACTIVE, _SUSPENDED = VmState.ACTIVE, VmState.SUSPENDED
_SAVING = frozenset({LcmState.SAVE_STOP, LcmState.SAVE_SUSPEND})


class Books:
    """Read by `recount` and its rules; kept by `Recounter`.

    `resting_ids` are VMs that take no part of the host that is charged for them: suspended, and nobody but us can
    resume them. Of `saving_ids` the memory is being written. `firm_lease_ids` have a firm reservation. `sources`, by
    VM id, are hosts that migrating VMs leave. `suiting` are hosts that were found to suit those who came or will come.
    """

    def __init__(self, state: ClusterState) -> None:
        """The books of one state, from scratch."""
        self.own_uid = state.snapshot.own_uid
        vms, reservations = state.snapshot.vms, state.reservations
        suspended = [vm for vm in vms.values() if vm.state is _SUSPENDED]
        self.resting_ids = {vm.id for vm in suspended if rests(vm, self.own_uid)}
        self.saving_ids = {vm.id for vm in vms.values() if is_saved(vm)}
        self.firm_lease_ids = {one for one, slots in reservations.items() if any(slot.firm for slot in slots)}
        self.sources = {vm.id: vm.source_host_id for vm in vms.values() if vm.source_host_id is not None}
        self.suiting = SuitingHosts()
        self._hosts_of: dict[int, tuple[int, ...]] | None = None
        self._guests: dict[int, set[int]] = {}

    def enter(self, state: ClusterState, vm_ids: Collection[int], lease_ids: Iterable[int]) -> None:
        """What has become of these VMs and of the reservations of these leases; all others are as they were."""
        vms, reservations = state.snapshot.vms, state.reservations
        self._enter_vms(vms, vm_ids)
        if self._hosts_of is not None:
            for vm_id in vm_ids:
                self._move(vm_id, vms.get(vm_id))
        for lease_id in lease_ids:
            if lease_id in reservations and any(one.firm for one in reservations[lease_id]):
                self.firm_lease_ids.add(lease_id)
            elif self.firm_lease_ids:
                self.firm_lease_ids.discard(lease_id)

    def _enter_vms(self, vms: Mapping[int, VirtualMachine], vm_ids: Collection[int]) -> None:
        self.resting_ids.difference_update(vm_ids)
        self.saving_ids.difference_update(vm_ids)
        for vm_id in self.sources.keys() & vm_ids if self.sources else ():
            del self.sources[vm_id]
        for vm_id in vm_ids:
            vm = vms.get(vm_id)
            if vm is None:
                continue
            if vm.state is _ACTIVE:
                if vm.lcm_state in _SAVING:
                    self.saving_ids.add(vm_id)
            elif vm.state is _SUSPENDED and rests(vm, self.own_uid):
                self.resting_ids.add(vm_id)
            if vm.source_host_id is not None:
                self.sources[vm_id] = vm.source_host_id

    def guests(self, state: ClusterState, host_id: int) -> Set[int]:
        """The VMs that oned charges a host for; looked for once somebody asks, and kept from then on."""
        if self._hosts_of is None:
            self._know_guests(state)
        return self._guests.get(host_id, frozenset())

    def differences(self, state: ClusterState) -> Iterator[str]:
        """What stands otherwise in books that are made from scratch."""
        fresh = Books(state)
        if self._hosts_of is not None:
            fresh._know_guests(state)
        for name, kept, found in (
            ("our user at oned", self.own_uid, fresh.own_uid),
            ("VMs at rest", self.resting_ids, fresh.resting_ids),
            ("VMs being saved", self.saving_ids, fresh.saving_ids),
            ("leases booked firmly", self.firm_lease_ids, fresh.firm_lease_ids),
            ("hosts that VMs leave", self.sources, fresh.sources),
            ("hosts charged for each VM", self._hosts_of, fresh._hosts_of),
        ):
            if kept != found:
                yield f"{name}: {kept} in the books, and {found} by what is observed"

    def _know_guests(self, state: ClusterState) -> None:
        self._hosts_of = {}
        for vm_id, vm in state.snapshot.vms.items():
            self._move(vm_id, vm)

    def _move(self, vm_id: int, vm: VirtualMachine | None) -> None:
        assert self._hosts_of is not None
        for host_id in self._hosts_of.pop(vm_id, ()):
            self._guests[host_id].discard(vm_id)
        if vm is not None and vm.charged_host_ids:
            self._hosts_of[vm_id] = vm.charged_host_ids
            for host_id in vm.charged_host_ids:
                self._guests.setdefault(host_id, set()).add(vm_id)


def contradictions(state: ClusterState) -> Iterator[str]:
    """Leases of a state that are not of the VMs that were observed."""
    vms, leases = state.snapshot.vms, state.leases
    members = {vm_id: lease.id for lease in leases.values() for vm_id in lease.vm_ids}
    if members != state.lease_of_vm:
        yield "the VMs of leases are not those that the leases name"
    for lease_id in sorted(leases):
        present = [vms[vm_id] for vm_id in leases[lease_id].vm_ids if vm_id in vms]
        if len(present) < len(leases[lease_id].vm_ids):
            yield f"lease {lease_id} has VMs that do not exist"
        total = leases[lease_id].total
        if (total.cpu_centi, total.memory_mib) != (
            sum(vm.cpu_centi for vm in present),
            sum(vm.memory_mib for vm in present),
        ):
            yield f"lease {lease_id} takes other amounts than its VMs"


def rests(vm: VirtualMachine, own_uid: int) -> bool:
    """Suspended, and locked by the user that we are at oned, at the level at which we lock."""
    return vm.state is _SUSPENDED and bears_our_lock(vm, own_uid)


def is_saved(vm: VirtualMachine) -> bool:
    """Its memory is being written, for it is stopped or suspended."""
    return vm.state is _ACTIVE and vm.lcm_state in _SAVING


def bears_our_lock(vm: VirtualMachine, own_uid: int) -> bool:
    """Locked by the user that we are at oned, at the level at which we lock."""
    return vm.lock_owner_uid == own_uid and vm.lock_level is LockLevel.MANAGE
