"""The question "who leaves so that this request fits?" in numbers, for `core.preemption` to answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from one_preempt.core.model.lease import Lease, PreemptionMethod
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.overhead.method_pricing import LeasePrice, LeavingVm, lease_price
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.preemption.problem import PreemptableLease, PreemptionProblem
from one_preempt.core.victims import PossibleVictim


def request_problem(
    draft: PlanDraft, vms: Sequence[VirtualMachine], possible: Sequence[PossibleVictim]
) -> PreemptionProblem:
    """CPU, MiB, and one dimension for each kind of device that `vms` ask for; what is free is the draft's room."""
    table = draft.state.hosts
    needs = np.array([(vm.cpu_centi, vm.memory_mib) for vm in vms], dtype=np.int64)
    leases = []
    for victim in possible:
        members = draft.members(victim.lease)
        price = price_of(draft, victim.lease, victim.methods)
        leases.append(
            PreemptableLease(
                id=victim.lease.id,
                overhead_ms=price.overhead_ms,
                vm_count=len(members),
                host_index=np.array([table.index_by_id[vm.history[-1].host_id] for vm in members], dtype=np.int64),
                releases=np.array([(vm.cpu_centi, vm.memory_mib) for vm in members], dtype=np.int64),
                reschedules=price.reschedules,
            )
        )
    return PreemptionProblem(
        free=draft.room.free,
        needs=needs,
        allowed=np.array([draft.matchmaker.match(vm).mask for vm in vms], dtype=np.bool_),
        leases=tuple(leases),
        delta_ms=draft.policies.overhead.reschedule_ms,
    )


def price_of(draft: PlanDraft, lease: Lease, methods: Sequence[PreemptionMethod]) -> LeasePrice:
    """What it costs to send `lease` out, each VM by its method (ALGORITHMS 1.2)."""
    leaving = [_leaving(draft, vm, method) for vm, method in zip(draft.members(lease), methods, strict=True)]
    return lease_price(leaving, draft.policies.overhead)


def _leaving(draft: PlanDraft, vm: VirtualMachine, method: PreemptionMethod) -> LeavingVm:
    datastore = draft.state.snapshot.datastores.get(vm.history[-1].datastore_id)
    return LeavingVm(
        method=method,
        memory_mib=vm.memory_mib,
        disk_mib=sum(disk.size_mib for disk in vm.disks),
        shared_storage=datastore is None or datastore.shared,
    )
