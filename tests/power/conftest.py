"""What the plays of hosts' power share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore


@pytest.fixture(params=["memory", "database"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MemoryLeaseStore | SqlLeaseStore]:
    """An empty ledger, of either kind."""
    on_disk = request.param == "database"
    with closing(SqlLeaseStore(f"sqlite:///{tmp_path}/leases.db") if on_disk else MemoryLeaseStore()) as store:
        yield store
