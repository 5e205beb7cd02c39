"""In which order several VMs are placed: the largest first, for it has the fewest hosts to go to."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter, is_

from one_preempt.core.matching.room import Room
from one_preempt.core.model.plan import Placement
from one_preempt.core.model.virtual_machine import VirtualMachine

_vm_id = attrgetter("id")
_size = attrgetter("cpu_centi", "memory_mib")


def largest_first(vms: Sequence[VirtualMachine], room: Room) -> list[VirtualMachine]:
    """By the share of the largest host that a VM takes, whole numbers only; oldest first among equals."""
    if _are_equal(vms):
        return sorted(vms, key=_vm_id)
    cpu, memory = (max(1, int(amount)) for amount in room.hosts.capacity.max(axis=0, initial=1))
    return sorted(vms, key=lambda vm: (-max(vm.cpu_centi * memory, vm.memory_mib * cpu), vm.id))


def first_to_place(vms: Sequence[VirtualMachine], room: Room) -> VirtualMachine:
    """The first of them in that order."""
    return min(vms, key=_vm_id) if _are_equal(vms) else largest_first(vms, room)[0]


def in_order_of(
    vms: Sequence[VirtualMachine], ordered: Sequence[VirtualMachine], placed: Sequence[Placement]
) -> Sequence[Placement]:
    """Placements, which are of the `ordered` VMs, in the order of `vms`."""
    if all(map(is_, ordered, vms)):
        return placed
    placement_of = {placement.vm_id: placement for placement in placed}
    return [placement_of[vm.id] for vm in vms]


def _are_equal(vms: Sequence[VirtualMachine]) -> bool:
    """They need the same CPU and memory."""
    return len(set(map(_size, vms))) <= 1
