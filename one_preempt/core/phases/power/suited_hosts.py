"""The hosts that suit the VMs of a request, and how many of these VMs each of them would take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from one_preempt.core.availability.gang_demand import BoolArray
from one_preempt.core.matching.devices import assign_devices
from one_preempt.core.matching.room import Room
from one_preempt.core.matching.vm_groups import group_rules
from one_preempt.core.model.cluster_state import IntArray
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.power.power_draft import PowerDraft

_PLENTY = 1 << 40


class SuitedHosts(Struct, frozen=True):
    """The rows of hosts that suit all VMs of a request, `mask`, shape (H,), whatever CPU and memory is free there.

    `cpu_centi` and `memory_mib` are what the largest of the VMs takes. `served`: so many of them have devices and cores
    on each host together, shape (H,); None where that is no question.
    """

    mask: BoolArray
    cpu_centi: int
    memory_mib: int
    served: IntArray | None = None

    def places(self, free: IntArray) -> IntArray:
        """How many of the VMs would have room on each host, shape (H,), were so much `free`, shape (H, 2)."""
        found = np.where(self.mask, np.int64(_PLENTY), np.int64(0))
        for free_of_resource, amount in zip(free.T, (self.cpu_centi, self.memory_mib), strict=True):
            # Of what is overdrawn nobody has any, not even who wants none of it.
            most = free_of_resource // amount if amount else np.where(free_of_resource >= 0, _PLENTY, 0)
            np.minimum(found, most, out=found)
        if self.served is not None:
            np.minimum(found, self.served, out=found)
        return np.maximum(found, 0)


def suited_hosts(draft: PlanDraft, vms: Sequence[VirtualMachine]) -> SuitedHosts:
    """The hosts for these VMs; of those that sleep, only where one of them could be now but for CPU and memory.

    Of devices and cores that is there, or comes with a boot, which is free now: OpenNebula lists those of a host that
    sleeps as well. How many of VMs that differ they serve together nobody counts: such hosts suit them only when on.
    """
    mask, served = matched_rows(draft, vms), None
    are_alike = draft.matchmaker.are_alike(vms)
    if draft.power is not None and any(vm.needs_hardware for vm in (vms[:1] if are_alike else vms)):
        if are_alike or len(vms) == 1:
            served = _served_together(draft, vms, mask)
            mask = served > 0
        else:
            mask = mask & ~draft.power.asleep
    if draft.power is not None:
        mask = _without_unserved(draft, draft.power, vms[0], mask)
    return SuitedHosts(mask, max(vm.cpu_centi for vm in vms), max(vm.memory_mib for vm in vms), served)


def _without_unserved(draft: PlanDraft, power: PowerDraft, vm: VirtualMachine, mask: BoolArray) -> BoolArray:
    """The same without hosts that sleep and that it could not be on now, once they were up, or not for want of room.

    A VM group's rules and the space of datastores change as others come and go: until then no boot helps.
    """
    rules = None if vm.vm_group_id is None else group_rules(vm, draft.room)
    able = mask & power.asleep if rules is None else mask & power.asleep & rules.mask
    asleep = np.flatnonzero(mask & power.asleep).tolist()
    served = draft.matchmaker.with_store_and_networks(vm, np.flatnonzero(able).tolist(), draft.room)
    if len(served) == len(asleep):
        return mask
    mask = mask & ~power.asleep
    mask[served] = True
    return mask


def matched_rows(draft: PlanDraft, vms: Sequence[VirtualMachine]) -> BoolArray:
    """The rows of hosts that each of these VMs may be on, whatever is free there."""
    mask = last = draft.matchmaker.match(vms[0]).mask
    for vm in () if draft.matchmaker.are_alike(vms) else vms[1:]:
        of_vm = draft.matchmaker.match(vm).mask
        if of_vm is not last:
            mask, last = mask & of_vm, of_vm
    return mask


def _served_together(draft: PlanDraft, vms: Sequence[VirtualMachine], among: BoolArray) -> IntArray:
    """How many of these VMs, which nothing tells apart, have devices and cores on each host of the mask, shape (H,)."""
    hosts = draft.state.hosts.hosts
    found = np.zeros(len(among), dtype=np.int64)
    for row in np.flatnonzero(among).tolist():
        found[row] = sum(1 for _ in zip(vms, _served(draft.room, hosts[row].id, vms[0]), strict=False))
    return found


def _served(room: Room, host_id: int, vm: VirtualMachine) -> Iterator[None]:
    """Once for each VM like this one that is given devices and cores of a host, in the way in which oned gives them."""
    devices = room.free_devices(host_id) if vm.pci_requests else []
    numa = room.numa_room(host_id).copy() if vm.topology is not None else None
    while True:
        given = assign_devices(vm.pci_requests, devices)
        if given is None or (numa is not None and not numa.fits(vm)):
            return
        devices = [device for device in devices if device not in given]
        if numa is not None:
            numa.charge(vm)
        yield None
