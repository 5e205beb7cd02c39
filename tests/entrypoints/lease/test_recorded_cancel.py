"""A lease is cancelled VM by VM; a daemon that is woken in between starts nothing of it and counts no preemption."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore
from one_preempt.adapters.opennebula.enactor import OpenNebulaEnactor
from one_preempt.adapters.opennebula.pool_reader import OpenNebulaPoolReader
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.entrypoints.cli.lease.recorded_cancel import cancel, living_vms
from one_preempt.ports import CallResult
from one_preempt.simulation.simulated_cloud.states import VmState
from tests.hostile.front_row import FrontRow, front_row

PAIR = 'LEASE=[TYPE="BE-SUSPENDABLE",NAME="pair",SIZE="2"]'
HOSTS = [{"name": "node{}", "count": 2, "cpu": 2, "memory_mib": 8192}]


@pytest.fixture
def row(tmp_path: Path) -> Iterator[FrontRow]:
    with front_row(tmp_path, hosts=HOSTS, instant=True) as found:
        yield found


@pytest.fixture
def store(row: FrontRow) -> Iterator[SqlLeaseStore]:
    with closing(SqlLeaseStore(f"sqlite:///{row.folder}/leases.db")) as found:
        yield found


def cancelling(row: FrontRow, store: SqlLeaseStore, lease_id: int) -> Iterator[tuple[VirtualMachine, CallResult]]:
    """The command, one VM at a time."""
    reader = OpenNebulaPoolReader(row.transport, row.clock)
    vms = living_vms(store.load(row.clock.now_s()).leases[lease_id], reader)
    return cancel(lease_id, vms, store, OpenNebulaEnactor(row.transport, reader), row.clock)


def pair(row: FrontRow) -> list[int]:
    vms = [row.submit("eva", cpu="2", more=PAIR) for _ in range(2)]
    row.run(3)
    return vms


def test_nothing_of_a_preempted_gang_returns_while_it_is_cancelled(row: FrontRow, store: SqlLeaseStore) -> None:
    first, second = pair(row)
    request = row.submit("lea", cpu="2")
    row.run(6)
    assert row.is_running(request)
    command = cancelling(row, store, first)
    next(command)
    row.cloud.vm_action(row.caller("lea"), "terminate-hard", request)
    row.run(5)
    assert row.vm(second).state is VmState.STOPPED
    (_, result), *others = command
    assert (result.outcome, others) == (Outcome.ACCEPTED, [])
    row.run(2)
    assert store.load(row.clock.now_s()).leases == {}


def test_what_was_not_sent_after_all_is_forgotten_in_time(row: FrontRow, store: SqlLeaseStore) -> None:
    first, second = pair(row)
    command = cancelling(row, store, first)
    next(command)
    row.run(3)
    open_actions = store.load(row.clock.now_s()).open_actions.values()
    assert [record.vm_id for record in open_actions if record.reason_code == "cancelled"] == [second]
    row.run(12, apart_s=500)
    assert store.load(row.clock.now_s()).open_actions == {}
    assert row.is_running(second)


def test_a_running_lease_that_is_cancelled_was_not_preempted(row: FrontRow, store: SqlLeaseStore) -> None:
    first, _ = pair(row)
    next(cancelling(row, store, first))
    row.run()
    record = store.load(row.clock.now_s()).leases[first]
    assert (record.preempted_by, record.preemptions, record.last_preempted_at_s) == (None, 0, None)


def test_nothing_of_a_waiting_gang_starts_while_it_is_cancelled(row: FrontRow, store: SqlLeaseStore) -> None:
    in_the_way = row.submit("paul", cpu="2")
    row.run(3)
    first, second = pair(row)
    command = cancelling(row, store, first)
    next(command)
    row.cloud.vm_action(row.caller("paul"), "terminate-hard", in_the_way)
    row.run(3)
    assert row.vm(second).state is not VmState.ACTIVE
    assert [result.outcome for _, result in command] == [Outcome.ACCEPTED]
