"""What it costs to send a lease out, by the methods that its VMs would leave by."""

from __future__ import annotations

from collections.abc import Sequence

from one_preempt.core.model.lease import PreemptionMethod
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.overhead.method_pricing import LeasePrice, LeavingVm, lease_price
from one_preempt.core.phases.draft import PlanDraft


def price_of(draft: PlanDraft, vms: Sequence[VirtualMachine], methods: Sequence[PreemptionMethod]) -> LeasePrice:
    """What it costs to send the VMs of a lease out, each by its method (CCPE13 section 5)."""
    leaving = [_leaving(draft, vm, method) for vm, method in zip(vms, methods, strict=True)]
    return lease_price(leaving, draft.rates)


def _leaving(draft: PlanDraft, vm: VirtualMachine, method: PreemptionMethod) -> LeavingVm:
    datastore = draft.state.snapshot.datastores.get(vm.history[-1].datastore_id)
    return LeavingVm(
        method=method,
        memory_mib=vm.memory_mib,
        disk_mib=sum(disk.size_mib for disk in vm.disks),
        shared_storage=datastore is None or datastore.shared,
        datastore_id=vm.history[-1].datastore_id,
        at_rest=vm.is_at_rest,
    )
