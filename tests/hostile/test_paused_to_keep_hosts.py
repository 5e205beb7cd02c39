"""Owners pause some of their VMs to keep the hosts of all: these make room, and what was paused stays so."""

from __future__ import annotations

from pathlib import Path

from tests.hostile.front_row import FrontRow, front_row
from tests.hostile.test_older_ledger import backed_up, restored

HOST = [{"name": "node", "cpu": 3, "memory_mib": 8192}]
GANG = 'LEASE=[TYPE="BE-SUSPENDABLE", NAME="sweep", SIZE="3"]'
LEFT = "paused by its owner, and taken off its host to make room for lease 3: resume it to have it scheduled"


def gang_of_three(row: FrontRow, *actions: str) -> list[int]:
    """Eva's VMs 0 to 2, of which she has done that with the last ones."""
    vm_ids = [row.submit("eva", more=GANG) for _ in range(3)]
    row.run(2)
    for vm_id, action in zip(reversed(vm_ids), reversed(actions), strict=False):
        row.cloud.vm_action(row.caller("eva"), action, vm_id)
    row.run(2)
    return vm_ids


def states(row: FrontRow) -> list[str]:
    """Of all VMs that there are."""
    vms = [row.vm(vm_id) for vm_id in sorted(row.cloud.vms)]
    return [vm.lcm_state.name if vm.state.name == "ACTIVE" else vm.state.name for vm in vms]


def test_a_gang_leaves_with_what_is_paused_of_it_and_returns_without(tmp_path: Path) -> None:
    with front_row(tmp_path, hosts=HOST, instant=True) as row:
        gang_of_three(row, "poweroff", "suspend")
        request = row.submit("lea", cpu="3")
        row.run(4)
        assert states(row) == ["STOPPED", "UNDEPLOYED", "STOPPED", "RUNNING"], row.log
        told = [row.vm(vm_id).user_template["LEASE_STATUS"] for vm_id in range(3)]
        assert str(told[0][0]).startswith("preempted by lease 3; returns when there is room")
        assert told[1:] == [[LEFT], [LEFT]]
        row.cloud.vm_action(row.caller("lea"), "terminate-hard", request)
        row.run(4)
        assert states(row) == ["RUNNING", "UNDEPLOYED", "STOPPED", "DONE"], row.log
        for vm_id in (1, 2):
            row.cloud.vm_action(row.caller("eva"), "resume", vm_id)
        row.run(3)
        assert states(row) == ["RUNNING", "RUNNING", "RUNNING", "DONE"], row.log
        assert row.cloud.audit() == []


def test_what_was_paused_is_known_though_the_ledger_is_older(tmp_path: Path) -> None:
    """By LEASE_STATUS: the backup was made before anything was paused."""
    with front_row(tmp_path, hosts=HOST, instant=True) as row:
        gang_of_three(row)
        older = backed_up(row.folder)
        row.cloud.vm_action(row.caller("eva"), "poweroff", 2)
        row.run(2)
        request = row.submit("lea", cpu="3")
        row.run(4)
        assert states(row) == ["STOPPED", "STOPPED", "UNDEPLOYED", "RUNNING"], row.log
        with restored(row, older):
            row.cloud.vm_action(row.caller("lea"), "terminate-hard", request)
            row.run(4)
            assert states(row) == ["RUNNING", "RUNNING", "UNDEPLOYED", "DONE"], row.log
