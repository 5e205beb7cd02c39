"""The time of a lease of several VMs: its owner cannot stop it by one of them; what the cloud does costs it none."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from one_preempt.core.model.lease import LeaseTerms
from one_preempt.core.model.ledger import LeaseRecord
from one_preempt.core.model.virtual_machine import HistoryAction, LcmState, VirtualMachine, VmState
from one_preempt.core.reconciliation.served_time import clocked
from one_preempt.core.reconciliation.watch import Watch
from tests.core.reconciliation.test_sent_out import STOP
from tests.core.recounted_cluster import NOW_S, running

LATER_S = NOW_S + 1000
RECORD = LeaseRecord(1, LeaseTerms(size=2), 5, 100, (1, 2), True, False, NOW_S, NOW_S, run_began_at_s=NOW_S)
ONE, OTHER = running(1, 0), running(2, 1)


def at(vm: VirtualMachine, state: VmState | LcmState, *, ended_at_s: int = 0, action: int = 0) -> VirtualMachine:
    stay = replace(vm.history[0], running_end_at_s=ended_at_s, action=action)
    vm_state, lcm_state = (VmState.ACTIVE, int(state)) if isinstance(state, LcmState) else (state, 0)
    return replace(vm, state=vm_state, lcm_state=lcm_state, history=(stay,))


def served(record: LeaseRecord, *vms: VirtualMachine) -> tuple[int, int | None]:
    """Time served before the present run, and since when that goes on; all were seen to run or wait a moment ago."""
    before = {1: "RUNNING", 2: "RUNNING" if record.run_began_at_s is not None else "PENDING"}
    after = clocked(record, vms, Watch(LATER_S, LATER_S - 15, states_before=before))
    return after.served_s, after.run_began_at_s


@pytest.mark.parametrize("state", [VmState.POWEROFF, VmState.SUSPENDED, VmState.STOPPED, VmState.UNDEPLOYED])
def test_the_time_of_the_others_goes_on_when_an_owner_takes_one_away(state: VmState) -> None:
    assert served(RECORD, ONE, at(OTHER, state, ended_at_s=NOW_S + 10)) == (0, NOW_S)


@pytest.mark.parametrize(
    "state", [LcmState.BOOT_POWEROFF, LcmState.BOOT_SUSPENDED, LcmState.BOOT_UNDEPLOY, LcmState.PROLOG_RESUME]
)
def test_it_goes_on_while_what_an_owner_took_away_comes_back(state: LcmState) -> None:
    assert served(RECORD, ONE, at(OTHER, state, ended_at_s=NOW_S + 10)) == (0, NOW_S)
    waits = at(OTHER, VmState.PENDING, ended_at_s=NOW_S + 10, action=HistoryAction.UNDEPLOY)
    assert served(RECORD, ONE, waits) == (0, NOW_S)


def test_it_goes_on_while_an_owner_ends_one() -> None:
    assert served(RECORD, ONE, at(OTHER, LcmState.EPILOG, ended_at_s=NOW_S + 10)) == (0, NOW_S)


def test_an_owner_who_takes_all_away_stops_it_with_the_last() -> None:
    one, other = (at(vm, VmState.POWEROFF, ended_at_s=NOW_S + 10 * vm.id) for vm in (ONE, OTHER))
    assert served(RECORD, one, other) == (20, None)


def test_it_was_served_until_now_by_one_that_is_gone_since_somebody_looked() -> None:
    assert served(RECORD, at(ONE, VmState.POWEROFF, ended_at_s=NOW_S + 10)) == (1000, None)


@pytest.mark.parametrize("state", [LcmState.BOOT_FAILURE, LcmState.BOOT, LcmState.PROLOG, VmState.PENDING])
def test_what_failed_and_what_the_cloud_creates_anew_costs_no_time(state: VmState | LcmState) -> None:
    assert served(RECORD, ONE, at(OTHER, state, ended_at_s=NOW_S + 10)) == (10, None)


def test_what_we_sent_out_costs_no_time_until_all_are_back() -> None:
    sent_out = replace(RECORD, preempted_by=7, run_began_at_s=None, served_s=10)
    for state in (VmState.STOPPED, VmState.PENDING, LcmState.PROLOG_RESUME, LcmState.BOOT_STOPPED):
        assert served(sent_out, ONE, at(OTHER, state, action=HistoryAction.STOP)) == (10, None)
    assert served(sent_out, ONE, OTHER) == (10, LATER_S)


def test_an_owner_who_takes_one_away_as_it_comes_back_gains_no_time() -> None:
    sent_out = replace(RECORD, preempted_by=7, run_began_at_s=None, served_s=10)
    assert served(sent_out, ONE, at(OTHER, VmState.POWEROFF, ended_at_s=NOW_S + 10)) == (10, LATER_S)


def test_a_gang_of_which_one_was_suspended_in_place_is_not_served() -> None:
    rests = at(OTHER, VmState.SUSPENDED, ended_at_s=NOW_S + 10)
    after = clocked(RECORD, (ONE, rests), Watch(LATER_S), resting={2})
    assert (after.served_s, after.run_began_at_s) == (10, None)


def test_what_leaves_by_a_call_whose_answer_was_lost_costs_no_time_either() -> None:
    leaves = at(OTHER, LcmState.SAVE_STOP, ended_at_s=NOW_S + 20)
    for answered in (STOP, replace(STOP, outcome=None, outcome_at_s=None)):
        after = clocked(RECORD, (ONE, leaves), Watch(LATER_S), sent_out=answered)
        assert (after.served_s, after.run_began_at_s) == (20, None)
