"""What an owner reads of a lease that was stopped because its DURATION is over: nobody says that he did it."""

from __future__ import annotations

from pathlib import Path

from one_preempt.simulation.simulated_cloud.states import VmState
from tests.hostile.front_row import front_row

STOPPED_AFTER = {"time": {"overrun": "stop", "overrun_grace_s": 15}}
A_MINUTE = 'LEASE=[TYPE="BE-SUSPENDABLE",DURATION="00:01:00"]'


def test_a_lease_stopped_after_its_duration_is_told_why_it_rests(tmp_path: Path) -> None:
    with front_row(tmp_path, STOPPED_AFTER) as row:
        vm = row.submit("eva", more=A_MINUTE)
        row.run(12)
        assert row.vm(vm).state is VmState.STOPPED
        (told,) = row.vm(vm).user_template["LEASE_STATUS"]
        assert str(told).startswith("its DURATION is over, and it does not run: resume it to have it scheduled again")


def test_one_that_its_owner_stopped_before_is_told_so(tmp_path: Path) -> None:
    with front_row(tmp_path, STOPPED_AFTER) as row:
        vm = row.submit("eva", more=A_MINUTE)
        row.run(3)
        row.cloud.vm_action(row.caller("eva"), "stop", vm)
        row.run(6)
        (told,) = row.vm(vm).user_template["LEASE_STATUS"]
        assert told == "paused by its owner: resume it to have it scheduled (BE-SUSPENDABLE)"


def test_once_resumed_it_is_stopped_again(tmp_path: Path) -> None:
    with front_row(tmp_path, STOPPED_AFTER) as row:
        vm = row.submit("eva", more=A_MINUTE)
        row.run(12)
        for _ in range(2):
            row.cloud.vm_action(row.caller("eva"), "resume", vm)
            row.run(3)
            assert row.is_running(vm), row.log
            row.run(9)
            assert row.vm(vm).state is VmState.STOPPED, row.log
