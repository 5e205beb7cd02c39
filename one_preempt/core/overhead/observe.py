"""How long operations on VMs took, read off what was observed: of our own actions that are seen done, each once.

By oned's own instants where it writes them, whoever looks and when: a save ends at RETIME, a memory image is read
back from RSTIME on, a copy lasts from PSTIME to PETIME, or that to the front-end from RETIME to EETIME. Where oned
writes none, the beginning is when it took the call, and the end is when the VM was heard or seen to run. What cannot be
told sharply enough is not told.

What saves or reads memory on one storage at the same time shares it: each is put down for its share of that time,
for the models let one wait for the other (CCPE13 section 5).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from msgspec import Struct

from one_preempt.core.model.ledger import ActionRecord, Ledger
from one_preempt.core.model.observed_overhead import ObservedOverhead, OverheadKind
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import ActionKind
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.time import MS_PER_S
from one_preempt.core.model.virtual_machine import HistoryRecord, LcmState, VirtualMachine, VmState
from one_preempt.core.reconciliation.settled_actions import SettledActions
from one_preempt.core.reconciliation.watch import Watch

_RESUMED_FROM = frozenset({VmState.STOPPED.name, LcmState.PROLOG_RESUME.name, LcmState.BOOT_STOPPED.name})
_SUSPENDED_IN = frozenset({LcmState.SAVE_SUSPEND.name, VmState.SUSPENDED.name})
_WOKEN_FROM = frozenset({VmState.SUSPENDED.name, LcmState.BOOT_SUSPENDED.name})
_BOOTED_AGAIN_FROM = frozenset({VmState.UNDEPLOYED.name, LcmState.PROLOG_UNDEPLOY.name, LcmState.BOOT_UNDEPLOY.name})
_BOOTED_FROM = frozenset({LcmState.PROLOG.name, LcmState.BOOT.name})
_WAITED_IN = frozenset({VmState.PENDING.name, VmState.HOLD.name})
_DEPLOY, _ACCEPTED, _BOOT, _MIGRATE = ActionKind.DEPLOY, Outcome.ACCEPTED, OverheadKind.BOOT, OverheadKind.MIGRATE
_TIMES_OF_A_GUEST = frozenset({OverheadKind.BOOT, OverheadKind.SHUT_DOWN})


# What the memory of several VMs takes turns on: a datastore, with a host where it is not shared.
_Lane = tuple[int, int | None]


class _Stretch(Struct, frozen=True):
    """One operation on one VM that takes turns on its `lane`, until now where it is not known to have ended."""

    kind: OverheadKind
    vm_id: int
    lane: _Lane
    size_mib: int
    begin_s: int
    end_s: int


_Span = tuple[OverheadKind, _Lane, int, int]


def _span(one: _Stretch) -> _Span:
    return one.kind, one.lane, one.begin_s, one.end_s


# Kind, beginning, end; 0: not yet.
_Operation = tuple[OverheadKind, int, int | None]
# The same of a VM, begun; None: not known to have ended.
_Begun = tuple[OverheadKind, VirtualMachine, int, int | None]


def observe_overheads(
    snapshot: PoolSnapshot, ledger: Ledger, settled: SettledActions, watch: Watch
) -> tuple[ObservedOverhead, ...]:
    """What the actions teach that were just closed; to be stored with their being closed, so that none counts twice."""
    if not (settled.open or settled.closed):
        return ()
    still_open = settled.open.values()
    done = [record for record in settled.closed if record.succeeded]
    done += [one for one in still_open if _has_just_come_to_rest(one, snapshot, ledger)]
    observed: list[ObservedOverhead] = []
    shared: list[_Begun] = []
    for begun in _begun(done, snapshot, ledger, watch):
        kind, vm, begin_s, end_s = begun
        if end_s is None:
            continue
        if kind in _TIMES_OF_A_GUEST:
            datastore_id, took_s = vm.history[-1].datastore_id, end_s - begin_s
            observed.append(ObservedOverhead(kind, vm.id, datastore_id, vm.memory_mib, took_s, end_s))
        else:
            shared.append(begun)
    in_turns = list(_in_turns(shared, snapshot, watch))
    if in_turns:
        done_ids = {record.id for record in done}
        going_on = _begun([one for one in still_open if one.id not in done_ids], snapshot, ledger, watch)
        beside = [*in_turns, *_in_turns(going_on, snapshot, watch)]
        # The VMs of a gang take turns from first to last: of each such time all of them have as much.
        spans = set(map(_span, in_turns))
        before = list(_ended_before(ledger.observed_overheads, min(begin_s for _, _, begin_s, _ in spans), snapshot))
        own_s = {span: _own_s(*span, beside, before) for span in spans}
        observed += [
            ObservedOverhead(one.kind, one.vm_id, one.lane[0], one.size_mib, own_s[_span(one)], one.end_s)
            for one in in_turns
        ]
    return tuple(observed)


def _has_just_come_to_rest(record: ActionRecord, snapshot: PoolSnapshot, ledger: Ledger) -> bool:
    """Suspended in place, which stays open until it is undone: it counts once, with the VM's logged change of state."""
    if record.kind is not ActionKind.SUSPEND:
        return False
    vm = snapshot.vms.get(record.vm_id)
    is_at_rest = vm is not None and vm.state is VmState.SUSPENDED
    return is_at_rest and ledger.vm_states.get(record.vm_id) != VmState.SUSPENDED.name


def _begun(records: Iterable[ActionRecord], snapshot: PoolSnapshot, ledger: Ledger, watch: Watch) -> Iterator[_Begun]:
    """The operations that actions consist of, as far as they have begun and oned, the bus or a look tells of them."""
    vms, states_before, now_s = snapshot.vms, ledger.vm_states, watch.now_s
    for record in records:
        vm = vms.get(record.vm_id)
        if vm is None or not vm.history or record.outcome is not _ACCEPTED or not record.outcome_at_s:
            continue
        consists_of = _deployed if record.kind is _DEPLOY else _done_otherwise
        for kind, begin_s, end_s in consists_of(record, vm, vm.history[-1], states_before.get(vm.id, ""), watch):
            if begin_s:
                yield kind, vm, begin_s, end_s if end_s is not None and begin_s <= end_s <= now_s else None


def _in_turns(operations: Iterable[_Begun], snapshot: PoolSnapshot, watch: Watch) -> Iterator[_Stretch]:
    """Those of operations that share a storage, or the way to another host."""
    for kind, vm, begin_s, end_s in operations:
        shared = _is_shared(snapshot, vm.history[-1].datastore_id)
        if kind in _TIMES_OF_A_GUEST or (kind is _MIGRATE and shared):
            continue
        size_mib = vm.memory_mib
        if kind is _MIGRATE or (kind is OverheadKind.LIVE_MIGRATE and not shared):
            size_mib += sum(disk.size_mib for disk in vm.disks)
        until_s = watch.now_s if end_s is None else end_s
        yield _Stretch(kind, vm.id, _lane_of(vm, shared=shared), size_mib, begin_s, until_s)


def _ended_before(
    observed: Iterable[ObservedOverhead], since_s: int, snapshot: PoolSnapshot
) -> Iterator[tuple[OverheadKind, _Lane, int]]:
    """Kind, lane and end of what ended after `since_s`, and was put down in earlier cycles.

    Where the storage is not shared it was on the host where its VM is, or was last; of what is gone nobody knows.
    """
    for one in observed:
        if one.observed_at_s <= since_s or one.kind in _TIMES_OF_A_GUEST:
            continue
        vm = snapshot.vms.get(one.vm_id)
        if _is_shared(snapshot, one.datastore_id):
            yield one.kind, (one.datastore_id, None), one.observed_at_s
        elif vm is not None and vm.history and vm.history[-1].datastore_id == one.datastore_id:
            yield one.kind, _lane_of(vm, shared=False), one.observed_at_s


def _is_shared(snapshot: PoolSnapshot, datastore_id: int) -> bool:
    datastore = snapshot.datastores.get(datastore_id)
    return datastore is None or datastore.shared


def _lane_of(vm: VirtualMachine, *, shared: bool) -> _Lane:
    stay = vm.history[-1]
    return stay.datastore_id, None if shared else stay.host_id


def _done_otherwise(
    record: ActionRecord, vm: VirtualMachine, stay: HistoryRecord, before: str, watch: Watch
) -> Iterator[_Operation]:
    """What an accepted action other than a start did to a VM that was seen in the state `before`."""
    called_s = record.outcome_at_s or 0
    match record.kind:
        case ActionKind.STOP | ActionKind.UNDEPLOY if 0 < stay.running_end_at_s < called_s:
            # It had been paused, and was neither saved nor shut down for this.
            return
        case ActionKind.STOP:
            yield OverheadKind.SUSPEND, called_s, stay.running_end_at_s
            # Then image and disks go to the front-end, where the storage is not shared.
            yield OverheadKind.MIGRATE, stay.running_end_at_s, stay.epilog_end_at_s
        case ActionKind.SUSPEND if vm.state_name in _SUSPENDED_IN:
            yield OverheadKind.SUSPEND, called_s, stay.running_end_at_s
        case ActionKind.UNDEPLOY:
            yield OverheadKind.SHUT_DOWN, called_s, stay.running_end_at_s
        case ActionKind.LIVE_MIGRATE:
            yield OverheadKind.LIVE_MIGRATE, called_s, stay.running_start_at_s
        case ActionKind.MIGRATE if record.preemption_id is not None:
            # A victim is saved; what an administrator has rescheduled may as well be shut down for it.
            yield OverheadKind.SUSPEND, called_s, stay.prolog_start_at_s
            yield OverheadKind.MIGRATE, stay.prolog_start_at_s, stay.prolog_end_at_s
            yield OverheadKind.RESUME, stay.running_start_at_s, watch.ran_at_s(vm, stay.running_start_at_s)
        case ActionKind.RESUME if before in _WOKEN_FROM:
            yield OverheadKind.RESUME, called_s, watch.ran_at_s(vm, called_s)


def _deployed(
    _: ActionRecord, vm: VirtualMachine, stay: HistoryRecord, before: str, watch: Watch
) -> tuple[_Operation, ...]:
    """The same for a start, as by far the most actions are."""
    if before in _BOOTED_FROM or (before in _WAITED_IN and stay.sequence == 0):
        return ((_BOOT, stay.prolog_start_at_s, watch.ran_at_s(vm, stay.prolog_start_at_s)),)
    if before in _RESUMED_FROM:
        return ((OverheadKind.RESUME, stay.running_start_at_s, watch.ran_at_s(vm, stay.running_start_at_s)),)
    if before in _BOOTED_AGAIN_FROM:
        # The way back of its disks is priced as a copy.
        return ((_BOOT, stay.running_start_at_s, watch.ran_at_s(vm, stay.running_start_at_s)),)
    return ()


def _own_s(
    kind: OverheadKind,
    lane: _Lane,
    begin_s: int,
    end_s: int,
    among: Iterable[_Stretch],
    before: Iterable[tuple[OverheadKind, _Lane, int]],
) -> int:
    """The seconds of an ended operation that are its own: a time with n at work `among` all counts for an n-th.

    Of what ended `before` only the end is known; it is taken to have begun as early as this one.
    """
    spans = [(one.begin_s, one.end_s) for one in among if one.kind is kind and one.lane == lane]
    spans += [
        (begin_s, over_s)
        for over_kind, over_lane, over_s in before
        if over_s > begin_s and over_kind is kind and over_lane == lane
    ]
    instants = {at_s for span in spans for at_s in span if begin_s <= at_s <= end_s}
    own_ms = 0
    for from_s, until_s in pairwise(sorted(instants)):
        at_work = sum(first_s <= from_s and until_s <= last_s for first_s, last_s in spans)
        own_ms += (until_s - from_s) * MS_PER_S // at_work
    return (own_ms + MS_PER_S // 2) // MS_PER_S
