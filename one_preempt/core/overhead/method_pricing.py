"""What it costs to take the VMs of one lease off their hosts, by the method chosen for each.

=============  ============================================================================================
suspend        the suspendable model: the VM stays where it is, and nothing moves
stop           the suspendable model; where the storage is not shared, image and disks go to the front-end and back
undeploy       shutdown and boot; where the storage is not shared, the disks go to the front-end and back
migrate        the migratable model; where the storage is not shared, image and disks go to the other host
live-migrate   the memory is copied while the VM runs; where the storage is not shared, the disks too
terminate      nothing, and nothing is scheduled again
=============  ============================================================================================

A VM that its owner had paused is neither saved nor shut down for it, and starts again when its owner likes: it costs
only what travels, which is its memory image, too, where it was suspended.

A lease is priced without delta, which is paid once for a candidate set (`candidate_table.table_of`). Each VM is
priced by the rates of its own storage; those that leave by one method and at the same rates are one set of the models.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from msgspec import Struct

from one_preempt.core.model.lease import PreemptionMethod
from one_preempt.core.overhead.ccpe13 import (
    cancellable_overhead_ms,
    copy_ms,
    live_copy_ms,
    migratable_overhead_ms,
    suspendable_overhead_ms,
)
from one_preempt.core.overhead.rates import OverheadRates, RatesByStorage

_leaves_by = attrgetter("method", "datastore_id")


class LeavingVm(Struct, frozen=True):
    """One VM of a victim: how it leaves, its memory, and its disks where they are not on shared storage (MiB).

    `datastore_id` is its system datastore, None where that is not known. `at_rest`: its guest does not run.
    """

    method: PreemptionMethod
    memory_mib: int
    disk_mib: int = 0
    shared_storage: bool = True
    datastore_id: int | None = None
    at_rest: bool = False

    @property
    def moved_mib(self) -> int:
        """What travels one way when the VM is saved and moved: nothing on shared storage."""
        return 0 if self.shared_storage else self.memory_mib + self.disk_mib

    @property
    def moved_disk_mib(self) -> int:
        """What travels one way of the disks alone."""
        return 0 if self.shared_storage else self.disk_mib


class LeasePrice(Struct, frozen=True):
    """`overhead_ms`: h - delta of the lease. `reschedules`: it will have to be scheduled again, which costs delta."""

    overhead_ms: int
    reschedules: bool


def lease_price(vms: Sequence[LeavingVm], rates: RatesByStorage) -> LeasePrice:
    """The price of one lease whose VMs leave by possibly different methods, in the order in which they will."""
    sets: dict[tuple[PreemptionMethod, OverheadRates], list[LeavingVm]] = {}
    for (method, datastore_id), alike in groupby(vms, key=_leaves_by):
        sets.setdefault((method, rates.at(datastore_id)), []).extend(alike)
    overhead_ms = sum(_price_of_set(method, those, their_rates) for (method, their_rates), those in sets.items())
    return LeasePrice(overhead_ms, any(vm.method is not PreemptionMethod.TERMINATE for vm in vms))


def _price_of_set(method: PreemptionMethod, vms: Sequence[LeavingVm], rates: OverheadRates) -> int:
    """The VMs of a lease that leave by one method at the same rates; without delta."""
    memories = [vm.memory_mib for vm in vms if not vm.at_rest]
    match method:
        case PreemptionMethod.STOP:
            moves = 2 * sum(copy_ms(vm.moved_mib, rates) for vm in vms)
            return suspendable_overhead_ms(memories, rates) - rates.reschedule_ms + moves
        case PreemptionMethod.SUSPEND:
            return suspendable_overhead_ms(memories, rates) - rates.reschedule_ms
        case PreemptionMethod.UNDEPLOY:
            moves = 2 * sum(copy_ms(vm.moved_disk_mib, rates) for vm in vms)
            return len(memories) * (rates.shutdown_ms + rates.boot_ms) + moves
        case PreemptionMethod.MIGRATE:
            return migratable_overhead_ms(memories, rates, [vm.moved_mib for vm in vms]) - rates.reschedule_ms
        case PreemptionMethod.LIVE_MIGRATE:
            copies = sum(live_copy_ms(vm.memory_mib + vm.moved_disk_mib, rates) for vm in vms)
            return copies + 2 * len(vms) * rates.pause_ms
        case PreemptionMethod.TERMINATE:
            return cancellable_overhead_ms()
