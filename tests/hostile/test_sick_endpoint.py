"""An endpoint that hangs, closes or answers nonsense: one message, nothing done on half a view, and on it goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from one_preempt.adapters.opennebula.transport import Limits
from one_preempt.ports import CloudUnavailable
from one_preempt.simulation.emulator.endpoint_faults import EndpointFault, FaultKind
from one_preempt.simulation.simulated_cloud.states import VmState
from tests.hostile.front_row import FrontRow, front_row

HASTY = Limits(connect_s=2, idle_s=0.4, total_s=0.8, attempts=1)
POOLS = (
    "zone.raftstatus", "system.version", "system.config", "vmpool.infoextended", "hostpool.info", "hostpool.monitoring",
    "clusterpool.info", "datastorepool.info", "vnpool.info", "vmgrouppool.info", "acl.info", "userpool.info",
    "grouppool.info",
)  # fmt: skip
STRUCK = {
    FaultKind.HANG: "no complete answer in time",
    FaultKind.SLOW: "no complete answer in time",
    FaultKind.CLOSE: "closed without an answer",
    FaultKind.HTML: "content type 'text/html'",
    FaultKind.SERVER_ERROR: "HTTP 500",
    FaultKind.TRUNCATED: "broke in the middle",
}
INSTEAD = {
    "another pool": b"<ACL_POOL></ACL_POOL>",
    "half a pool": b"<VM_POOL><VM><ID>0</ID>",
    "a DTD": b'<!DOCTYPE a [<!ENTITY x "y">]><VM_POOL></VM_POOL>',
    "words": b"come back later",
    "nothing": b"",
}


@pytest.fixture(scope="module")
def row(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontRow]:
    roomy = [{"name": "node", "cpu": 100, "memory_mib": 65536}]
    with front_row(tmp_path_factory.mktemp("sick"), hosts=roomy, instant=True, limits=HASTY) as made:
        yield made


@pytest.fixture
def log(row: FrontRow) -> Callable[[], list[str]]:
    """The lines that are written during one test."""
    known = len(row.log)
    return lambda: row.log[known:]


def failure_of(row: FrontRow) -> str:
    """The one message of a cycle that cannot observe the cloud."""
    with pytest.raises(CloudUnavailable) as caught:
        row.run()
    row.cycle_log.failed(caught.value)
    row.cycle_log.failed(caught.value)
    (line,) = row.log[-1:]
    assert line.isprintable()
    assert len(line) <= 500
    return line


@pytest.mark.parametrize("kind", STRUCK)
def test_a_cycle_without_all_pools_does_nothing_and_the_next_one_goes_on(
    row: FrontRow, log: Callable[[], list[str]], kind: FaultKind
) -> None:
    vm_id = row.submit("paul")
    pools = ("vmpool.infoextended",) if kind in (FaultKind.HANG, FaultKind.SLOW) else POOLS
    for pool in pools:
        row.faults.add(EndpointFault(kind, f"one.{pool}", delay_s=2))
        told = failure_of(row)
        assert told.startswith(f"one.{pool} at http://127.0.0.1")
        assert STRUCK[kind] in told
        assert row.vm(vm_id).state == VmState.PENDING
    row.run(2)
    assert row.is_running(vm_id)
    assert log().count("the trouble is over: cycles go on") == 1


@pytest.mark.parametrize("document", INSTEAD.values(), ids=INSTEAD.keys())
@pytest.mark.parametrize("pool", ["vmpool.infoextended", "hostpool.info", "userpool.info"])
def test_another_document_is_not_taken_for_the_pool(row: FrontRow, pool: str, document: bytes) -> None:
    running = row.submit("eva", more='LEASE=[TYPE="BE-SUSPENDABLE"]')
    row.run(2)
    row.transport.rewrite = {pool: lambda _: document}
    if pool == "userpool.info" and not document:
        row.run()
    else:
        failure_of(row)
    row.transport.rewrite = {}
    row.run()
    assert row.is_running(running)


@pytest.mark.parametrize("kind", [FaultKind.HANG, FaultKind.CLOSE, FaultKind.HTML, FaultKind.LOST_REPLY])
def test_an_action_without_an_answer_is_told_and_looked_into(
    row: FrontRow, log: Callable[[], list[str]], kind: FaultKind
) -> None:
    vm_ids = [row.submit("paul") for _ in range(3)]
    row.faults.add(EndpointFault(kind, "one.vm.deploy", delay_s=2))
    row.run()
    told = [line for line in log() if "unknown" in line]
    assert len(told) == 1
    assert "one.vm.deploy at http://127.0.0.1" in told[0]
    row.run(3)
    assert all(map(row.is_running, vm_ids))
    deployed = [len(row.vm(vm_id).history) for vm_id in vm_ids]
    assert deployed == [1, 1, 1], "nothing was done twice"


def test_a_user_that_may_no_longer_log_in_is_told_and_comes_back(row: FrontRow) -> None:
    vm_id = row.submit("paul")
    row.cloud.users[0].password = "changed"
    assert "check ONE_AUTH" in failure_of(row)
    row.cloud.users[0].password = "opennebula"
    row.run(2)
    assert row.is_running(vm_id)


def test_a_right_lost_between_reading_and_acting_is_told_for_each_vm_and_comes_back(
    row: FrontRow, log: Callable[[], list[str]]
) -> None:
    vm_ids = [row.submit("paul") for _ in range(2)]
    row.transport.rewrite = {"vm.info": lambda document: revoke(row, document)}
    row.run()
    told = [line for line in log() if "authenticated" in line]
    assert len(told) == 2
    row.transport.rewrite = {}
    row.cloud.users[0].password = "opennebula"
    row.run(3)
    assert all(map(row.is_running, vm_ids))


def revoke(row: FrontRow, document: bytes) -> bytes:
    row.cloud.users[0].password = "changed"
    return document
