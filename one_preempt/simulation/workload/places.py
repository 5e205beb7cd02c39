"""What an empty site has room for."""

from __future__ import annotations

from collections.abc import Sequence

from one_preempt.simulation.workload.workload import MachineSet, WorkloadRequest


def places_for(shape: MachineSet, hosts: Sequence[MachineSet]) -> int:
    """How many VMs of this shape, which take CPU and memory, have room together: a host may have room for several."""
    return sum(one.count * min(one.cpu_centi // shape.cpu_centi, one.memory_mib // shape.memory_mib) for one in hosts)


def can_never_run(request: WorkloadRequest, hosts: Sequence[MachineSet]) -> bool:
    """Has the site, empty, certainly no room for all VMs of a set, or for all of the request together?"""
    sets = request.vm_sets
    if any(places_for(vm_set, hosts) < vm_set.count for vm_set in sets):
        return True
    return len(sets) > 1 and any(asked > there for asked, there in zip(_amounts(sets), _amounts(hosts), strict=True))


def _amounts(machines: Sequence[MachineSet]) -> tuple[int, int]:
    return sum(one.count * one.cpu_centi for one in machines), sum(one.count * one.memory_mib for one in machines)
