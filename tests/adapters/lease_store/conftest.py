from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore

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
    opened: list[SqlLeaseStore] = []

    def another() -> SqlLeaseStore:
        opened.append(SqlLeaseStore(url))
        return opened[-1]

    yield another
    for store in opened:
        store.close()


@pytest.fixture(params=["database", "memory"])
def store(request: pytest.FixtureRequest, open_store: Callable[[], SqlLeaseStore]) -> AnyStore:
    return open_store() if request.param == "database" else MemoryLeaseStore()
