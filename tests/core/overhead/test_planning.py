from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from one_preempt.core.model.lease import PreemptionMethod
from one_preempt.core.model.time_rules import Exclusion
from one_preempt.core.model.virtual_machine import Disk, HistoryRecord, LcmState, VirtualMachine, VmState
from one_preempt.core.overhead.learned import LearnedRates
from one_preempt.core.overhead.planning import leave_s, return_s, start_s
from one_preempt.core.overhead.rates import OverheadRates
from tests.core.matching.small_cloud import vm
from tests.scenario_reader import snapshot_of

# A VM of 1024 MiB is saved in 10 s and read back in 100 s; a lease is scheduled again in 2 s, rounded up.
MODEL = OverheadRates(
    suspend_mib_per_s=102.4, resume_mib_per_s=10.24, pause_ms=0, reschedule_ms=1500, boot_ms=7000, shutdown_ms=3000
)
RATES = LearnedRates(MODEL, MODEL)
SHARED = Exclusion.SHARED_STORAGE
OWN_DISKS = 101


def stopped(number: int) -> VirtualMachine:
    return replace(vm(number), state=VmState.STOPPED)


def on_its_way(number: int, lcm_state: LcmState) -> VirtualMachine:
    return replace(vm(number), state=VmState.ACTIVE, lcm_state=lcm_state)


def test_what_boots_boots_and_what_was_saved_is_scheduled_again_and_read_back() -> None:
    assert start_s([vm(1), vm(2)], RATES, SHARED) == 2 * 7
    assert start_s([stopped(1), stopped(2)], RATES, SHARED) == 2 * 100 + 2
    assert start_s([stopped(1), stopped(2)], RATES, Exclusion.NONE) == 100 + 2
    assert start_s([], RATES, SHARED) == 0


@pytest.mark.parametrize(("guests", "boots"), [(0, 0), (1, 1), (2, 2), (3, 2), (15, 2), (16, 3), (50, 5)])
def test_guests_boot_and_shut_down_beside_each_other(guests: int, boots: int) -> None:
    new = [vm(number) for number in range(guests)]
    running = [(on_its_way(number, LcmState.RUNNING), PreemptionMethod.UNDEPLOY) for number in range(guests)]
    assert start_s(new, RATES, SHARED) == start_s(new, RATES, Exclusion.HOST) == boots * 7
    assert return_s(running, RATES, SHARED) == boots * 7 + (2 if guests else 0)
    assert start_s(new, RATES, Exclusion.NONE) == min(boots, 1) * 7
    assert leave_s(running, RATES, SHARED) == leave_s(running, RATES, Exclusion.HOST) == boots * 3
    # Whoever is saved meanwhile takes 10 s.
    saved = (on_its_way(99, LcmState.RUNNING), PreemptionMethod.STOP)
    assert leave_s([*running, saved], RATES, SHARED) == max(10, boots * 3)


@pytest.mark.parametrize("state", [LcmState.PROLOG_RESUME, LcmState.BOOT_STOPPED, LcmState.BOOT_SUSPENDED])
def test_what_is_being_read_back_takes_as_long_as_it_was_to_take(state: LcmState) -> None:
    assert start_s([on_its_way(1, state), on_its_way(2, state)], RATES, SHARED) == 2 * 100 + 2
    # The first is there already: that does not make the whole of it shorter.
    assert start_s([on_its_way(1, LcmState.RUNNING), on_its_way(2, state)], RATES, SHARED) == 2 * 100 + 2


def test_of_those_who_leave_so_many_at_once_the_last_waits_for_its_turn() -> None:
    vms = [on_its_way(number, LcmState.RUNNING) for number in range(1, 6)]
    leaving = [(one, PreemptionMethod.STOP) for one in vms]
    assert [leave_s(leaving, RATES, Exclusion.NONE, at_once) for at_once in (1, 2, 4, 5, 8)] == [50, 30, 20, 10, 10]
    # What the storage does one after another anyway takes no longer by that.
    assert leave_s(leaving, RATES, SHARED, 2) == leave_s(leaving, RATES, SHARED) == 50
    assert leave_s([], RATES, SHARED, 2) == 0


def test_what_leaves_now_takes_the_time_of_its_return_and_not_that_of_its_leaving() -> None:
    running = [on_its_way(1, LcmState.RUNNING), on_its_way(2, LcmState.RUNNING)]
    for method in (PreemptionMethod.STOP, PreemptionMethod.SUSPEND, PreemptionMethod.MIGRATE):
        leaving = [(one, method) for one in running]
        assert leave_s(leaving, RATES, SHARED) == 2 * 10
        assert return_s(leaving, RATES, SHARED) == 2 * 100 + 2
    assert return_s([(one, PreemptionMethod.UNDEPLOY) for one in running], RATES, SHARED) == 2 * 7 + 2
    assert return_s([], RATES, SHARED) == 0


def on_own_disks(number: int, **changed: object) -> VirtualMachine:
    """On its host, with a disk of 2048 MiB, where the storage is not shared."""
    disk = Disk(0, 2048, "FILE", 1, clone=True, clone_target="SYSTEM", ln_target="", tm_mad="ssh", snapshot_total_mib=0)
    stay = HistoryRecord(0, 0, "host0", 0, OWN_DISKS, -1, 0, 0, 0, 0, 0, 0, 0)
    return replace(on_its_way(number, LcmState.RUNNING), disks=(disk,), history=(stay,), **changed)


# To copy 1024 MiB takes 4 s, 2 s while the guest runs.
COPYING = replace(MODEL, copy_mib_per_s=256, live_copy_mib_per_s=512)
COPIED = LearnedRates(COPYING, COPYING, not_shared=frozenset({OWN_DISKS}))
AS_SHARED = replace(COPIED, not_shared=frozenset())


@pytest.mark.parametrize(
    ("method", "leaves_s", "of_it_copying_s", "returns_s", "of_that_copying_s"),
    [
        (PreemptionMethod.STOP, 22, 12, 114, 12),
        (PreemptionMethod.UNDEPLOY, 11, 8, 17, 8),
        (PreemptionMethod.SUSPEND, 10, 0, 102, 0),
        (PreemptionMethod.TERMINATE, 3, 0, 2, 0),
        # What has nowhere to move is stopped.
        (PreemptionMethod.MIGRATE, 22, 12, 114, 12),
        (PreemptionMethod.LIVE_MIGRATE, 22, 12, 114, 12),
    ],
)
def test_what_lies_on_its_hosts_own_disks_is_copied_when_it_leaves_and_when_it_returns(
    method: PreemptionMethod, leaves_s: int, of_it_copying_s: int, returns_s: int, of_that_copying_s: int
) -> None:
    leaving = [(on_own_disks(1), method)]
    assert leave_s(leaving, COPIED, SHARED) == leave_s(leaving, AS_SHARED, SHARED) + of_it_copying_s == leaves_s
    assert return_s(leaving, COPIED, SHARED) == return_s(leaving, AS_SHARED, SHARED) + of_that_copying_s == returns_s


@pytest.mark.parametrize(("shared", "copying_s"), [((True, False), 0), ((False, False), 12), ((True, True), 0)])
def test_what_waits_is_copied_too_if_there_are_no_storages_but_on_hosts(shared: Sequence[bool], copying_s: int) -> None:
    stores = {number: {"shared": is_shared} for number, is_shared in enumerate(shared, OWN_DISKS)}
    snapshot = snapshot_of({"hosts": {0: {}}, "datastores": stores, "vms": {}})
    rates = replace(COPIED, not_shared=snapshot.own_disks_ids)
    waiting = [(replace(on_own_disks(1), history=()), PreemptionMethod.STOP)]
    assert leave_s(waiting, rates, SHARED) == leave_s(waiting, AS_SHARED, SHARED) + copying_s


@pytest.mark.parametrize(
    ("state", "lcm_state", "start_takes_s"),
    [
        (VmState.STOPPED, LcmState.LCM_INIT, 100 + 2 + 12),
        (VmState.ACTIVE, LcmState.PROLOG_RESUME, 100 + 2 + 12),
        (VmState.UNDEPLOYED, LcmState.LCM_INIT, 7 + 8),
        (VmState.ACTIVE, LcmState.PROLOG_UNDEPLOY, 7 + 8),
        (VmState.SUSPENDED, LcmState.LCM_INIT, 100 + 2),
        (VmState.ACTIVE, LcmState.BOOT_SUSPENDED, 100 + 2),
        (VmState.ACTIVE, LcmState.BOOT, 7),
    ],
)
def test_what_comes_back_to_its_hosts_own_disks_is_copied_there_first(
    state: VmState, lcm_state: LcmState, start_takes_s: int
) -> None:
    assert start_s([on_own_disks(1, state=state, lcm_state=lcm_state)], COPIED, SHARED) == start_takes_s
