"""Whose change of LEASE does not count reads why at the VM itself, as long as that is so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.front_row import FrontRow, front_row
from tests.stories.world import RIGHTS

FOR_AN_HOUR = 'LEASE=[TYPE="DC-NON-PREEMPTABLE",DURATION="01:00:00"]'
FOR_TWO_HOURS = 'LEASE=[TYPE="DC-NON-PREEMPTABLE",DURATION="02:00:00"]'
NO_LONGER = "DURATION of DC-NON-PREEMPTABLE cannot become longer once its VMs have started"


def said(row: FrontRow, vm_id: int) -> str:
    """Its SCHED_MESSAGE, after enough cycles for all that is said anew."""
    row.run(2)
    return str(row.vm(vm_id).user_template.get("SCHED_MESSAGE", [""])[0])


def write(row: FrontRow, vm_id: int, lease: str) -> None:
    row.cloud.vm_update(row.caller("eva"), vm_id, lease, 1)


def test_a_change_that_is_not_granted_is_answered_until_it_is_taken_back(tmp_path: Path) -> None:
    with front_row(tmp_path) as row:
        vm = row.submit("eva", more=FOR_AN_HOUR)
        assert said(row, vm) == ""
        write(row, vm, FOR_TWO_HOURS)
        assert said(row, vm) == f"one_preempt: the terms of lease {vm} stay as admitted: {NO_LONGER}"
        write(row, vm, FOR_AN_HOUR)
        assert said(row, vm) == ""


def test_what_waits_reads_of_its_change_first_and_then_why_it_waits(tmp_path: Path) -> None:
    with front_row(tmp_path) as row:
        vm = row.submit("eva", cpu="40", more='LEASE=[TYPE="BE-SUSPENDABLE"]')
        assert said(row, vm).startswith("one_preempt: No host for VM")
        write(row, vm, 'LEASE=[TYPE="BE-SUSPENDIBLE"]')
        told = said(row, vm)
        assert told.startswith(f"one_preempt: the terms of lease {vm} stay as admitted: TYPE 'BE-SUSPENDIBLE' is")
        assert ". No host for VM" in told


def test_a_refused_start_that_is_mended_wrongly_says_so(tmp_path: Path) -> None:
    granted = {**RIGHTS["rights"][0], "max_ahead_s": 86_400}
    with front_row(tmp_path, {"leases": {**RIGHTS, "rights": [granted]}}) as row:
        vm = row.submit("eva", cpu="40", more='LEASE=[TYPE="DC-NON-PREEMPTABLE",START="+01:00:00"]')
        assert said(row, vm) == ""
        assert str(row.vm(vm).user_template["LEASE_STATUS"][0]).startswith("refused: ")
        write(row, vm, 'LEASE=[TYPE="DC-NON-PREEMPTABLE",START="tomorrow"]')
        assert "stay as admitted: START 'tomorrow' is not usable" in said(row, vm)


@pytest.mark.parametrize("by_rule", [False, True])
def test_a_running_vm_reads_that_what_was_written_into_it_has_no_effect(by_rule: bool, tmp_path: Path) -> None:
    rule = {"name": "all", "match": {"group": "externals"}, "type": "BE-SUSPENDABLE"}
    with front_row(tmp_path, {"leases": {**RIGHTS, "rules": [rule] if by_rule else []}}) as row:
        vm = row.submit("eva")
        assert said(row, vm) == ""
        write(row, vm, 'LEASE=[TYPE="BE-SUSPENDABLE",COLOUR="red"]')
        assert "LEASE has the unknown key 'COLOUR'" in said(row, vm)


def test_who_is_served_as_without_lease_reads_so(tmp_path: Path) -> None:
    rights = [{**RIGHTS["rights"][0], "max_duration_s": 60}]
    with front_row(tmp_path, {"leases": {**RIGHTS, "beyond_rights": "fall_back", "rights": rights}}) as row:
        vm = row.submit("eva", more=FOR_AN_HOUR)
        for _ in range(2):
            assert said(row, vm).startswith("one_preempt: served as without LEASE: DURATION: user 'eva'"), row.log


def test_who_takes_away_all_attributes_of_what_waits_on_hold_reads_that_it_stays_there(tmp_path: Path) -> None:
    """LEASE_STATUS goes with them, and nothing starts what is on HOLD without LEASE."""
    with front_row(tmp_path) as row:
        vm = row.submit("eva", cpu="40", more='LEASE=[TYPE="BE-SUSPENDABLE"]')
        assert said(row, vm).startswith("one_preempt: No host for VM")
        row.cloud.vm_update(row.caller("eva"), vm, 'PROJECT="none"', 0)
        assert said(row, vm) == ""
        (told,) = row.vm(vm).user_template["LEASE_STATUS"]
        assert told == "on hold, and without a LEASE attribute: release it, or write one again"
