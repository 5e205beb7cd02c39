"""How much of a site was used, as two papers define it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from one_preempt.simulation.probes.outcome import Outcome
from one_preempt.simulation.workload.workload import MachineSet, WorkloadRequest


def utilization(
    found: Iterable[Outcome], hosts: Sequence[MachineSet], ended_at_ms: int, until_ms: int | None = None
) -> float | None:
    """CCPE13, Equation 11: sum(v * d) over the total node time, 0 to 1; None where no time passed.

    v * d is the time in which all VMs of a lease ran, without overheads, weighted with the CPU they take, so that with
    one VM a node it is node time. `until_ms` looks at the time before it alone, else the whole simulation.
    """
    span_ms = ended_at_ms if until_ms is None else min(ended_at_ms, until_ms)
    capacity = sum(machines.count * machines.cpu_centi for machines in hosts) * span_ms
    used = sum(_cpu_centi(one.request) * _within(one, ended_at_ms, span_ms) for one in found)
    return used / capacity if capacity else None


def _cpu_centi(request: WorkloadRequest) -> int:
    return sum(vm_set.count * vm_set.cpu_centi for vm_set in request.vm_sets)


def _within(one: Outcome, ended_at_ms: int, span_ms: int) -> int:
    return sum(max(0, min(until_ms, span_ms) - from_ms) for from_ms, until_ms in one.stays_ms(ended_at_ms))


def useful_share(overhead_vm_ms: int, computation_vm_ms: int) -> float | None:
    """JPDC12, Equation 21: 1 - overhead over computation; below 0 where overheads take longer than the work."""
    return 1 - overhead_vm_ms / computation_vm_ms if computation_vm_ms else None
