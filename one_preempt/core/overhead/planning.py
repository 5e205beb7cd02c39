"""How long it takes to get a lease onto its hosts and off them again, in whole seconds, for planning ahead.

The same rates as in the price of a preemption (CCPE13 section 5), but wall-clock time: what the storage or a host
does one after another adds up, what may run at the same time does not. Each VM takes as long as its storage does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from heapq import nlargest
from itertools import groupby

from one_preempt.core.availability.lanes import SHARED_STORAGE
from one_preempt.core.model.lease import PreemptionMethod
from one_preempt.core.model.time import MS_PER_S
from one_preempt.core.model.time_rules import Exclusion
from one_preempt.core.model.virtual_machine import LcmState, VirtualMachine, VmState
from one_preempt.core.overhead.ccpe13 import live_copy_ms
from one_preempt.core.overhead.rates import OverheadRates, RatesByStorage

_NEW = frozenset({VmState.PENDING, VmState.HOLD})
_SAVED = frozenset({VmState.STOPPED, VmState.SUSPENDED})
_READING_BACK = frozenset({LcmState.PROLOG_RESUME, LcmState.BOOT_STOPPED, LcmState.BOOT_SUSPENDED})


def start_s(vms: Sequence[VirtualMachine], rates: RatesByStorage, exclusion: Exclusion) -> int:
    """From the deployment of `vms` until the last one runs: they boot, or their memory is read back.

    Of a lease that is on its way back those that run already took their time as well.
    """
    if not [vm for vm in vms if vm.history or vm.state not in _NEW]:
        # By far the most: all that is new boots alike.
        turns = min(1, len(vms)) if exclusion is Exclusion.NONE else len(vms)
        return -(-turns * rates.at(None).boot_ms // MS_PER_S)
    is_back = bool([vm for vm in vms if vm.lcm_state in _READING_BACK])
    read = {vm.id for vm in vms if is_back or vm.state in _SAVED}
    took = [(vm, _start_ms(vm, rates.at(_datastore_id(vm)), is_read=vm.id in read)) for vm in vms]
    return _total_s(took, exclusion) + (_again_s(vms, rates) if read else 0)


def return_s(
    leaving: Iterable[tuple[VirtualMachine, PreemptionMethod]], rates: RatesByStorage, exclusion: Exclusion
) -> int:
    """The same for VMs that run and leave now, once they come back."""
    operations = [(vm, _return_ms(vm, method, rates.at(_datastore_id(vm)))) for vm, method in leaving]
    return _total_s(operations, exclusion) + _again_s([vm for vm, _ in operations], rates)


def leave_s(
    leaving: Iterable[tuple[VirtualMachine, PreemptionMethod]],
    rates: RatesByStorage,
    exclusion: Exclusion,
    at_once: int | None = None,
) -> int:
    """From the first call until the last of the VMs holds nothing on its host any more.

    `at_once`: so many of them leave together, and each later one waits for an earlier one; None: all may.
    """
    vms = list(leaving)
    lanes_s = leave_lanes_s(vms, rates, exclusion).values()
    return max(*lanes_s, 0 if at_once is None else leave_in_turns_s(vms, rates, at_once), 0)


def leave_in_turns_s(
    leaving: Sequence[tuple[VirtualMachine, PreemptionMethod]], rates: RatesByStorage, at_once: int
) -> int:
    """The same where only so many leave `at_once`, and nothing else excludes any: at most so long, in whatever order.

    0 where all of them may. Who waits for whom are rows, none of which has more VMs than there are turns.
    """
    turns = -(-len(leaving) // at_once)
    if turns <= 1:
        return 0
    took_ms = [took_ms for _, took_ms in _each_leaves_ms(leaving, rates)]
    return -(-sum(nlargest(turns, took_ms)) // MS_PER_S)


def leave_lanes_s(
    leaving: Iterable[tuple[VirtualMachine, PreemptionMethod]], rates: RatesByStorage, exclusion: Exclusion
) -> dict[int, int]:
    """The same by lane: what excludes each other, host id or SHARED_STORAGE, and for how long the VMs take it."""
    return _lanes_s(_each_leaves_ms(leaving, rates), exclusion)


def _each_leaves_ms(
    leaving: Iterable[tuple[VirtualMachine, PreemptionMethod]], rates: RatesByStorage
) -> list[tuple[VirtualMachine, int]]:
    """Each of them with how long it takes to leave: the VMs of a gang mostly take as long as each other."""
    took: list[tuple[VirtualMachine, int]] = []
    for (method, memory_mib, datastore_id), alike in groupby(leaving, _leaves_as):
        took_ms = _leave_ms(memory_mib, method, rates.at(datastore_id))
        took += [(vm, took_ms) for vm, _ in alike]
    return took


def _leaves_as(one: tuple[VirtualMachine, PreemptionMethod]) -> tuple[PreemptionMethod, int, int | None]:
    vm, method = one
    return method, vm.memory_mib, _datastore_id(vm)


def _datastore_id(vm: VirtualMachine) -> int | None:
    return vm.history[-1].datastore_id if vm.history else None


def _again_s(vms: Iterable[VirtualMachine], rates: RatesByStorage) -> int:
    """What it takes to schedule a lease once more, whatever its size: delta."""
    return max((-(-rates.at(_datastore_id(vm)).reschedule_ms // MS_PER_S) for vm in vms), default=0)


def _start_ms(vm: VirtualMachine, rates: OverheadRates, *, is_read: bool) -> int:
    return rates.pause_ms + int(vm.memory_mib * MS_PER_S / rates.resume_mib_per_s) if is_read else rates.boot_ms


def _return_ms(vm: VirtualMachine, method: PreemptionMethod, rates: OverheadRates) -> int:
    if method is PreemptionMethod.TERMINATE:
        return 0
    # What was to move and has nowhere to is stopped: planned is what takes longer.
    return _start_ms(vm, rates, is_read=method is not PreemptionMethod.UNDEPLOY)


def _leave_ms(memory_mib: int, method: PreemptionMethod, rates: OverheadRates) -> int:
    match method:
        case PreemptionMethod.SUSPEND | PreemptionMethod.STOP | PreemptionMethod.MIGRATE:
            return rates.pause_ms + int(memory_mib * MS_PER_S / rates.suspend_mib_per_s)
        case PreemptionMethod.UNDEPLOY:
            return rates.shutdown_ms
        case PreemptionMethod.LIVE_MIGRATE:
            # Where there turns out to be nowhere to move it is stopped: planned is what takes longer.
            moved_ms = live_copy_ms(memory_mib, rates) + 2 * rates.pause_ms
            return max(moved_ms, _leave_ms(memory_mib, PreemptionMethod.STOP, rates))
        case PreemptionMethod.TERMINATE:
            # That costs its owner nothing, and yet the guest is let shut down.
            return rates.shutdown_ms


def _total_s(operations: Iterable[tuple[VirtualMachine, int]], exclusion: Exclusion) -> int:
    return max(_lanes_s(operations, exclusion).values(), default=0)


def _lanes_s(operations: Iterable[tuple[VirtualMachine, int]], exclusion: Exclusion) -> dict[int, int]:
    """In each lane one after the other: on the storage that all share, or host by host; without exclusion at once."""
    lanes_ms: dict[int, int] = defaultdict(int)
    if exclusion is Exclusion.HOST:
        for vm, took_ms in operations:
            lanes_ms[vm.history[-1].host_id if vm.history else SHARED_STORAGE] += took_ms
    elif took := [took_ms for _, took_ms in operations]:
        lanes_ms[SHARED_STORAGE] = max(took) if exclusion is Exclusion.NONE else sum(took)
    return {lane: -(-took_ms // MS_PER_S) for lane, took_ms in lanes_ms.items()}
