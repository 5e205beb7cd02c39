"""What the memory adds to the contract: forgetting what is over, and views in place of copies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
from one_preempt.core.model.host import HostCapacity
from one_preempt.core.model.lease import LeaseTerms, LeaseType
from one_preempt.core.model.ledger import LeaseRecord, Ledger, LedgerChanges, Transition
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import Action, ActionKind, Plan, Reason
from one_preempt.core.model.reservation import Booking, Reservation, Verdict, VerdictGiven
from one_preempt.ports import CallResult

NOW_S = 1_800_000_000
HOUR_S = 3600
LEASE = LeaseRecord(7, LeaseTerms(LeaseType.BE_SUSPENDABLE), 5, 100, (7,), True, False, NOW_S, NOW_S)
STOP = Action("p/stop/7", ActionKind.STOP, 7, 7, Reason("VICTIM", "makes room"), preemption_id="p")
MOVE = Transition(7, 7, NOW_S, "RUNNING", "STOPPED", None, 64)


def full(keep_log: bool = True, live_views: bool = False) -> MemoryLeaseStore:
    """A store with something in every part of its ledger."""
    store = MemoryLeaseStore(keep_log=keep_log, live_views=live_views)
    store.apply(
        LedgerChanges(admitted=(LEASE,), transitions=(MOVE,), host_capacities=(HostCapacity(3, NOW_S, 1, 1, 1, 1),))
    )
    store.record_plan(Plan(NOW_S, "moml", (STOP,), bookings=(Booking(7, (Reservation(7, NOW_S, None),)),)))
    return store


def mappings(ledger: Ledger) -> list[Mapping[Any, Any]]:
    return [ledger.leases, ledger.open_actions, ledger.vm_states, ledger.host_capacities, ledger.reservations]


def write_over(store: MemoryLeaseStore) -> None:
    """Change every part of the ledger."""
    other = replace(LEASE, id=2, vm_ids=(2,))
    store.apply(
        LedgerChanges(
            admitted=(other,),
            updated=(replace(LEASE, ended_at_s=NOW_S),),
            transitions=(replace(MOVE, vm_id=2),),
            host_capacities=(HostCapacity(1, NOW_S, 1, 1, 1, 1),),
        )
    )
    store.begin_attempt(STOP, NOW_S)
    store.record_plan(Plan(NOW_S, "moml", bookings=(Booking(2, (Reservation(2, NOW_S, None),)),)))


def test_a_ledger_of_copies_stays_what_it_was() -> None:
    store = full()
    ledger = store.load(NOW_S)
    write_over(store)
    assert ledger == full().load(NOW_S)


def test_a_ledger_of_views_shows_the_present() -> None:
    store = full(live_views=True)
    ledger = store.load(NOW_S)
    write_over(store)
    assert mappings(store.load(NOW_S)) == mappings(ledger)
    assert list(ledger.host_capacities) == [1, 3]
    assert list(ledger.leases) == [2]
    assert all(mappings(ledger))


def test_what_starts_from_a_ledger_of_views_is_on_its_own() -> None:
    store = full(live_views=True)
    copy = MemoryLeaseStore(store.load(NOW_S))
    write_over(store)
    assert copy.load(NOW_S) == full().load(NOW_S)


def test_what_is_accepted_in_one_go_is_written_as_if_it_were_issued_and_answered_by_itself() -> None:
    by_itself, in_one_go = full(), full()
    by_itself.begin_attempt(STOP, NOW_S)
    by_itself.record_result(STOP.id, CallResult(Outcome.ACCEPTED), NOW_S)
    in_one_go.record_accepted([STOP], NOW_S)
    assert in_one_go.load(NOW_S).open_actions == by_itself.load(NOW_S).open_actions
    assert in_one_go.load(NOW_S).open_actions[STOP.id].attempts == 1


def test_without_a_log_nothing_is_kept_of_what_is_over() -> None:
    store = full(keep_log=False)
    store.begin_attempt(STOP, NOW_S)
    store.record_result(STOP.id, CallResult(Outcome.ACCEPTED), NOW_S)
    done = replace(store.load(NOW_S).open_actions[STOP.id], closed_at_s=NOW_S, succeeded=True)
    store.apply(LedgerChanges(updated=(replace(LEASE, ended_at_s=NOW_S),), closed_actions=(done,)))
    assert store.leases(include_ended=True) == ()
    assert store.actions() == ()
    assert store.transitions() == ()
    ledger = store.load(NOW_S)
    assert ledger.victims_last_hour == (NOW_S,)
    assert store.load(NOW_S + HOUR_S + 1) == Ledger(host_capacities=ledger.host_capacities)


def test_without_a_log_a_failure_is_remembered_as_long_as_it_counts() -> None:
    store = full(keep_log=False)
    store.begin_attempt(STOP, NOW_S)
    failed = replace(store.load(NOW_S).open_actions[STOP.id], closed_at_s=NOW_S, succeeded=False)
    store.apply(LedgerChanges(closed_actions=(failed,)))
    assert [record.attempts for record in store.load(NOW_S + HOUR_S).failed_actions] == [1]
    store.record_plan(Plan(NOW_S + HOUR_S, "moml", (STOP,)))
    assert store.load(NOW_S + HOUR_S).open_actions[STOP.id].attempts == 1
    store.apply(LedgerChanges(closed_actions=(failed,)))
    assert store.load(NOW_S + HOUR_S + 1).failed_actions == ()
    assert store.actions() == ()


def test_a_ledger_names_the_leases_that_are_not_what_they_were() -> None:
    store = full(live_views=True)
    assert store.load(NOW_S).changed_lease_ids is None
    assert store.load(NOW_S).changed_lease_ids == frozenset()
    store.begin_attempt(STOP, NOW_S)
    store.apply(LedgerChanges(admitted=(replace(LEASE, id=2, vm_ids=(2,)),), transitions=(MOVE,)))
    assert store.load(NOW_S).changed_lease_ids == frozenset({2})
    store.record_plan(Plan(NOW_S, "moml", bookings=(Booking(7, ()),), verdicts=(VerdictGiven(2, Verdict.REFUSED, ""),)))
    assert store.load(NOW_S).changed_lease_ids == frozenset({2, 7})
    store.apply(LedgerChanges(updated=(replace(LEASE, ended_at_s=NOW_S),)))
    noted = Booking(9, (Reservation(9, NOW_S, NOW_S),))
    store.record_plan(Plan(NOW_S, "moml", bookings=(noted,)))
    assert store.load(NOW_S).changed_lease_ids == frozenset({7, 9})
    store.prune(NOW_S + 1)
    assert store.load(NOW_S).changed_lease_ids == frozenset({9})


def test_leases_that_come_out_of_turn_are_read_in_the_order_of_their_ids() -> None:
    store = MemoryLeaseStore()
    for lease_id in (5, 9, 7, 1, 9, 8):
        store.apply(LedgerChanges(admitted=(replace(LEASE, id=lease_id, vm_ids=(lease_id,)),)))
        assert list(store.load(NOW_S).leases) == sorted(store.load(NOW_S).leases)
    store.apply(LedgerChanges(updated=(replace(LEASE, id=9, ended_at_s=NOW_S),)))
    store.apply(LedgerChanges(admitted=(replace(LEASE, id=6), replace(LEASE, id=10))))
    assert list(store.load(NOW_S).leases) == [1, 5, 6, 7, 8, 10]
