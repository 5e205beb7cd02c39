"""What every lease store promises about images on hosts."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore
from one_preempt.core.model.image_transfer import (
    HeldImage,
    HostImages,
    ImageOrder,
    ImageOrderKind,
    TransferPhase,
    TransferRecord,
)
from one_preempt.core.model.ledger import Ledger, LedgerChanges

AnyStore = SqlLeaseStore | MemoryLeaseStore
NOW_S = 1_800_000_000
BRING = ImageOrder(
    ImageOrderKind.BRING,
    7,
    3,
    "node-3",
    1,
    600,
    NOW_S,
    NOW_S + 50,
    NOW_S + 80,
    (4, 12),
    "START",
    "for 4 — “soon”",
)
DROP = ImageOrder(ImageOrderKind.DROP, 8, 3, "node-3", None, 1 << 40, NOW_S, NOW_S, None, (), "ROOM", "for image 7")
UNDER_WAY = TransferRecord(BRING, TransferPhase.UNDER_WAY, NOW_S)
FAILED = TransferRecord(DROP, TransferPhase.FAILED, NOW_S - 5, 3, NOW_S + 15, "no way to node-3")
OF_3 = HostImages(3, NOW_S, (HeldImage(2, 900, NOW_S - 9), HeldImage(8, 10)))
OF_1 = HostImages(1, NOW_S - 60, (HeldImage(8, 10, NOW_S - 60),))


def test_what_was_written_comes_back_by_its_ids(store: AnyStore) -> None:
    store.apply(LedgerChanges(image_transfers=(UNDER_WAY, FAILED), held_images=(OF_3, OF_1)))
    loaded = store.load(NOW_S)
    assert loaded.image_transfers == store.image_transfers() == {DROP.id: FAILED, BRING.id: UNDER_WAY}
    assert list(loaded.image_transfers) == list(store.image_transfers()) == ["drop/8/3", "stage/7/3"]
    assert loaded.held_images == store.held_images() == {1: OF_1, 3: OF_3}
    assert list(loaded.held_images) == list(store.held_images()) == [1, 3]


def test_later_words_replace_those_of_the_same_order_and_host_alone(store: AnyStore) -> None:
    store.apply(LedgerChanges(image_transfers=(UNDER_WAY, FAILED), held_images=(OF_3, OF_1)))
    again = replace(FAILED, phase=TransferPhase.UNDER_WAY, attempts=4, text="")
    fewer = HostImages(3, NOW_S + 9, (HeldImage(2, 900, NOW_S - 9),))
    store.apply(LedgerChanges(image_transfers=(again,), held_images=(fewer,)))
    assert store.image_transfers() == {DROP.id: again, BRING.id: UNDER_WAY}
    assert store.held_images() == {1: OF_1, 3: fewer}


def test_what_is_done_and_a_host_that_holds_nothing_are_forgotten(store: AnyStore) -> None:
    store.apply(LedgerChanges(image_transfers=(UNDER_WAY, FAILED), held_images=(OF_3, OF_1)))
    done = replace(UNDER_WAY, phase=TransferPhase.DONE)
    store.apply(LedgerChanges(image_transfers=(done,), held_images=(HostImages(1, NOW_S),)))
    assert store.image_transfers() == {DROP.id: FAILED}
    assert store.held_images() == {3: OF_3}
    store.apply(LedgerChanges(image_transfers=(done,), held_images=(HostImages(1, NOW_S),)))
    assert store.load(NOW_S).held_images == {3: OF_3}


def test_what_is_under_way_and_what_hosts_hold_outlive_pruning(store: AnyStore) -> None:
    store.apply(LedgerChanges(image_transfers=(UNDER_WAY, FAILED), held_images=(OF_3, OF_1)))
    store.prune(FAILED.since_s)
    assert store.image_transfers() == {DROP.id: FAILED, BRING.id: UNDER_WAY}
    store.prune(NOW_S + 10**6)
    assert store.image_transfers() == {BRING.id: UNDER_WAY}
    assert store.held_images() == {1: OF_1, 3: OF_3}


def test_a_restarted_daemon_finds_what_was_under_way(url: str) -> None:
    with closing(SqlLeaseStore(url)) as store:
        store.apply(LedgerChanges(image_transfers=(UNDER_WAY,), held_images=(OF_3,)))
    with closing(SqlLeaseStore(url)) as store:
        assert store.load(NOW_S).image_transfers == {BRING.id: UNDER_WAY}
        assert store.load(NOW_S).held_images == {3: OF_3}


def test_a_store_in_memory_may_begin_where_a_ledger_stands() -> None:
    ledger = Ledger(image_transfers={BRING.id: UNDER_WAY}, held_images={3: OF_3})
    loaded = MemoryLeaseStore(ledger).load(NOW_S)
    assert (loaded.image_transfers, loaded.held_images) == ({BRING.id: UNDER_WAY}, {3: OF_3})


@pytest.mark.parametrize(("column", "value"), [("phase", "'half'"), ("kind", "'dance'"), ("lease_ids", "'x'")])
def test_a_row_that_nobody_wrote_is_named(url: str, database: Path, column: str, value: str) -> None:
    with closing(SqlLeaseStore(url)) as store:
        store.apply(LedgerChanges(image_transfers=(UNDER_WAY,)))
        with closing(sqlite3.connect(database, isolation_level=None)) as connection:
            connection.execute(f"UPDATE image_transfers SET {column} = {value}")
        with pytest.raises(Exception, match=f"image_transfers, order stage/7/3: {column}"):
            store.load(NOW_S)


def test_hosts_and_images_by_the_thousand(store: AnyStore) -> None:
    pools = tuple(
        HostImages(host, NOW_S, tuple(HeldImage(image, 600, NOW_S) for image in range(5))) for host in range(1500)
    )
    for _ in range(2):
        store.apply(LedgerChanges(held_images=pools))
    assert tuple(store.held_images().values()) == pools
