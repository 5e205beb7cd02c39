"""The database and the memory tell the same after any story; the options of the memory change nothing that lives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.adapters.lease_store import pruning
from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore
from one_preempt.core.model.host import HostCapacity
from one_preempt.core.model.image_transfer import (
    HeldImage,
    HostImages,
    ImageOrder,
    ImageOrderKind,
    TransferPhase,
    TransferRecord,
)
from one_preempt.core.model.lease import LeaseTerms, LeaseType
from one_preempt.core.model.ledger import LeaseRecord, LedgerChanges, Transition
from one_preempt.core.model.observed_overhead import ObservedOverhead, OverheadKind
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import Action, ActionKind, Plan, Preemption, PreemptionEnd, Reason
from one_preempt.core.model.power_history import HostUse, HostUseStay
from one_preempt.core.model.power_standing import PowerAttempt, PowerStanding
from one_preempt.core.model.reservation import Booking, Reservation, Verdict, VerdictGiven
from one_preempt.ports import CallResult, LeaseStore

NOW_S = 1_800_000_000
# Every commit is synced; on a disk in memory that takes no time.
MEMORY_DISK = Path("/dev/shm")
Step = Callable[[LeaseStore, int], None]

IDS = st.integers(0, 2)
STEPS_S = st.integers(0, 2000)
VM_IDS = st.integers(0, 3)
MEMBERS = st.lists(VM_IDS, max_size=3, unique=True).map(tuple)
REASON = Reason("VICTIM", "makes room")


def lease(lease_id: int, vm_ids: tuple[int, ...], ended: bool, preemptions: int) -> Step:
    def write(store: LeaseStore, now_s: int) -> None:
        terms = LeaseTerms(LeaseType.BE_SUSPENDABLE)
        record = LeaseRecord(lease_id, terms, 5, 100, vm_ids, True, False, NOW_S, NOW_S, preemptions=preemptions)
        store.apply(LedgerChanges(updated=(replace(record, ended_at_s=now_s if ended else None),)))

    return write


def moved(vm_id: int, state: str) -> Step:
    return lambda store, now_s: store.apply(
        LedgerChanges(
            transitions=(Transition(vm_id, vm_id, now_s, "RUNNING", state, None, 64),),
            host_capacities=(HostCapacity(vm_id, now_s, 100, 1, 100, 1),),
            observed_overheads=(ObservedOverhead(OverheadKind.BOOT, vm_id, 0, 64, 9, now_s),),
        )
    )


def planned(ids: list[int], lease_id: int, ends: bool) -> Step:
    def write(store: LeaseStore, now_s: int) -> None:
        actions = tuple(
            Action(f"p/{i}", ActionKind.STOP, i, lease_id, replace(REASON, text=str(now_s)), preemption_id="p")
            for i in ids
        )
        preemption = Preemption(f"p{lease_id}", lease_id, (), (), "moml", 1, True, 1, now_s)
        end = PreemptionEnd(preemption.id, fulfilled=True, reason=REASON)
        opened, ended = ((), (end,)) if ends else ((preemption,), ())
        store.record_plan(Plan(now_s, "moml", actions, opened, ended))

    return write


def booked(lease_id: int, starts_s: list[int], verdict: Verdict) -> Step:
    def write(store: LeaseStore, now_s: int) -> None:
        promised = tuple(Reservation(lease_id, now_s + s, now_s + s + 60, (s,)) for s in sorted(starts_s))
        given_now = VerdictGiven(lease_id, verdict, f"said at {now_s}")
        store.record_plan(Plan(now_s, "moml", bookings=(Booking(lease_id, promised),), verdicts=(given_now,)))

    return write


def used(host_id: int, use: HostUse, load_percent: int) -> Step:
    """The host does something else from now on."""

    def write(store: LeaseStore, now_s: int) -> None:
        lasting = [stay for stay in store.lasting_host_use() if stay.host_id == host_id and stay.since_s < now_s]
        began = HostUseStay(host_id, "node", "c", use, "PEMP", now_s, None, load_percent)
        store.record_host_use((*(replace(stay, until_s=now_s) for stay in lasting), began))

    return write


def failed(host_id: int, attempt: PowerAttempt, failures: int) -> Step:
    def write(store: LeaseStore, now_s: int) -> None:
        standing = PowerStanding(f"node{host_id}", attempt, failures, now_s + 60 * failures)
        store.apply(LedgerChanges(power_standings=(standing,)))

    return write


def brought(image_id: int, host_id: int, phase: TransferPhase, there: list[int]) -> Step:
    """An order goes on, and the host is seen to hold these."""

    def write(store: LeaseStore, now_s: int) -> None:
        order = ImageOrder(ImageOrderKind.BRING, image_id, host_id, "node", 1, 9, now_s, now_s, None, (), "r", "why")
        pool = HostImages(host_id, now_s, tuple(HeldImage(one, 9, now_s) for one in sorted(there)))
        record = TransferRecord(order, phase, now_s)
        store.apply(LedgerChanges(image_transfers=(record,), held_images=(pool,)))

    return write


def pruned(age_s: int) -> Step:
    """In as many parts as it takes the database."""

    def write(store: LeaseStore, now_s: int) -> None:
        with patch.object(pruning, "ROWS_AT_ONCE", 2):
            assert any(store.prune(now_s - age_s) for _ in range(99))

    return write


def issued(action: int, outcome: Outcome) -> Step:
    def write(store: LeaseStore, now_s: int) -> None:
        stop = Action(f"p/{action}", ActionKind.STOP, action, action, REASON, preemption_id="p")
        if stop.id in store.load(now_s).open_actions:
            store.begin_attempt(stop, now_s)
            store.record_result(stop.id, CallResult(outcome, "CODE", "text"), now_s)

    return write


def closed(action: int, succeeded: bool) -> Step:
    def write(store: LeaseStore, now_s: int) -> None:
        record = store.load(now_s).open_actions.get(f"p/{action}")
        if record is not None:
            store.apply(LedgerChanges(closed_actions=(replace(record, closed_at_s=now_s, succeeded=succeeded),)))

    return write


STORIES = st.lists(
    st.tuples(
        STEPS_S,
        st.one_of(
            st.builds(lease, IDS, MEMBERS, st.booleans(), IDS),
            st.builds(moved, VM_IDS, st.sampled_from(["STOPPED", "RUNNING", "DONE"])),
            st.builds(planned, st.lists(IDS, max_size=3), IDS, st.booleans()),
            st.builds(booked, IDS, st.lists(IDS, max_size=3), st.sampled_from(Verdict)),
            st.builds(issued, IDS, st.sampled_from([Outcome.ACCEPTED, Outcome.REFUSED])),
            st.builds(closed, IDS, st.booleans()),
            st.builds(failed, IDS, st.sampled_from(PowerAttempt), IDS),
            st.builds(brought, IDS, IDS, st.sampled_from(TransferPhase), st.lists(IDS, max_size=3, unique=True)),
            st.builds(used, IDS, st.sampled_from(HostUse), st.sampled_from([0, 5])),
            st.builds(pruned, st.integers(4000, 9000)),
        ),
    ),
    min_size=12,
    max_size=32,
)


@settings(derandomize=True, deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(story=STORIES)
def test_all_stores_agree_on_any_story(story: list[tuple[int, Step]], empty_database: bytes) -> None:
    with TemporaryDirectory(dir=MEMORY_DISK if MEMORY_DISK.is_dir() else None) as folder:
        path = Path(folder, "leases.db")
        path.write_bytes(empty_database)
        database, memory = SqlLeaseStore(f"sqlite:///{path}"), MemoryLeaseStore()
        bare = MemoryLeaseStore(keep_log=False, live_views=True)
        now_s = NOW_S
        for later_s, step in story:
            now_s += later_s
            for store in (database, memory, bare):
                step(store, now_s)
        expected, remembered, living = (store.load(now_s) for store in (database, memory, bare))
        assert remembered == expected
        assert list(remembered.vm_states) == list(expected.vm_states)
        assert list(living.leases) == list(expected.leases)
        # Without a log nobody remembers the state of a VM that was no member for a while.
        assert replace(living, vm_states={}) == replace(expected, vm_states={})
        assert memory.leases(include_ended=True) == database.leases(include_ended=True)
        assert memory.actions() == database.actions()
        assert memory.transitions() == database.transitions()
        assert memory.host_use(0, now_s + 1) == bare.host_use(0, now_s + 1) == database.host_use(0, now_s + 1)
        assert memory.host_use_totals() == bare.host_use_totals() == database.host_use_totals()
        assert memory.power_standings() == bare.power_standings() == database.power_standings()
        database.close()
