"""What every lease store promises about the history of what hosts do."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore
from one_preempt.core.model.power_history import HostUse, HostUseStay, HostUseTotal

AnyStore = SqlLeaseStore | MemoryLeaseStore
NOW_S = 1_800_000_000
ON = HostUseStay(4, "node-4", "rack “A”", HostUse.ON, "look-ahead", NOW_S, load_percent=35)
OFF = HostUseStay(4, "node-4", "rack “A”", HostUse.OFF, "look-ahead", NOW_S + 100)
OF_ANOTHER = HostUseStay(2, "node-2", "rack “A”", HostUse.FAILED, "", NOW_S - 50)
ENDED = replace(ON, until_s=OFF.since_s)


def test_stays_come_back_as_they_were_by_host_and_beginning(store: AnyStore) -> None:
    store.record_host_use((ON, OF_ANOTHER))
    store.record_host_use((ENDED, OFF))
    assert store.lasting_host_use() == (OF_ANOTHER, OFF)
    assert store.host_use(NOW_S, NOW_S + 101) == (OF_ANOTHER, ENDED, OFF)


def test_only_stays_that_have_a_part_between_the_instants_are_told(store: AnyStore) -> None:
    store.record_host_use((ENDED, OFF))
    assert store.host_use(NOW_S - 9, NOW_S) == ()
    assert store.host_use(NOW_S, NOW_S + 1) == (ENDED,)
    assert store.host_use(NOW_S + 99, NOW_S + 100) == (ENDED,)
    assert store.host_use(NOW_S + 100, NOW_S + 101) == (OFF,)


def test_what_begins_at_the_same_instant_is_written_over(store: AnyStore) -> None:
    store.record_host_use((ON,))
    store.record_host_use((replace(OFF, since_s=NOW_S),))
    assert store.host_use(0, NOW_S + 1) == (replace(OFF, since_s=NOW_S),)


def test_pruning_adds_up_what_has_ended_and_keeps_what_lasts(store: AnyStore) -> None:
    again = replace(ON, host_name="renamed", since_s=NOW_S + 500, until_s=NOW_S + 560)
    late = replace(ON, since_s=NOW_S + 900, until_s=NOW_S + 1000)
    store.record_host_use((ENDED, replace(OFF, until_s=NOW_S + 500), again, late, OF_ANOTHER))
    store.prune(NOW_S + 500)
    first = HostUseTotal(4, "node-4", "rack “A”", HostUse.ON, "look-ahead", 35, 1, 100, NOW_S, NOW_S + 100)
    assert store.host_use_totals() == (first,)
    store.prune(NOW_S + 1000)
    assert store.host_use(0, NOW_S + 5000) == (OF_ANOTHER, late)
    assert store.host_use_totals() == (
        HostUseTotal(4, "node-4", "rack “A”", HostUse.OFF, "look-ahead", 0, 1, 400, NOW_S + 100, NOW_S + 500),
        replace(first, host_name="renamed", stays=2, lasted_s=160, last_s=NOW_S + 560),
    )
    store.prune(NOW_S + 1001)
    assert [total.lasted_s for total in store.host_use_totals()] == [400, 260]
    assert store.host_use(0, NOW_S + 5000) == store.lasting_host_use() == (OF_ANOTHER,)


def test_totals_are_kept_apart_by_policy_and_load(store: AnyStore) -> None:
    ended = [replace(ENDED, since_s=NOW_S + i, policy=policy, load_percent=load)
             for i, (policy, load) in enumerate([("", 35), ("PEMP", 35), ("PEMP", 40), ("PEMP", 35)])]  # fmt: skip
    store.record_host_use(ended)
    store.prune(NOW_S + 101)
    assert [(total.policy, total.load_percent, total.stays) for total in store.host_use_totals()] == [
        ("", 35, 1), ("PEMP", 35, 2), ("PEMP", 40, 1),
    ]  # fmt: skip


def test_a_daemon_that_comes_back_finds_what_lasts(url: str) -> None:
    store = SqlLeaseStore(url)
    store.record_host_use((ENDED, OFF))
    store.close()
    store = SqlLeaseStore(url)
    assert store.lasting_host_use() == (OFF,)
    store.close()


@pytest.mark.parametrize("table", ["host_use", "host_use_totals"])
def test_a_row_that_nobody_wrote_is_named(url: str, database: Path, table: str) -> None:
    store = SqlLeaseStore(url)
    store.record_host_use((ENDED, OFF))
    store.prune(NOW_S + 101)
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute(f"UPDATE {table} SET use = 'dozing'")
    with pytest.raises(Exception, match=f"table {table}, host 4: use is 'dozing'"):
        store.lasting_host_use() if table == "host_use" else store.host_use_totals()
    store.close()
