"""What is over is dropped in parts, the oldest first, none of which reads what it leaves."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.event import listen

from one_preempt.adapters.lease_store import pruning
from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore
from one_preempt.core.model.host import HostCapacity
from one_preempt.core.model.lease import LeaseTerms, LeaseType
from one_preempt.core.model.ledger import LeaseRecord, LedgerChanges, Transition

NOW_S = 1_800_000_000
LEASE = LeaseRecord(7, LeaseTerms(LeaseType.BE_SUSPENDABLE), 5, 100, (7,), True, False, NOW_S, NOW_S)
# Of these there are few rows, or they go with the last part alone.
READ_WHOLE = {"reservations", "vm_states", "observed_overheads", "power_standings", "host_power", "owner_use"}


def moved(at_s: int) -> Transition:
    return Transition(7, 7, at_s, "PENDING", "RUNNING", 3, 1024)


def test_a_long_history_goes_in_parts_and_those_of_one_second_together(
    open_store: Callable[[], SqlLeaseStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "ROWS_AT_ONCE", 2)
    store = open_store()
    instants = [NOW_S + s for s in (0, 1, 1, 1, 1, 2, 3, 100)]
    ended = tuple(LeaseRecord(i, LEASE.terms, 5, 100, (i,), True, False, 0, 0, ended_at_s=NOW_S) for i in (20, 21))
    capacity = HostCapacity(3, NOW_S, 400, 1, 400, 1)
    moves = tuple(moved(at_s) for at_s in instants)
    store.apply(LedgerChanges(admitted=(LEASE, *ended), transitions=moves, host_capacities=(capacity,)))

    def left() -> list[int]:
        return [move.observed_at_s - NOW_S for move in reversed(store.transitions())]

    assert not store.prune(NOW_S + 90, set())
    # The two leases that ended at the first instant are a part by themselves.
    assert left() == [1, 1, 1, 1, 2, 3, 100]
    assert store.leases(include_ended=True) == (LEASE,)
    assert store.load(NOW_S).host_capacities == {}
    assert not store.prune(NOW_S + 90)
    assert left() == [2, 3, 100]
    assert not store.prune(NOW_S + 90)
    assert left() == [100]
    assert store.prune(NOW_S + 90)
    assert left() == [100]


def test_no_part_reads_the_history_that_it_leaves(open_store: Callable[[], SqlLeaseStore], database: Path) -> None:
    store, said = open_store(), list[tuple[str, Any]]()
    listen(
        store._database._engine, "before_cursor_execute", lambda _, _cursor, sql, given, *_r: said.append((sql, given))
    )
    store.prune(NOW_S)
    with closing(sqlite3.connect(database)) as connection:
        read = {row[3] for sql, given in said for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", given)}
    scanned = {words.split()[1] for words in read if words.startswith("SCAN")}
    assert scanned <= READ_WHOLE | {"host_use_totals", "image_transfers"}
