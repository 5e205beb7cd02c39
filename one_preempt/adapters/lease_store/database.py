"""Opening a database of ours: its engine and its transactions."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import URL, Dialect, Engine, create_engine, event
from sqlalchemy.engine import Connection
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

from one_preempt.adapters.lease_store.named_database import (
    LEASES,
    LeaseStoreError,
    NamedDatabase,
    Purpose,
    is_sqlite,
    name_of,
    named,
)

BUSY_TIMEOUT_S = 10.0
_READING = "one_preempt_reading"
_PAUSE_S = 0.01
# psycopg logs what it ignores of a lost connection, of which its exception tells.
_UNHEARD = logging.NullHandler()
# By the kind of server the driver that the store was tried with: as a URL names it, and the package that has it.
_DRIVERS = {
    "postgresql": ("postgresql+psycopg", "psycopg[binary]"),
    "mysql": ("mysql+pymysql", "pymysql"),
    "mariadb": ("mysql+pymysql", "pymysql"),
}


def open_engine(url: URL, busy_timeout_s: float, purpose: Purpose = LEASES) -> Engine:
    """An engine whose transactions are what the store expects.

    SQLite: every commit synced, foreign keys enforced. A transaction takes the write lock when it begins, since one
    that starts by reading and then writes fails at once while another writes; those of `reading_engine` take none, so
    that looking never waits for who writes. Opening changes nothing in the file.
    """
    try:
        engine = create_engine(_for_every_text(url))
    except ModuleNotFoundError as error:
        raise LeaseStoreError(
            f"the driver for {name_of(url)} is not installed: python module {error.name!r} is missing; "
            f"{_how_to_get_a_driver(url)}"
        ) from None
    except (TypeError, ValueError) as error:
        raise _wrong_parameters(named(url, purpose), error) from None
    if is_sqlite(url):
        _prepare_sqlite(engine, busy_timeout_s)
    else:
        _prepare_server(engine)
        _tell_wrong_parameters(engine, named(url, purpose))
        logging.getLogger("psycopg").addHandler(_UNHEARD)
    return engine


def _for_every_text(url: URL) -> URL:
    """psycopg speaks UTF-8 to it, whatever the encoding of the database, so that this can be asked for at all."""
    is_psycopg = url.drivername.startswith("postgresql+psycopg")
    return url.update_query_dict({"client_encoding": "utf8"}) if is_psycopg else url


def _how_to_get_a_driver(url: URL) -> str:
    """What to write and to install. The drivers that SQLAlchemy takes where a URL names none are not those."""
    kind = url.get_backend_name()
    drivers = [_DRIVERS[kind]] if kind in _DRIVERS else sorted(set(_DRIVERS.values()))
    return ", or ".join(
        f"install {package}" if url.drivername == scheme else f"write {scheme}://... and install {package}"
        for scheme, package in drivers
    )


def reading_engine(engine: Engine) -> Engine:
    """The same database for transactions that only look, each seeing one state of it."""
    return engine.execution_options(**{_READING: True})


def _prepare_server(engine: Engine) -> None:
    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # As a statement, not as an option of the connection: of one that the server has dropped, SQLAlchemy would hand
        # on what the driver of MariaDB raises at that, which nobody here knows.
        if connection.get_execution_options().get(_READING, False):
            connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")


def _tell_wrong_parameters(engine: Engine, database: NamedDatabase) -> None:
    @event.listens_for(engine, "do_connect")
    def connect(
        dialect: Dialect, _entry: ConnectionPoolEntry, arguments: Sequence[Any], parameters: Mapping[str, Any]
    ) -> DBAPIConnection:
        try:
            return dialect.connect(*arguments, **parameters)
        except (TypeError, ValueError) as error:  # what follows ? in the URL is handed to the driver as it is
            raise _wrong_parameters(database, error) from None


def _wrong_parameters(database: NamedDatabase, error: Exception) -> LeaseStoreError:
    key = database.purpose.key
    return LeaseStoreError(f"{database}: its driver takes no such parameters in {key}: {error}")


def _prepare_sqlite(engine: Engine, busy_timeout_s: float) -> None:
    @event.listens_for(engine, "connect")
    def configure(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
        # Without an isolation level of its own the driver leaves BEGIN to us.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout = {int(busy_timeout_s * 1000)}")
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        reading = connection.get_execution_options().get(_READING, False)
        connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


def write_ahead(execute: Callable[[str], object], patience_s: float) -> None:
    """Have SQLite write ahead, which the file keeps for good.

    While another process does the same it refuses at once, whatever `busy_timeout` says.
    """
    give_up_s = time.monotonic() + patience_s
    while True:
        try:
            execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() >= give_up_s:
                raise
            time.sleep(_PAUSE_S)
        else:
            return
