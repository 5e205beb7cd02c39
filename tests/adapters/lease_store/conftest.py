from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from sqlalchemy import delete

from one_preempt.adapters.lease_store.database import open_engine
from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
from one_preempt.adapters.lease_store.named_database import parsed_url
from one_preempt.adapters.lease_store.schema import upgrade
from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore
from one_preempt.adapters.lease_store.tables import metadata

# The URL of a database on a server (postgresql+psycopg://...) over which the contract is tested as well.
SERVER = "ONE_PREEMPT_TEST_DATABASE_URL"
AnyStore = SqlLeaseStore | MemoryLeaseStore


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a fresh database, so that migrations run once and not in every test."""
    path = tmp_path_factory.mktemp("empty") / "leases.db"
    SqlLeaseStore(f"sqlite:///{path}").close()
    return path.read_bytes()


@pytest.fixture
def database(tmp_path: Path, empty_database: bytes) -> Path:
    path = tmp_path / "leases.db"
    path.write_bytes(empty_database)
    return path


@pytest.fixture
def url(database: Path) -> str:
    return f"sqlite:///{database}"


@pytest.fixture
def open_store(url: str) -> Iterator[Callable[[], SqlLeaseStore]]:
    """Opens the database as one more process would; all are closed after the test."""
    with ExitStack() as opened:
        yield lambda: opened.enter_context(closing(SqlLeaseStore(url)))


@pytest.fixture(scope="session")
def server_url() -> str:
    """A database on a server, for these tests alone: they empty it."""
    if SERVER not in os.environ:
        pytest.skip(f"{SERVER} names no database")
    upgrade(os.environ[SERVER])
    return os.environ[SERVER]


@pytest.fixture
def open_on_server(server_url: str) -> Iterator[Callable[[], SqlLeaseStore]]:
    """Opens an emptied database on a server as one more process would; all are closed after the test."""
    engine = open_engine(parsed_url(server_url), 0)
    with engine.begin() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(delete(table))
    engine.dispose()
    with ExitStack() as opened:
        yield lambda: opened.enter_context(closing(SqlLeaseStore(server_url)))


@pytest.fixture(params=["database", "memory", *(["server"] if SERVER in os.environ else [])])
def store(request: pytest.FixtureRequest) -> AnyStore:
    if request.param == "memory":
        return MemoryLeaseStore()
    opener = "open_store" if request.param == "database" else "open_on_server"
    open_database: Callable[[], SqlLeaseStore] = request.getfixturevalue(opener)
    return open_database()
