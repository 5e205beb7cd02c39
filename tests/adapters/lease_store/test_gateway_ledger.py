"""The gateway's ledger: what was recorded comes back after a restart, and balances are what was charged."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from one_preempt.adapters.lease_store.named_database import DatabaseNotMade, LeaseStoreError
from one_preempt.adapters.lease_store.schema import REVISIONS, upgrade
from one_preempt.adapters.lease_store.sql_gateway_ledger import SqlGatewayLedger
from one_preempt.core.gateway.requests import AttemptOutcome, GatewayRequest, RequestState, changed_balances
from one_preempt.core.gateway.shares import Allocation, Answer
from one_preempt.core.gateway.streams import Stream, ZoneMeasure
from one_preempt.core.model.lease import LeaseType
from one_preempt.ports import AnotherDaemonWrites

NOW_S = 1_800_000_000
MEASURE = ZoneMeasure(NOW_S, 3600, 64.0, 3.5, 2.2, Stream(0.1, 5.0, 50.0, 12, "12 came"))


def request(number: int, state: RequestState = RequestState.OPEN, uid: int = 1000, **more: object) -> GatewayRequest:
    one = GatewayRequest(
        number, f"token-{number}", uid, "eva", LeaseType.BE_SUSPENDABLE, 2, "sweep", 3600, NOW_S + number, state
    )
    return replace(one, **more)


@pytest.fixture
def open_ledger(url: str) -> Iterator[Callable[[], SqlGatewayLedger]]:
    with ExitStack() as opened:
        yield lambda: opened.enter_context(closing(SqlGatewayLedger(url)))


def test_a_request_comes_back_as_it_was_written_last(open_ledger: Callable[[], SqlGatewayLedger]) -> None:
    ledger = open_ledger()
    assert (ledger.last_number(), ledger.request(1)) == (0, None)
    asked = request(1).turned_to("north", "RTDP by the shares of PAP", {"north": 0.5, "south": -0.5}, NOW_S)
    ledger.record(asked, changed_balances(None, asked))
    done = replace(
        asked.answered(AttemptOutcome.PLACED, "", NOW_S + 5), state=RequestState.PLACED, vm_ids=(3, 4), work=7.5
    )
    ledger.record(done, changed_balances(asked, done))
    again = open_ledger()
    assert again.request(1) == done
    assert again.last_number() == 1
    assert again.balances("BE-SUSPENDABLE") == {"north": 0.5, "south": -0.5}
    assert again.balances("DC-MIGRATABLE") == {}


def test_what_was_charged_is_taken_back_when_another_zone_has_its_turn(
    open_ledger: Callable[[], SqlGatewayLedger],
) -> None:
    ledger = open_ledger()
    first = request(1).turned_to("north", "", {"north": 2 / 3, "south": -1 / 3, "west": -1 / 3}, NOW_S)
    second = first.turned_to("south", "", {"south": 0.5, "west": -0.5}, NOW_S)
    given_up = replace(second, state=RequestState.REFUSED, charges={})
    seen = []
    for before, after in ((None, first), (first, second), (second, given_up)):
        ledger.record(after, changed_balances(before, after))
        seen.append(ledger.balances("BE-SUSPENDABLE"))
    assert seen[1] == {"north": 0.0, "south": 0.5, "west": -0.5}
    assert set(seen[2].values()) == {0.0}


def test_requests_are_found_by_owner_state_and_time(open_ledger: Callable[[], SqlGatewayLedger]) -> None:
    ledger = open_ledger()
    states = list(RequestState)
    for number in range(1, 15):
        ledger.record(request(number, states[number % len(states)], uid=1000 + number % 2), {})
    assert [one.number for one in ledger.requests(limit=3)] == [14, 13, 12]
    assert [one.number for one in ledger.requests(before=12, limit=3, uid=1000)] == [10, 8, 6]
    assert {one.state for one in ledger.unsettled()} == {RequestState.OPEN, RequestState.UNANSWERED}
    assert {one.state for one in ledger.placed()} == {RequestState.PLACED}
    assert ledger.tokens() == {f"token-{number}": number for number in range(1, 15)}
    assert [one.number for one in ledger.opened_since(NOW_S + 12)] == [1, 13, 14]


def test_measures_and_shares_are_replaced(open_ledger: Callable[[], SqlGatewayLedger]) -> None:
    ledger = open_ledger()
    assert (ledger.allocation(), ledger.measures()) == (None, {})
    for elements in (8.0, 64.0):
        ledger.record_measure("north", replace(MEASURE, elements=elements))
    ledger.record_measure("south", MEASURE)
    in_force = Allocation(NOW_S, Answer("PAP", {"north": 1.0}), "", ("north",), {"west": "no answer"})
    ledger.record_allocation(replace(in_force, made_at_s=0))
    ledger.record_allocation(in_force)
    again = open_ledger()
    assert again.measures() == {"north": MEASURE, "south": MEASURE}
    assert again.allocation() == in_force


def test_what_is_over_is_forgotten_but_no_number_is_used_again(open_ledger: Callable[[], SqlGatewayLedger]) -> None:
    ledger = open_ledger()
    ledger.record(request(1), {})
    for number in (2, 3, 4):
        ledger.record(request(number, RequestState.ENDED, ended_at_s=NOW_S + number), {})
    assert ledger.prune(NOW_S + 100) == 2
    assert [one.number for one in ledger.requests()] == [4, 1]


def test_after_a_quiet_year_the_ledger_is_no_younger(open_ledger: Callable[[], SqlGatewayLedger]) -> None:
    """A rate counts from the first request on record: it would be that of an hour instead of the window."""
    ledger = open_ledger()
    ledger.record(request(1, RequestState.ENDED, ended_at_s=NOW_S), {})
    ledger.record(request(2, RequestState.ENDED, ended_at_s=NOW_S), {})
    ledger.record(replace(request(3), opened_at_s=NOW_S + 10_000), {})
    ledger.prune(NOW_S + 9_000)
    assert [one.number for one in ledger.opened_since(NOW_S + 9_000)] == [2, 3]


def test_one_gateway_writes(open_ledger: Callable[[], SqlGatewayLedger]) -> None:
    first, second = open_ledger(), open_ledger()
    first.acquire_writer()
    with pytest.raises(AnotherDaemonWrites):
        second.acquire_writer()
    assert second.last_number() == 0


def test_where_another_gateway_has_the_lock_by_now_nothing_more_is_written(
    open_ledger: Callable[[], SqlGatewayLedger], database: Path
) -> None:
    """Its desk answers in threads of its own, and does not wait for a round that takes the lock again."""
    first, second = open_ledger(), open_ledger()
    first.acquire_writer()
    Path(f"{database}.lock").unlink()
    second.acquire_writer()
    second.record(request(1), {})
    for _ in range(2):
        with pytest.raises(LeaseStoreError):
            first.acquire_writer()
        with pytest.raises(LeaseStoreError, match=r"lock"):
            first.record(request(2), {})
    second.close()
    first.acquire_writer()
    first.record(request(2), {})
    assert first.last_number() == 2


def test_its_failures_speak_of_the_gateway(
    open_ledger: Callable[[], SqlGatewayLedger], url: str, database: Path, tmp_path: Path
) -> None:
    def told(fails: Callable[[], object]) -> str:
        with pytest.raises(LeaseStoreError) as caught:
            fails()
        return str(caught.value)

    ledger = open_ledger()
    ledger.acquire_writer()
    messages = [
        told(lambda: SqlGatewayLedger(f"sqlite:///{tmp_path}/none.db", makes=False)),
        told(lambda: SqlGatewayLedger("sqlite:///relative.db")),
        told(lambda: SqlGatewayLedger("sqlite://")),
        told(lambda: SqlGatewayLedger("postgresql://server")),
        told(lambda: SqlGatewayLedger(f"{url}?timeout=soon")),
        told(lambda: SqlGatewayLedger("sqlite:////nowhere/folder/gateway.db")),
        told(lambda: open_ledger().acquire_writer()),
    ]
    ledger.record(request(1), {})
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("UPDATE gateway_requests SET document = '{}'")
        messages.append(told(lambda: ledger.request(1)))
        connection.execute("ALTER TABLE leases DROP COLUMN paused_vm_ids")
        connection.execute("UPDATE alembic_version SET version_num = '0008'")
        messages.append(told(open_ledger))
        connection.execute("UPDATE alembic_version SET version_num = '0999'")
        messages.append(told(open_ledger))
    Path(f"{database}.lock").unlink()
    messages.append(told(ledger.acquire_writer))
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(b"no database" * 100)
    messages.append(told(lambda: SqlGatewayLedger(f"sqlite:///{damaged}")))
    for message in messages:
        assert "gateway" in message, message
        assert not any(word in message for word in ("of leases", "scheduler", "daemon", " store.url", "cycle")), message


def test_who_only_looks_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(DatabaseNotMade):
        SqlGatewayLedger(f"sqlite:///{tmp_path}/none.db", makes=False)
    assert list(tmp_path.iterdir()) == []


def test_a_row_that_nobody_wrote_is_told(open_ledger: Callable[[], SqlGatewayLedger], database: Path) -> None:
    ledger = open_ledger()
    ledger.record(request(1), {})
    ledger.record_measure("north", MEASURE)
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("UPDATE gateway_requests SET document = '{\"number\": 1}'")
        connection.execute("UPDATE gateway_documents SET document = 'garbage'")
    with pytest.raises(LeaseStoreError, match="table gateway_requests, request 1: document is"):
        ledger.request(1)
    with pytest.raises(LeaseStoreError, match="table gateway_documents, measure north: document is 'garbage'"):
        ledger.measures()


def test_a_database_of_the_former_schema_gets_the_tables(url: str, database: Path) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        for table in ("requests", "balances", "documents"):
            connection.execute(f"DROP TABLE gateway_{table}")
        connection.execute("ALTER TABLE leases DROP COLUMN paused_vm_ids")
        connection.execute("UPDATE alembic_version SET version_num = '0008'")
    with pytest.raises(LeaseStoreError, match="stop the gateway, make a backup, and run: one-preempt db upgrade"):
        SqlGatewayLedger(url, makes=False)
    assert upgrade(url) == REVISIONS[-1]
    with closing(SqlGatewayLedger(url)) as ledger:
        assert ledger.last_number() == 0
