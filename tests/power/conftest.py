"""What the plays of hosts' power share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path

import pytest

from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore


@pytest.fixture
def new_database(tmp_path: Path) -> Iterator[Callable[[], SqlLeaseStore]]:
    """Makes an empty database at each call; all are closed after the test."""
    numbers = count()
    with ExitStack() as opened:
        yield lambda: opened.enter_context(closing(SqlLeaseStore(f"sqlite:///{tmp_path}/leases{next(numbers)}.db")))


@pytest.fixture(params=["memory", "database"])
def any_store(
    request: pytest.FixtureRequest, new_database: Callable[[], SqlLeaseStore]
) -> MemoryLeaseStore | SqlLeaseStore:
    """An empty ledger, of either kind."""
    return new_database() if request.param == "database" else MemoryLeaseStore()
