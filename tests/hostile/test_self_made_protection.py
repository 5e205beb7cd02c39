"""What a user writes to escape a preemption: terms stand as admitted, and marks of services count for services only."""

from __future__ import annotations

from pathlib import Path

from one_preempt.simulation.simulated_cloud.objects import TemplateDict
from tests.hostile.front_row import front_row

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


def test_nobody_escapes_by_what_he_writes_once_admitted(tmp_path: Path) -> None:
    host = {"name": "node", "cpu": len(ESCAPES), "memory_mib": 8192}
    with front_row(tmp_path, hosts=[host], instant=True) as row:
        leases = {row.submit("eva", more='LEASE=[TYPE="BE-SUSPENDABLE"]'): name for name in ESCAPES}
        row.run(3)
        for vm_id, name in leases.items():
            row.vm(vm_id).user_template = dict(ESCAPES[name])
        request = row.submit("lea", cpu=str(len(ESCAPES)))
        row.run(4)
        assert [name for vm_id, name in leases.items() if row.is_running(vm_id)] == []
        assert row.is_running(request)


def test_who_says_that_he_was_preempted_overtakes_nobody(tmp_path: Path) -> None:
    """As often as MAX_SUSPENSIONS, he says: then room would be promised for his return, and he be spared."""
    host = {"name": "node", "cpu": 4, "memory_mib": 16384}
    with front_row(tmp_path, hosts=[host]) as row:
        row.submit("eva", cpu="0.1", memory="64", more='LEASE=[TYPE="BE-SUSPENDABLE"]')
        older = row.submit("evan", cpu="3", more='SCHED_REQUIREMENTS="FALSE"')
        liar = row.submit("eva", cpu="3")
        row.run(4)
        row.cloud.vm_action(row.caller("eva"), "stop", liar)
        row.cloud.advance(60)
        other = row.submit("paul", cpu="3")
        row.run(3)
        assert row.is_running(other)
        row.vm(older).user_template.clear()
        row.vm(liar).user_template |= {
            "LEASE": [{"TYPE": "BE-SUSPENDABLE", "DURATION": "10:00:00", "MAX_SUSPENSIONS": "1"}],
            "LEASE_STATUS": ["preempted by lease 0"],
        }
        row.run(2)
        row.cloud.vm_action(row.caller("paul"), "terminate-hard", other)
        row.run(4)
        assert (row.is_running(older), row.is_running(liar)) == (True, False), row.log
