"""What a user writes to escape a preemption: terms stand as admitted, and marks of services count for services only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from one_preempt.simulation.simulated_cloud.objects import TemplateDict
from tests.hostile.front_row import FrontRow, front_row

SUSPENDABLE: TemplateDict = {"LEASE": [{"TYPE": "BE-SUSPENDABLE"}]}
ESCAPES: dict[str, TemplateDict] = {
    "a service of one's own": {**SUSPENDABLE, "SERVICE_ID": ["7"]},
    "a status of one's own": {**SUSPENDABLE, "LEASE_STATUS": ["running (DC-NON-PREEMPTABLE)"]},
    "a message as of the scheduler": {**SUSPENDABLE, "SCHED_MESSAGE": ["one_preempt: never a victim"]},
    "the lease twice": {"LEASE": [{"TYPE": "BE-SUSPENDABLE"}, {"TYPE": "DC-NON-PREEMPTABLE"}]},
    "a lease in other letters": {"LEASE": [{"TYPE": "dc-non-preemptable", "SIZE": "2"}]},
    "a lease that cannot be read": {"LEASE": ["DC-NON-PREEMPTABLE"]},
    "more suspensions than granted": {"LEASE": [{"TYPE": "BE-SUSPENDABLE", "MAX_SUSPENSIONS": "-1"}]},
}


@pytest.fixture
def row(tmp_path: Path) -> Iterator[FrontRow]:
    with front_row(tmp_path, hosts=[{"name": "node", "cpu": 2, "memory_mib": 8192}], instant=True) as made:
        yield made


@pytest.mark.parametrize("written", ESCAPES.values(), ids=ESCAPES.keys())
def test_nobody_escapes_by_what_he_writes_once_admitted(row: FrontRow, written: TemplateDict) -> None:
    leases = [row.submit("eva", more='LEASE=[TYPE="BE-SUSPENDABLE"]') for _ in range(2)]
    row.run(3)
    for vm_id in leases:
        row.vm(vm_id).user_template = dict(written)
    request = row.submit("lea", cpu="2")
    row.run(4)
    assert row.is_running(request)
    assert not any(map(row.is_running, leases))
