"""An owner takes LEASE out of a VM's template in an editor, and what the scheduler wrote there stays behind."""

from __future__ import annotations

from pathlib import Path

from one_preempt.simulation.simulated_cloud.states import VmState
from tests.hostile.front_row import FrontRow, front_row

CANCELLABLE = 'LEASE=[TYPE="BE-CANCELLABLE"]'


def status(row: FrontRow, vm_id: int) -> str:
    (text,) = row.vm(vm_id).user_template["LEASE_STATUS"]
    return str(text)


def take_lease_out(row: FrontRow, vm_id: int) -> None:
    row.cloud.vm_update(row.caller("eva"), vm_id, f'LEASE_STATUS="{status(row, vm_id)}"', 0)
    row.run(2)


def test_what_counts_no_more_is_not_said_of_a_running_vm(tmp_path: Path) -> None:
    with front_row(tmp_path) as row:
        vm = row.submit("eva", more=CANCELLABLE)
        row.run(4)
        assert status(row, vm) == "running (BE-CANCELLABLE)"
        take_lease_out(row, vm)
        assert status(row, vm) == ""


def test_one_that_waits_on_hold_is_told_to_be_released(tmp_path: Path) -> None:
    with front_row(tmp_path) as row:
        row.submit("paul", cpu="4")
        row.submit("paul", cpu="4")
        vm = row.submit("eva", more=CANCELLABLE)
        row.run(4)
        assert "No host for VM" in status(row, vm)
        take_lease_out(row, vm)
        assert status(row, vm) == "on hold, and without a LEASE attribute: release it, or write one again"
        row.cloud.vm_action(row.caller("eva"), "release", vm)
        row.run(2)
        assert (row.vm(vm).state, status(row, vm)) == (VmState.PENDING, "")
