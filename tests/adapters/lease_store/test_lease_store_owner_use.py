"""What every lease store promises about what owners have used."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore
from one_preempt.core.model.ledger import Ledger, LedgerChanges
from one_preempt.core.model.owner_use import OwnerUse
from one_preempt.core.owner_use.measuring import MOST_CPU_CENTI_S

AnyStore = SqlLeaseStore | MemoryLeaseStore
NOW_S = 1_800_000_000
ANN = OwnerUse(1, 5, "users", "ann — “Änn”", 360_000, NOW_S)
BOB = OwnerUse(1, 12, "users", "bob", MOST_CPU_CENTI_S, NOW_S)
ANN_ELSEWHERE = OwnerUse(100, 5, "astronomy", "ann — “Änn”", 1, NOW_S)


def test_nothing_was_measured_at_first(store: AnyStore) -> None:
    assert store.load(NOW_S).owner_use == ()


def test_what_was_measured_comes_back_by_group_and_user(store: AnyStore) -> None:
    store.apply(LedgerChanges(owner_use=(ANN, BOB, ANN_ELSEWHERE)))
    assert store.load(NOW_S).owner_use == (ANN, BOB, ANN_ELSEWHERE)


def test_a_measurement_takes_the_place_of_all_that_was_written_before(store: AnyStore) -> None:
    store.apply(LedgerChanges(owner_use=(ANN, BOB)))
    store.apply(LedgerChanges(owner_use=(ANN_ELSEWHERE,)))
    assert store.load(NOW_S).owner_use == (ANN_ELSEWHERE,)
    store.apply(LedgerChanges(owner_use=()))
    assert store.load(NOW_S).owner_use == ()


def test_changes_in_which_nothing_was_measured_leave_it(store: AnyStore) -> None:
    store.apply(LedgerChanges(owner_use=(ANN,)))
    store.apply(LedgerChanges(host_capacities=()))
    store.set_paused(True, NOW_S)
    assert store.load(NOW_S).owner_use == (ANN,)


def test_what_was_not_measured_for_as_long_as_logs_are_kept_is_forgotten(store: AnyStore) -> None:
    store.apply(LedgerChanges(owner_use=(ANN, BOB)))
    store.prune(NOW_S)
    assert store.load(NOW_S).owner_use == (ANN, BOB)
    store.prune(NOW_S + 1)
    assert store.load(NOW_S).owner_use == ()


def test_a_ledger_in_memory_starts_from_what_another_one_had() -> None:
    assert MemoryLeaseStore(Ledger(owner_use=(ANN,))).load(NOW_S).owner_use == (ANN,)


def test_another_process_reads_what_one_has_written(open_store: Callable[[], SqlLeaseStore]) -> None:
    daemon, command = open_store(), open_store()
    daemon.acquire_writer()
    daemon.apply(LedgerChanges(owner_use=(ANN,)))
    assert command.load(NOW_S).owner_use == (ANN,)
    daemon.apply(LedgerChanges(owner_use=(BOB,)))
    assert daemon.load(NOW_S).owner_use == command.load(NOW_S).owner_use == (BOB,)


@pytest.mark.parametrize("length", [255, 300])
def test_a_name_that_is_longer_than_any_is_cut(open_store: Callable[[], SqlLeaseStore], length: int) -> None:
    store = open_store()
    store.apply(LedgerChanges(owner_use=(OwnerUse(1, 5, "g" * length, "u", 100, NOW_S),)))
    assert store.load(NOW_S).owner_use[0].group_name == "g" * 255
