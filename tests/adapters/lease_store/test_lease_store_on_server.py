"""What a database on a server adds to the contract: its schema, its lock, other processes. Skipped without one."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from msgspec.structs import replace
from sqlalchemy import Connection, text

from one_preempt.adapters.lease_store.database import open_engine
from one_preempt.adapters.lease_store.named_database import LeaseStoreError, parsed_url
from one_preempt.adapters.lease_store.schema import REVISIONS, upgrade
from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore
from one_preempt.adapters.lease_store.tables import metadata
from one_preempt.adapters.lease_store.writer_lock import LOCK_NAME
from one_preempt.core.model.lease import LeaseTerms, LeaseType, PreemptionMethod
from one_preempt.core.model.ledger import LeaseRecord, LedgerChanges, OpenPreemption, Transition
from one_preempt.core.model.plan import Plan, Preemption, Victim
from one_preempt.core.model.reservation import Booking, Reservation

NOW_S = 1_800_000_000
LEASE = LeaseRecord(7, LeaseTerms(LeaseType.BE_SUSPENDABLE), 5, 100, (7,), True, False, NOW_S, NOW_S)
MOVE = Transition(7, 7, NOW_S, "PENDING", "RUNNING", 3, 1024)


@pytest.fixture
def connection(server_url: str) -> Iterator[Connection]:
    """A look into the database past the store."""
    engine = open_engine(parsed_url(server_url), 0)
    with engine.connect() as opened:
        yield opened
    engine.dispose()


def test_processes_that_create_the_tables_at_once_agree(server_url: str, connection: Connection) -> None:
    metadata.drop_all(connection)
    connection.execute(text("DROP TABLE alembic_version"))
    connection.commit()
    program = f"from one_preempt.adapters.lease_store.schema import upgrade; print(upgrade({server_url!r}))"
    both = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate()[0].strip() for process in both] == [REVISIONS[-1]] * 2
    assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_a_mariadb_database_that_confuses_texts_is_refused(server_url: str, connection: Connection) -> None:
    if connection.dialect.name not in ("mysql", "mariadb"):
        pytest.skip("only MariaDB does so")
    named = connection.engine.url.database
    metadata.drop_all(connection)
    connection.execute(text("DROP TABLE alembic_version"))
    connection.execute(text(f"ALTER DATABASE {named} CHARACTER SET latin1"))
    with pytest.raises(LeaseStoreError, match=r"latin1_swedish_ci.*: ALTER DATABASE") as caught:
        upgrade(server_url)
    connection.execute(text(str(caught.value).rpartition(": ")[2]))
    upgrade(server_url)


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_postgresql_database_that_cannot_keep_every_text_is_refused(
    server_url: str, connection: Connection, encoding: str
) -> None:
    if connection.dialect.name != "postgresql":
        pytest.skip("only PostgreSQL has such")
    outside = connection.execution_options(isolation_level="AUTOCOMMIT")
    kind = f"ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    outside.execute(text(f"CREATE DATABASE narrow {kind}"))
    try:
        url = parsed_url(server_url).set(database="narrow").render_as_string(hide_password=False)
        for opening in (upgrade, SqlLeaseStore):
            with pytest.raises(
                LeaseStoreError, match=rf"has the encoding {encoding}, in which not every text"
            ) as caught:
                opening(url)
        made = re.sub(
            r".* by (CREATE DATABASE) \.\.\. OWNER \.\.\.(.*), and carry over.*", r"\1 wide\2", str(caught.value)
        )
        outside.execute(text(made))
        upgrade(parsed_url(server_url).set(database="wide").render_as_string(hide_password=False))
    finally:
        for name in ("narrow", "wide"):
            outside.execute(text(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"))


def test_a_parameter_that_the_driver_does_not_take_is_told(server_url: str) -> None:
    url = parsed_url(server_url).update_query_dict({"nosuch": "1"}).render_as_string(hide_password=False)
    with pytest.raises(LeaseStoreError, match="nosuch"):
        SqlLeaseStore(url)


def test_only_one_daemon_writes_to_a_server(open_on_server: Callable[[], SqlLeaseStore]) -> None:
    first, second = open_on_server(), open_on_server()
    first.acquire_writer()
    first.acquire_writer()
    with pytest.raises(LeaseStoreError, match=r"another one_preempt daemon writes to .*stop it, or wait"):
        second.acquire_writer()
    with pytest.raises(LeaseStoreError, match="before this process has the writer's lock"):
        second.set_paused(True, NOW_S)
    # A command of the administrator's asks for no lock.
    open_on_server().set_paused(True, NOW_S)
    assert first.load(NOW_S).paused
    first.release_writer()
    second.acquire_writer()


def drop_the_holder_of_the_lock(connection: Connection) -> None:
    """End, as a restart of the server does, the connection that has the writer's lock of this database."""
    if connection.dialect.name == "postgresql":
        here = "database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        holder = f"SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND {here}"
        connection.execute(text(f"SELECT pg_terminate_backend(({holder}), 5000)"))
        return
    lock = f"CONCAT('{LOCK_NAME}_', MD5(DATABASE()))"
    holder_id = connection.execute(text(f"SELECT IS_USED_LOCK({lock})")).scalar_one()
    connection.execute(text(f"KILL {holder_id}"))
    while connection.execute(text(f"SELECT IS_USED_LOCK({lock})")).scalar() is not None:
        pass


def test_a_writer_whose_lock_the_server_dropped_writes_no_more(
    open_on_server: Callable[[], SqlLeaseStore], connection: Connection
) -> None:
    store, successor = open_on_server(), open_on_server()
    store.acquire_writer()
    drop_the_holder_of_the_lock(connection)
    for _ in range(2):
        with pytest.raises(LeaseStoreError, match="dropped the connection that held the writer's lock"):
            store.apply(LedgerChanges(transitions=(MOVE,)))
    successor.acquire_writer()
    assert successor.transitions() == ()
    with pytest.raises(LeaseStoreError, match="another one_preempt daemon"):
        store.acquire_writer()


def test_a_lock_that_the_server_dropped_is_taken_anew_by_the_cycle_after(
    open_on_server: Callable[[], SqlLeaseStore], connection: Connection
) -> None:
    store = open_on_server()
    store.acquire_writer()
    drop_the_holder_of_the_lock(connection)
    with pytest.raises(LeaseStoreError, match="dropped the connection that held the writer's lock"):
        store.acquire_writer()
    store.acquire_writer()
    store.apply(LedgerChanges(transitions=(MOVE,)))
    with pytest.raises(LeaseStoreError, match="another one_preempt daemon"):
        open_on_server().acquire_writer()


def drop_all_others(connection: Connection) -> None:
    """End every other connection to this database, as a restart of the server does."""
    if connection.dialect.name == "postgresql":
        others = "datname = current_database() AND pid <> pg_backend_pid()"
        connection.execute(text(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE {others}"))
        return
    others = "db = DATABASE() AND id <> CONNECTION_ID()"
    for other in connection.execute(text(f"SELECT id FROM information_schema.processlist WHERE {others}")).scalars():
        connection.execute(text(f"KILL {other}"))


def test_reading_over_a_connection_that_the_server_dropped_fails_once_in_words(
    open_on_server: Callable[[], SqlLeaseStore], connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_on_server()
    store.load(NOW_S)
    drop_all_others(connection)
    with pytest.raises(LeaseStoreError) as caught:
        store.load(NOW_S)
    assert "\n" not in str(caught.value)
    assert not caplog.records
    assert not store.load(NOW_S).leases


def test_the_lock_of_another_database_of_the_server_is_another_one(
    open_on_server: Callable[[], SqlLeaseStore], server_url: str, connection: Connection
) -> None:
    beside = f"{connection.engine.url.database}_beside"
    kind = "" if connection.dialect.name == "postgresql" else " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    outside = connection.execution_options(isolation_level="AUTOCOMMIT")
    outside.execute(text(f"CREATE DATABASE {beside}{kind}"))
    try:
        url = parsed_url(server_url).set(database=beside).render_as_string(hide_password=False)
        with closing(SqlLeaseStore(url)) as another_cloud:
            open_on_server().acquire_writer()
            another_cloud.acquire_writer()
    finally:
        outside.execute(text(f"DROP DATABASE {beside}"))


def test_a_failed_transaction_leaves_nothing_behind_on_a_server(open_on_server: Callable[[], SqlLeaseStore]) -> None:
    store = open_on_server()
    impossible = replace(MOVE, vm_id=8, to_state=None)
    with pytest.raises(LeaseStoreError) as caught:
        store.apply(LedgerChanges(admitted=(LEASE,), transitions=(MOVE, impossible)))
    assert "\n" not in str(caught.value)
    assert store.transitions() == ()
    assert store.leases() == ()
    store.apply(LedgerChanges(transitions=(MOVE,)))
    assert store.transitions() == (MOVE,)


def test_one_load_shows_one_state_while_another_process_writes(open_on_server: Callable[[], SqlLeaseStore]) -> None:
    daemon, onlooker = open_on_server(), open_on_server()
    daemon.apply(LedgerChanges(admitted=(LEASE,)))
    with onlooker._database.reading() as reading:
        assert reading.execute(text("SELECT count(*) FROM leases")).scalar() == 1
        daemon.record_plan(Plan(NOW_S, "moml", bookings=(Booking(7, (Reservation(7, NOW_S, None),)),)))
        assert reading.execute(text("SELECT count(*) FROM reservations")).scalar() == 0
    assert len(onlooker.load(NOW_S).reservations) == 1


def test_a_preemption_of_hundreds_of_vms_is_kept(open_on_server: Callable[[], SqlLeaseStore]) -> None:
    vm_ids = range(100_000, 100_800)
    victims = tuple(Victim(vm_id, vm_id, 1234, PreemptionMethod.STOP) for vm_id in vm_ids)
    large = Preemption("p7", 7, victims, (), "moml", 1, True, 1, NOW_S)
    stay = Reservation(7, NOW_S, None, tuple(vm_ids) * 15)
    store = open_on_server()
    store.record_plan(Plan(NOW_S, "moml", preemptions=(large,), bookings=(Booking(7, (stay,)),)))
    ledger = store.load(NOW_S)
    assert ledger.preemptions == (OpenPreemption(large, NOW_S),)
    assert ledger.reservations == {7: (stay,)}


@pytest.mark.parametrize("last", [None, "0001", "0004"])
def test_an_upgrade_that_was_interrupted_is_finished_by_the_next(
    server_url: str, connection: Connection, last: str | None
) -> None:
    if connection.dialect.name == "postgresql":
        pytest.skip("there it is one transaction")
    connection.execute(text("DROP TABLE host_use_totals"))
    connection.execute(text("ALTER TABLE host_power DROP COLUMN enabled"))
    connection.execute(text("DELETE FROM alembic_version"))
    if last is not None:
        connection.execute(text(f"INSERT INTO alembic_version VALUES ('{last}')"))
    else:
        connection.execute(text("DROP TABLE transitions"))
    connection.commit()
    if last == "0004":
        metadata.tables["host_use_totals"].create(connection)
        connection.commit()
    upgrade(server_url)
    assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_a_database_of_an_older_schema_becomes_as_a_fresh_one(server_url: str, connection: Connection) -> None:
    metadata.drop_all(connection)
    connection.execute(text("DROP TABLE alembic_version"))
    connection.commit()
    config = Config()
    config.set_main_option("script_location", "one_preempt.adapters.lease_store:migrations")
    config.attributes["connection"] = connection
    command.upgrade(config, "0004")
    connection.execute(text("INSERT INTO preemptions VALUES ('p', 1, 'moml', false, 1, NULL, NULL, '', '', '{}')"))
    connection.commit()
    upgrade(server_url)
    assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    assert connection.execute(text("SELECT document FROM preemptions")).scalar() == "{}"
    connection.commit()
