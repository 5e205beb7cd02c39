from __future__ import annotations

from msgspec.structs import replace

from one_preempt.core.model.lease import PreemptionMethod
from one_preempt.core.overhead.ccpe13 import migratable_overhead_ms, suspendable_overhead_ms
from one_preempt.core.overhead.method_pricing import LeasePrice, LeavingVm, lease_price
from one_preempt.core.overhead.rates import OverheadRates

RATES = OverheadRates(
    suspend_mib_per_s=0.5,
    resume_mib_per_s=1.0,
    copy_mib_per_s=0.25,
    pause_ms=5,
    reschedule_ms=2300,
    shutdown_ms=100,
    boot_ms=200,
)


def price(method: PreemptionMethod, *memories_mib: int, disk_mib: int = 0, shared_storage: bool = True) -> LeasePrice:
    vms = [LeavingVm(method, memory, disk_mib, shared_storage) for memory in memories_mib]
    return lease_price(vms, RATES)


def test_stop_on_shared_storage_is_the_suspendable_model_without_delta() -> None:
    assert price(PreemptionMethod.STOP, 1, 3, disk_mib=50) == LeasePrice(
        suspendable_overhead_ms([1, 3], RATES) - 2300, reschedules=True
    )


def test_stop_elsewhere_carries_image_and_disks_to_the_front_end_and_back() -> None:
    there_and_back = price(PreemptionMethod.STOP, 1, disk_mib=2, shared_storage=False).overhead_ms
    assert there_and_back - price(PreemptionMethod.STOP, 1).overhead_ms == 2 * 12_000


def test_undeploy_is_a_shutdown_and_a_boot_and_carries_disks_but_no_memory() -> None:
    assert price(PreemptionMethod.UNDEPLOY, 1, 3, disk_mib=2) == LeasePrice(600, reschedules=True)
    assert price(PreemptionMethod.UNDEPLOY, 1, disk_mib=2, shared_storage=False).overhead_ms == 300 + 2 * 8000


def test_what_is_paused_costs_what_travels_and_has_to_be_scheduled_again() -> None:
    off = LeavingVm(PreemptionMethod.UNDEPLOY, 1, disk_mib=2, at_rest=True)
    suspended = LeavingVm(PreemptionMethod.STOP, 1, disk_mib=2, at_rest=True)
    assert lease_price([off], RATES) == lease_price([suspended], RATES) == LeasePrice(0, reschedules=True)
    assert lease_price([replace(off, shared_storage=False)], RATES).overhead_ms == 2 * 8000
    assert lease_price([replace(suspended, shared_storage=False)], RATES).overhead_ms == 2 * 12_000
    runs = LeavingVm(PreemptionMethod.STOP, 1)
    assert lease_price([runs, suspended, off], RATES) == lease_price([runs], RATES)


def test_migrate_is_the_migratable_model_and_copies_nothing_on_shared_storage() -> None:
    assert price(PreemptionMethod.MIGRATE, 1, 3, disk_mib=2).overhead_ms == (
        migratable_overhead_ms([1, 3], RATES, [0, 0]) - 2300
    )
    assert price(PreemptionMethod.MIGRATE, 1, 3, disk_mib=2, shared_storage=False).overhead_ms == (
        migratable_overhead_ms([1, 3], RATES, [3, 5]) - 2300
    )


def test_a_live_migration_copies_the_memory_wherever_the_storage_is() -> None:
    assert price(PreemptionMethod.LIVE_MIGRATE, 1, disk_mib=2).overhead_ms == 4000 + 10
    assert price(PreemptionMethod.LIVE_MIGRATE, 1, disk_mib=2, shared_storage=False).overhead_ms == 12_000 + 10


def test_terminating_costs_nothing_and_schedules_nothing_again() -> None:
    assert price(PreemptionMethod.TERMINATE, 1024, 2048) == LeasePrice(0, reschedules=False)
    assert lease_price([], RATES) == LeasePrice(0, reschedules=False)


def test_vms_of_one_lease_may_leave_in_different_ways() -> None:
    mixed = [LeavingVm(PreemptionMethod.STOP, 1), LeavingVm(PreemptionMethod.TERMINATE, 9)]
    assert lease_price(mixed, RATES) == price(PreemptionMethod.STOP, 1)
