"""What a database server answers is told in its own words, with what to do about it where that is known."""

from __future__ import annotations

import logging

import pytest
import sqlalchemy
from sqlalchemy import create_engine, event
from sqlalchemy.exc import DBAPIError

from one_preempt.adapters.lease_store import database as databases
from one_preempt.adapters.lease_store.database import open_engine, reading_engine
from one_preempt.adapters.lease_store.database_failures import failures_in_words
from one_preempt.adapters.lease_store.named_database import (
    GATEWAY_LEDGER,
    LEASES,
    LeaseStoreError,
    NamedDatabase,
    Purpose,
    parsed_url,
)
from one_preempt.adapters.lease_store.schema import stored_revision

URL = "postgresql+psycopg://one@db/leases"


class OfPostgreSQL(Exception):
    """As psycopg raises it."""

    def __init__(self, sqlstate: str, text: str) -> None:
        super().__init__(text)
        self.sqlstate = sqlstate


class OfMariaDB(Exception):
    """As pymysql raises it: a number and a text, and a state that is the same for most failures."""

    sqlstate = "HY000"


STANDBY = "a standby is read-only: name the server that it follows in "
FULL = "make room on the disk of the server"


@pytest.mark.parametrize(
    ("cause", "purpose", "mend"),
    [
        (OfPostgreSQL("25006", "cannot execute DELETE in a read-only transaction\n"), LEASES, f"{STANDBY}store.url"),
        (OfPostgreSQL("25006", "cannot execute DELETE"), GATEWAY_LEDGER, f"{STANDBY}gateway.store_url"),
        (OfMariaDB(1290, "running with the --read-only option"), LEASES, f"{STANDBY}store.url"),
        (OfPostgreSQL("53100", "could not extend file: No space left on device\nHINT: ..."), LEASES, FULL),
        (OfMariaDB(1114, "The table 'transitions' is full"), LEASES, FULL),
        (OfPostgreSQL("42501", "permission denied for schema public"), LEASES, "let this user own the database: ALTER"),
        (
            OfMariaDB(1142, "CREATE command denied to user 'one'"),
            LEASES,
            "the user needs all rights on this database: ",
        ),
    ],
)
def test_what_a_server_refuses_is_told_with_what_to_do(cause: Exception, purpose: Purpose, mend: str) -> None:
    with pytest.raises(LeaseStoreError) as caught, failures_in_words(NamedDatabase(URL, purpose)):
        raise DBAPIError("DELETE", {}, cause)
    told = str(caught.value)
    assert told.startswith(f"{purpose.what} {URL}: {str(cause).splitlines()[0]}; {mend}")
    assert "\n" not in told


@pytest.mark.parametrize(
    "cause", [OfPostgreSQL("08006", "server closed the connection"), OfMariaDB(2013, "lost"), OfMariaDB()]
)
def test_of_other_failures_the_servers_words_are_all(cause: Exception) -> None:
    with pytest.raises(LeaseStoreError) as caught, failures_in_words(NamedDatabase(URL)):
        raise DBAPIError("DELETE", {}, cause)
    assert str(caught.value) == f"database of leases {URL}: {str(cause) or 'OfMariaDB'}"


def test_what_psycopg_logs_beside_its_exceptions_is_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "create_engine", lambda _url: create_engine("sqlite://"))
    psycopg = logging.getLogger("psycopg")
    monkeypatch.setattr(psycopg, "handlers", [])
    for _ in range(2):
        open_engine(parsed_url(URL), 0)
    assert [type(handler) for handler in psycopg.handlers] == [logging.NullHandler]


def test_a_server_that_is_gone_when_a_reading_begins_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    # What a reading begins with is a statement of its own, and SQLite takes no such one.
    monkeypatch.setattr(databases, "create_engine", lambda _url: create_engine("sqlite://"))
    engine = reading_engine(open_engine(parsed_url(URL), 0))
    with pytest.raises(LeaseStoreError, match="syntax error"), failures_in_words(NamedDatabase(URL)), engine.begin():
        pass
    engine.dispose()


def test_postgresql_is_spoken_to_in_utf_8_whatever_the_encoding_of_the_database(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def opened(url: sqlalchemy.URL) -> sqlalchemy.Engine:
        asked.append(dict(url.query))
        return create_engine("sqlite://")

    monkeypatch.setattr(databases, "create_engine", opened)
    for url in (URL, "mysql+pymysql://one@db/leases"):
        open_engine(parsed_url(url), 0)
    assert asked == [{"client_encoding": "utf8"}, {}]


def test_a_database_in_which_not_every_text_can_be_kept_is_refused() -> None:
    engine = create_engine("sqlite://")
    engine.dialect.name = "postgresql"
    event.listen(engine, "before_cursor_execute", lambda *_: ("SELECT 'LATIN1'", ()), retval=True)
    with pytest.raises(LeaseStoreError, match="has the encoding LATIN1, in which not every text can be kept: make "):
        stored_revision(engine, NamedDatabase(URL))
    engine.dispose()
