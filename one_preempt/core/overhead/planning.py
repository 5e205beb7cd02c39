"""How long it takes to get a lease onto its hosts and off them again, in whole seconds, for planning ahead.

The same rates as in the price of a preemption (CCPE13 section 5), but wall-clock time: what the storage or a host
does one after another adds up, what may run at the same time does not. Each VM takes as long as its storage does.

Guests boot and shut down beside each other, as many as oned's drivers take at once. How long each of a gang takes has
its waiting for the others in it once it is learned: even if they booted one after another, the last of them would run
after twice the time of the middle one, which is what is learned.

oned charges a host for a VM until all of it is gone. Where the storage is not shared a VM that is stopped or undeployed
takes its memory image and its disks along, to the front-end and back, and one that is moved takes them to its new host.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from heapq import nlargest
from itertools import groupby

from one_preempt.core.availability.lanes import SHARED_STORAGE
from one_preempt.core.model.lease import PreemptionMethod
from one_preempt.core.model.time import MS_PER_S
from one_preempt.core.model.time_rules import Exclusion
from one_preempt.core.model.virtual_machine import Disk, LcmState, VirtualMachine, VmState
from one_preempt.core.overhead.ccpe13 import copy_ms, live_copy_ms
from one_preempt.core.overhead.rates import OverheadRates, RatesByStorage

# So many operations run at once in oned's drivers as they are shipped.
DRIVERS_TAKE_AT_ONCE = 15
# A VM that leaves its host, and how.
Leaver = tuple[VirtualMachine, PreemptionMethod]

_STOP, _TERMINATE, _UNDEPLOY = PreemptionMethod.STOP, PreemptionMethod.TERMINATE, PreemptionMethod.UNDEPLOY
_NEW = frozenset({VmState.PENDING, VmState.HOLD})
_SAVED = frozenset({VmState.STOPPED, VmState.SUSPENDED})
_READING_BACK = frozenset({LcmState.PROLOG_RESUME, LcmState.BOOT_STOPPED, LcmState.BOOT_SUSPENDED})
_BOOTING_AGAIN = frozenset({LcmState.PROLOG_UNDEPLOY, LcmState.BOOT_UNDEPLOY})


def start_s(vms: Sequence[VirtualMachine], rates: RatesByStorage, exclusion: Exclusion) -> int:
    """From the deployment of `vms` until the last one runs: they boot, or their memory is read back.

    Of a lease that is on its way back those that run already took their time as well.
    """
    if not [vm for vm in vms if vm.history or vm.state not in _NEW]:
        # By far the most: all that is new boots alike.
        return _together_s([rates.at(None).boot_ms] * len(vms), exclusion)
    is_back = bool([vm for vm in vms if vm.lcm_state in _READING_BACK])
    read = {vm.id for vm in vms if is_back or vm.state in _SAVED}
    took = [(vm, _start_ms(vm, rates, is_read=vm.id in read, copied_mib=_copied_back_mib(vm, read))) for vm in vms]
    booted_ms = [rates.at(_datastore_id(vm)).boot_ms for vm in vms if vm.id not in read]
    return _total_s(took, exclusion) + _together_s(booted_ms, exclusion) + (_again_s(vms, rates) if read else 0)


def return_s(leaving: Iterable[Leaver], rates: RatesByStorage, exclusion: Exclusion) -> int:
    """The same for VMs that run and leave now, once they come back."""
    vms = list(leaving)
    took = [(vm, _return_ms(vm, method, rates)) for vm, method in vms]
    booted_ms = [rates.at(_datastore_id(vm)).boot_ms for vm, method in vms if method is _UNDEPLOY]
    return _total_s(took, exclusion) + _together_s(booted_ms, exclusion) + _again_s([vm for vm, _ in vms], rates)


def leave_s(
    leaving: Iterable[Leaver],
    rates: RatesByStorage,
    exclusion: Exclusion,
    at_once: int | None = None,
) -> int:
    """From the first call until the last of the VMs holds nothing on its host any more.

    `at_once`: so many of them leave together, and each later one waits for an earlier one; None: all may.
    """
    vms = list(leaving)
    lanes_s, shutdowns_s = leave_lanes_s(vms, rates, exclusion).values(), shut_down_s(vms, rates, exclusion)
    return max(*lanes_s, shutdowns_s, 0 if at_once is None else leave_in_turns_s(vms, rates, at_once))


def leave_in_turns_s(leaving: Sequence[Leaver], rates: RatesByStorage, at_once: int) -> int:
    """The same where only so many leave `at_once`, and nothing else excludes any: at most so long, in whatever order.

    0 where all of them may. Who waits for whom are rows, none of which has more VMs than there are turns.
    """
    turns = -(-len(leaving) // at_once)
    if turns <= 1:
        return 0
    took_ms = [took_ms for _, took_ms in _each_leaves_ms(leaving, rates)]
    return -(-sum(nlargest(turns, took_ms)) // MS_PER_S)


def leave_lanes_s(
    leaving: Iterable[Leaver], rates: RatesByStorage, exclusion: Exclusion, *, with_shutdowns: bool = False
) -> dict[int, int]:
    """The same by lane: what excludes each other, host id or SHARED_STORAGE, and for how long the VMs take it.

    Those that only shut down take none, unless all leave one by one.
    """
    # Most have their memory saved: of those nothing more is asked.
    taking = [one for one in leaving if with_shutdowns or one[1] is _STOP or not _only_shuts_down(one, rates)]
    return _lanes_s(_each_leaves_ms(taking, rates), exclusion)


def shut_down_s(leaving: Iterable[Leaver], rates: RatesByStorage, exclusion: Exclusion) -> int:
    """How long those who only shut down take, beside all who are saved."""
    guests = [(vm, method) for vm, method in leaving if _only_shuts_down((vm, method), rates)]
    return _together_s([took_ms for _, took_ms in _each_leaves_ms(guests, rates)], exclusion)


def _only_shuts_down(one: Leaver, rates: RatesByStorage) -> bool:
    vm, method = one
    return method is _TERMINATE or (method is _UNDEPLOY and rates.is_shared(_datastore_id(vm)))


def _each_leaves_ms(leaving: Iterable[Leaver], rates: RatesByStorage) -> list[tuple[VirtualMachine, int]]:
    """Each of them with how long it takes to leave: the VMs of a gang mostly take as long as each other."""
    took: list[tuple[VirtualMachine, int]] = []
    for (method, memory_mib, disks, datastore_id), alike in groupby(leaving, _leaves_as):
        disks_mib = None if rates.is_shared(datastore_id) else _size_mib(disks)
        took_ms = _leave_ms(memory_mib, disks_mib, method, rates.at(datastore_id))
        took += [(vm, took_ms) for vm, _ in alike]
    return took


def _leaves_as(one: Leaver) -> tuple[PreemptionMethod, int, tuple[Disk, ...], int | None]:
    vm, method = one
    return method, vm.memory_mib, vm.disks, _datastore_id(vm)


def _size_mib(disks: Iterable[Disk]) -> int:
    return sum([disk.size_mib for disk in disks])


def _datastore_id(vm: VirtualMachine) -> int | None:
    return vm.history[-1].datastore_id if vm.history else None


def _again_s(vms: Iterable[VirtualMachine], rates: RatesByStorage) -> int:
    """What it takes to schedule a lease once more, whatever its size: delta."""
    return max((-(-rates.at(_datastore_id(vm)).reschedule_ms // MS_PER_S) for vm in vms), default=0)


def _copied_back_mib(vm: VirtualMachine, read: Collection[int]) -> int:
    """What travels with a VM that comes back from elsewhere; nothing with what rests on its host, or is new."""
    if vm.state is VmState.SUSPENDED or vm.lcm_state is LcmState.BOOT_SUSPENDED:
        return 0
    if vm.id in read:
        return vm.memory_mib + _size_mib(vm.disks)
    is_undeployed = vm.state is VmState.UNDEPLOYED or vm.lcm_state in _BOOTING_AGAIN
    return _size_mib(vm.disks) if is_undeployed else 0


def _together_s(took_ms: Sequence[int], exclusion: Exclusion) -> int:
    """Until the last of several guests has booted or shut down, each of which takes so long with its waiting."""
    turns = min(len(took_ms), 1 if exclusion is Exclusion.NONE else 1 - (-len(took_ms) // DRIVERS_TAKE_AT_ONCE))
    return -(-turns * max(took_ms, default=0) // MS_PER_S)


def _start_ms(vm: VirtualMachine, rates: RatesByStorage, *, is_read: bool, copied_mib: int) -> int:
    """Before it boots, or until it runs again: `copied_mib` are copied to its host, unless its storage is shared."""
    datastore_id = _datastore_id(vm)
    its_rates = rates.at(datastore_id)
    read_ms = its_rates.pause_ms + int(vm.memory_mib * MS_PER_S / its_rates.resume_mib_per_s) if is_read else 0
    return read_ms if rates.is_shared(datastore_id) else read_ms + copy_ms(copied_mib, its_rates)


def _return_ms(vm: VirtualMachine, method: PreemptionMethod, rates: RatesByStorage) -> int:
    # What was to move and has nowhere to is stopped: planned is what takes longer.
    match method:
        case PreemptionMethod.TERMINATE:
            return 0
        case PreemptionMethod.UNDEPLOY:
            return _start_ms(vm, rates, is_read=False, copied_mib=_size_mib(vm.disks))
        case PreemptionMethod.SUSPEND:
            return _start_ms(vm, rates, is_read=True, copied_mib=0)
        case _:
            return _start_ms(vm, rates, is_read=True, copied_mib=vm.memory_mib + _size_mib(vm.disks))


def _leave_ms(memory_mib: int, disks_mib: int | None, method: PreemptionMethod, rates: OverheadRates) -> int:
    """`disks_mib` are to be copied with what is saved; None: its storage is shared, and nothing is."""
    saved_ms = rates.pause_ms + int(memory_mib * MS_PER_S / rates.suspend_mib_per_s)
    stopped_ms = saved_ms if disks_mib is None else saved_ms + copy_ms(memory_mib + disks_mib, rates)
    match method:
        case PreemptionMethod.SUSPEND:
            return saved_ms
        case PreemptionMethod.STOP | PreemptionMethod.MIGRATE:
            # A host is free of what moves once it is saved; but where there is nowhere to move it is stopped.
            return stopped_ms
        case PreemptionMethod.UNDEPLOY:
            return rates.shutdown_ms + (0 if disks_mib is None else copy_ms(disks_mib, rates))
        case PreemptionMethod.LIVE_MIGRATE:
            # Where there turns out to be nowhere to move it is stopped: planned is what takes longer.
            return max(live_copy_ms(memory_mib + (disks_mib or 0), rates) + 2 * rates.pause_ms, stopped_ms)
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
