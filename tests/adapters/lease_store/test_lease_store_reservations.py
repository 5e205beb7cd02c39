"""What every lease store promises about the future of leases: reservations, verdicts, time served, overheads."""

from __future__ import annotations

from msgspec.structs import replace

from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore
from one_preempt.core.model.lease import LeaseTerms, LeaseType
from one_preempt.core.model.ledger import LeaseRecord, Ledger, LedgerChanges
from one_preempt.core.model.observed_overhead import ObservedOverhead, OverheadKind
from one_preempt.core.model.plan import Plan
from one_preempt.core.model.reservation import Booking, Reservation, Verdict, VerdictGiven

AnyStore = SqlLeaseStore | MemoryLeaseStore
NOW_S = 1_800_000_000
HOUR_S = 3600

LEASE = LeaseRecord(7, LeaseTerms(LeaseType.BE_SUSPENDABLE, at_once=True), 5, 100, (7, 9), True, False, NOW_S, NOW_S)
FIRST = Reservation(7, NOW_S + 60, NOW_S + 3660, (3, 4), firm=True)
SECOND = Reservation(7, NOW_S + 7200, None)
OF_ANOTHER = Reservation(3, NOW_S + 10, NOW_S + 20)
TOOK = ObservedOverhead(OverheadKind.SUSPEND, 7, 100, 4096, 31, NOW_S)


def booked(*bookings: Booking) -> Plan:
    return Plan(made_at_s=NOW_S, policy="moml", bookings=bookings)


def said(lease_id: int, verdict: Verdict, text: str) -> Plan:
    return Plan(made_at_s=NOW_S, policy="moml", verdicts=(VerdictGiven(lease_id, verdict, text),))


def test_what_a_lease_was_told_and_served_comes_back_as_it_was(store: AnyStore) -> None:
    told = replace(
        LEASE, verdict=Verdict.CONVERTED, verdict_text="it waits — “best effort”", served_s=90, run_began_at_s=NOW_S
    )
    store.apply(LedgerChanges(admitted=(told,)))
    assert store.load(NOW_S).leases == {7: told}
    assert store.leases() == (told,)


def test_bookings_come_back_by_lease_and_in_the_order_of_time(store: AnyStore) -> None:
    store.record_plan(booked(Booking(7, (FIRST, SECOND)), Booking(3, (OF_ANOTHER,))))
    reservations = store.load(NOW_S).reservations
    assert reservations == {7: (FIRST, SECOND), 3: (OF_ANOTHER,)}
    assert list(reservations) == [3, 7]


def test_a_booking_replaces_all_reservations_of_its_lease_and_of_no_other(store: AnyStore) -> None:
    store.record_plan(booked(Booking(7, (FIRST, SECOND)), Booking(3, (OF_ANOTHER,))))
    moved = replace(SECOND, start_at_s=NOW_S + 9000, host_ids=(1,))
    store.record_plan(booked(Booking(7, (moved,))))
    assert store.load(NOW_S).reservations == {7: (moved,), 3: (OF_ANOTHER,)}
    store.record_plan(booked(Booking(7)))
    assert store.load(NOW_S).reservations == {3: (OF_ANOTHER,)}


def test_of_two_bookings_of_a_lease_in_one_plan_the_last_counts(store: AnyStore) -> None:
    store.record_plan(booked(Booking(7, (FIRST, SECOND)), Booking(7, (SECOND,))))
    assert store.load(NOW_S).reservations == {7: (SECOND,)}


def test_thousands_of_bookings_are_kept_and_may_all_move(store: AnyStore) -> None:
    for shift_s in (0, 60):
        plan = booked(*(Booking(i, (Reservation(i, NOW_S + i + shift_s, None),)) for i in range(1200)))
        store.record_plan(plan)
        assert store.load(NOW_S).reservations == {one.lease_id: one.reservations for one in plan.bookings}


def test_a_lease_keeps_its_reservations_when_its_record_is_written_again(store: AnyStore) -> None:
    store.apply(LedgerChanges(admitted=(LEASE,)))
    store.record_plan(booked(Booking(7, (FIRST,))))
    store.apply(LedgerChanges(updated=(replace(LEASE, preemptions=1, vm_ids=(7,)),)))
    assert store.load(NOW_S).reservations == {7: (FIRST,)}


def test_reservations_end_with_their_lease(store: AnyStore) -> None:
    store.apply(LedgerChanges(admitted=(LEASE,)))
    store.record_plan(booked(Booking(7, (FIRST, SECOND)), Booking(3, (OF_ANOTHER,))))
    store.apply(LedgerChanges(updated=(replace(LEASE, ended_at_s=NOW_S),)))
    assert store.load(NOW_S).reservations == {3: (OF_ANOTHER,)}


def test_who_is_admitted_under_an_id_that_was_another_s_has_nothing_of_it(store: AnyStore) -> None:
    store.apply(LedgerChanges(admitted=(LEASE,)))
    store.record_plan(booked(Booking(7, (FIRST, SECOND)), Booking(3, (OF_ANOTHER,))))
    new = replace(LEASE, vm_ids=(7,), arrived_at_s=NOW_S + 9, admitted_at_s=NOW_S + 10)
    store.apply(LedgerChanges(admitted=(new,), ended_before=(replace(LEASE, ended_at_s=NOW_S + 10),)))
    ledger = store.load(NOW_S)
    assert ledger.leases == {7: new}
    assert ledger.reservations == {3: (OF_ANOTHER,)}


def test_pruning_takes_no_reservation_of_a_live_lease(store: AnyStore) -> None:
    store.apply(LedgerChanges(admitted=(LEASE,)))
    open_ended = Reservation(4, NOW_S, None)
    store.record_plan(booked(Booking(7, (FIRST,)), Booking(3, (OF_ANOTHER,)), Booking(4, (open_ended,))))
    store.prune(NOW_S + 24 * HOUR_S)
    assert store.load(NOW_S).reservations == {7: (FIRST,), 4: (open_ended,)}


def test_a_verdict_is_written_into_the_record_of_its_lease(store: AnyStore) -> None:
    store.apply(LedgerChanges(admitted=(LEASE, replace(LEASE, id=3, vm_ids=(3,)))))
    store.record_plan(said(7, Verdict.REFUSED, "no room before the deadline"))
    leases = store.load(NOW_S).leases
    assert leases[7] == replace(LEASE, verdict=Verdict.REFUSED, verdict_text="no room before the deadline")
    assert leases[3].verdict is Verdict.NONE


def test_a_verdict_on_a_lease_that_nobody_recorded_is_passed_over(store: AnyStore) -> None:
    store.record_plan(said(99, Verdict.ACCEPTED, "starts in a minute"))
    assert store.load(NOW_S) == Ledger()


def test_observed_overheads_come_back_oldest_first(store: AnyStore) -> None:
    later = replace(TOOK, kind=OverheadKind.BOOT, vm_id=8, took_s=4)
    store.apply(LedgerChanges(observed_overheads=(TOOK,)))
    store.apply(LedgerChanges(observed_overheads=(later,)))
    assert store.load(NOW_S).observed_overheads == (TOOK, later)


def test_of_each_kind_and_datastore_the_latest_64_observations_stay(store: AnyStore) -> None:
    many = tuple(replace(TOOK, took_s=number) for number in range(100))
    elsewhere = replace(TOOK, datastore_id=101)
    of_another_kind = replace(TOOK, kind=OverheadKind.RESUME)
    store.apply(LedgerChanges(observed_overheads=(elsewhere, of_another_kind, *many[:70])))
    store.apply(LedgerChanges(observed_overheads=many[70:]))
    assert store.load(NOW_S).observed_overheads == (elsewhere, of_another_kind, *many[36:])


def test_pruning_forgets_old_observations(store: AnyStore) -> None:
    later = replace(TOOK, observed_at_s=NOW_S + 100)
    store.apply(LedgerChanges(observed_overheads=(TOOK, later)))
    store.prune(NOW_S + 100)
    assert store.load(NOW_S).observed_overheads == (later,)


def test_a_memory_store_starts_with_the_future_a_ledger_holds(store: AnyStore) -> None:
    store.apply(LedgerChanges(admitted=(LEASE,), observed_overheads=(TOOK,)))
    store.record_plan(booked(Booking(7, (FIRST, SECOND))))
    ledger = store.load(NOW_S)
    assert ledger.reservations
    assert ledger.observed_overheads
    assert MemoryLeaseStore(ledger).load(NOW_S) == ledger
