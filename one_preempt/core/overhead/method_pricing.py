"""What it costs to take the VMs of one lease off their hosts, by the method chosen for each (FACTS 3.3).

=============  ============================================================================================
stop           the suspendable model; where the storage is not shared, image and disks go to the front-end and back
undeploy       shutdown and boot; where the storage is not shared, the disks go to the front-end and back
migrate        the migratable model; where the storage is not shared, image and disks go to the other host
live-migrate   the memory is copied while the VM runs; where the storage is not shared, the disks too
terminate      nothing, and nothing is scheduled again
=============  ============================================================================================

A lease is priced without delta, which is paid once for a candidate set (`ccpe13.set_overhead_ms`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from one_preempt.core.model.lease import PreemptionMethod
from one_preempt.core.overhead.ccpe13 import (
    cancellable_overhead_ms,
    copy_ms,
    migratable_overhead_ms,
    suspendable_overhead_ms,
)
from one_preempt.core.overhead.rates import OverheadRates


@dataclass(frozen=True, slots=True)
class LeavingVm:
    """One VM of a victim: how it leaves, its memory, and its disks where they are not on shared storage (MiB)."""

    method: PreemptionMethod
    memory_mib: int
    disk_mib: int = 0
    shared_storage: bool = True

    @property
    def moved_mib(self) -> int:
        """What travels one way when the VM is saved and moved: nothing on shared storage."""
        return 0 if self.shared_storage else self.memory_mib + self.disk_mib

    @property
    def moved_disk_mib(self) -> int:
        """What travels one way of the disks alone."""
        return 0 if self.shared_storage else self.disk_mib


@dataclass(frozen=True, slots=True)
class LeasePrice:
    """`overhead_ms`: h - delta of the lease. `reschedules`: it will have to be scheduled again, which costs delta."""

    overhead_ms: int
    reschedules: bool


def lease_price(vms: Sequence[LeavingVm], rates: OverheadRates) -> LeasePrice:
    """The price of one lease whose VMs leave by possibly different methods, in the order in which they will."""
    overhead_ms = sum(
        _price_of_method(method, [vm for vm in vms if vm.method is method], rates) for method in PreemptionMethod
    )
    return LeasePrice(overhead_ms, any(vm.method is not PreemptionMethod.TERMINATE for vm in vms))


def _price_of_method(method: PreemptionMethod, vms: Sequence[LeavingVm], rates: OverheadRates) -> int:
    """The VMs of a lease that leave by one method; without delta."""
    if not vms:
        return 0
    memories = [vm.memory_mib for vm in vms]
    match method:
        case PreemptionMethod.STOP:
            moves = 2 * sum(copy_ms(vm.moved_mib, rates) for vm in vms)
            return suspendable_overhead_ms(memories, rates) - rates.reschedule_ms + moves
        case PreemptionMethod.UNDEPLOY:
            moves = 2 * sum(copy_ms(vm.moved_disk_mib, rates) for vm in vms)
            return len(vms) * (rates.shutdown_ms + rates.boot_ms) + moves
        case PreemptionMethod.MIGRATE:
            return migratable_overhead_ms(memories, rates, [vm.moved_mib for vm in vms]) - rates.reschedule_ms
        case PreemptionMethod.LIVE_MIGRATE:
            copies = sum(copy_ms(vm.memory_mib + vm.moved_disk_mib, rates) for vm in vms)
            return copies + 2 * len(vms) * rates.pause_ms
        case PreemptionMethod.TERMINATE:
            return cancellable_overhead_ms()
