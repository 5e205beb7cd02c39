"""What opening a database leaves in it: nothing in that of another program, nothing where somebody only looks."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from one_preempt.adapters.lease_store import database as databases
from one_preempt.adapters.lease_store.database import open_engine
from one_preempt.adapters.lease_store.named_database import DatabaseNotMade, LeaseStoreError, parsed_url
from one_preempt.adapters.lease_store.schema import upgrade
from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore

NOW_S = 1_800_000_000
LOOK = partial(SqlLeaseStore, makes=False)


@pytest.fixture
def of_another_program(tmp_path: Path) -> Path:
    path = tmp_path / "one.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE vm_pool (oid INTEGER PRIMARY KEY, body TEXT)")
    return path


@pytest.mark.parametrize("opening", [SqlLeaseStore, LOOK, upgrade], ids=["daemon", "look", "upgrade"])
def test_the_database_of_another_program_is_refused_and_left_as_it_is(
    opening: Callable[[str], object], of_another_program: Path
) -> None:
    before = of_another_program.read_bytes()
    with pytest.raises(LeaseStoreError, match=r"holds the tables of another program \(vm_pool\): .*store\.url"):
        opening(f"sqlite:///{of_another_program}")
    assert of_another_program.read_bytes() == before
    assert [path.name for path in of_another_program.parent.iterdir()] == ["one.db"]


def test_who_only_looks_makes_neither_a_file_nor_tables(tmp_path: Path) -> None:
    missing, empty = tmp_path / "missing.db", tmp_path / "empty.db"
    empty.touch()
    for path in (missing, empty):
        with pytest.raises(DatabaseNotMade, match=f"there is no database of leases at {path} yet"):
            LOOK(f"sqlite:///{path}")
    assert not missing.exists()
    assert empty.read_bytes() == b""


def test_who_only_looks_is_told_to_upgrade_an_older_database(url: str, database: Path) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0001'")
    with pytest.raises(LeaseStoreError, match="has schema 0001"):
        LOOK(url)


def test_who_only_looks_sees_what_the_daemon_wrote(url: str) -> None:
    with closing(SqlLeaseStore(url)) as daemon, closing(LOOK(url)) as command:
        daemon.set_paused(True, NOW_S)
        assert command.load(NOW_S).paused


def test_only_the_daemon_has_the_file_written_ahead(url: str, database: Path) -> None:
    def mode() -> str:
        with closing(sqlite3.connect(database)) as connection:
            return str(connection.execute("PRAGMA journal_mode").fetchone()[0])

    assert mode() == "wal"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    LOOK(url).close()
    assert mode() == "delete"
    SqlLeaseStore(url).close()
    assert mode() == "wal"


@pytest.mark.parametrize(
    ("scheme", "mend"),
    [
        ("mysql", r"write mysql\+pymysql://\.\.\. and install pymysql$"),
        ("mysql+pymysql", "; install pymysql$"),
        ("postgresql", r"write postgresql\+psycopg://\.\.\. and install psycopg\[binary\]$"),
        ("oracle", r"write mysql\+pymysql://.* or write postgresql\+psycopg://"),
    ],
)
def test_who_lacks_a_driver_is_told_which_one_the_store_was_tried_with(
    scheme: str, mend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacks_it(_url: object) -> None:
        raise ModuleNotFoundError(name="MySQLdb")

    monkeypatch.setattr(databases, "create_engine", lacks_it)
    with pytest.raises(LeaseStoreError, match=mend):
        open_engine(parsed_url(f"{scheme}://one@127.0.0.1/leases"), busy_timeout_s=1)
