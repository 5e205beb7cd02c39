"""What of a stop is seen: when it has failed, and who is sent out by it, how often, and on whose account."""

from __future__ import annotations

from math import inf

import pytest
from msgspec.structs import replace

from one_preempt.core.admission.rules import AdmissionRules, LeaseRule, VmMatch
from one_preempt.core.model.lease import LeaseType
from one_preempt.core.model.ledger import ActionRecord, LeaseRecord, Ledger
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import ActionKind
from one_preempt.core.model.reservation import Reservation
from one_preempt.core.model.virtual_machine import LcmState, VirtualMachine, VmState
from one_preempt.core.reconcile import reconcile
from one_preempt.core.reconciliation.counted_on import CountedOn
from one_preempt.core.reconciliation.observation import SETTLING_S, Progress, observe_action
from one_preempt.core.reconciliation.settled_actions import CANCELLED, OVERRUN
from tests.core.recounted_cluster import NOW_S, cluster, host, running

RULES = AdmissionRules(rules=(LeaseRule("batch", VmMatch(group="users"), LeaseType.BE_SUSPENDABLE),))
RUNS = running(1, 0)
LEAVES = replace(RUNS, lcm_state=LcmState.SAVE_STOP)
OUT = replace(RUNS, state=VmState.STOPPED, lcm_state=LcmState.LCM_INIT)
STOP = ActionRecord(
    "9@1/stop/1", ActionKind.STOP, 1, 1, "9@1", 0, None, "preempted", "makes room", NOW_S - 60, attempts=1,
    outcome=Outcome.ACCEPTED, outcome_at_s=NOW_S - 60,
)  # fmt: skip


def changed(vm: VirtualMachine, stop: ActionRecord, known: LeaseRecord) -> tuple[LeaseRecord, ...]:
    """The records that are written, once the VM is seen like this while the stop is on record."""
    ledger = Ledger(leases={1: known}, open_actions={stop.id: stop}, vm_states={1: "RUNNING"})
    return reconcile(cluster([host(0, [vm])], [vm]).snapshot, ledger, RULES, NOW_S).changes.updated


@pytest.fixture
def known() -> LeaseRecord:
    """The lease of the VM, as it was admitted."""
    (record,) = reconcile(cluster([host(0, [RUNS])], [RUNS]).snapshot, Ledger(), RULES, NOW_S - 600).changes.admitted
    return record


def test_a_preemption_counts_once_however_long_its_victim_takes_to_leave(known: LeaseRecord) -> None:
    (sent_out,) = changed(LEAVES, STOP, known)
    assert (sent_out.preempted_by, sent_out.preemptions) == (9, 1)
    assert changed(LEAVES, STOP, sent_out) == changed(OUT, STOP, sent_out) == ()


def test_what_could_not_be_saved_has_not_been_preempted(known: LeaseRecord) -> None:
    (sent_out,) = changed(LEAVES, STOP, replace(known, preemptions=2))
    assert sent_out.preemptions == 3
    (stayed,) = changed(RUNS, STOP, sent_out)
    assert (stayed.preempted_by, stayed.preemptions) == (None, 2)
    returned = replace(STOP, id="return/1/1", kind=ActionKind.DEPLOY, preemption_id=None)
    (back,) = changed(RUNS, returned, sent_out)
    assert (back.preempted_by, back.preemptions) == (None, 3)


def test_a_failed_stop_for_another_lease_does_not_undo_a_preemption(known: LeaseRecord) -> None:
    (sent_out,) = changed(LEAVES, STOP, known)
    for_another = replace(STOP, id="7@2/stop/1", preemption_id="7@2")
    (back,) = changed(RUNS, for_another, sent_out)
    assert (back.preempted_by, back.preemptions) == (None, 1)


@pytest.mark.parametrize("code", [OVERRUN, CANCELLED])
def test_what_had_its_time_or_is_cancelled_is_owed_no_return(code: str, known: LeaseRecord) -> None:
    ends = replace(STOP, id=f"{code}/1", preemption_id=None, reason_code=code)
    for vm in (LEAVES, OUT):
        assert [(one.preempted_by, one.preemptions) for one in changed(vm, ends, known)] == [(None, 0)]
        assert [(one.preempted_by, one.preemptions) for one in changed(vm, STOP, known)] == [(9, 1)]


@pytest.mark.parametrize(
    ("accepted_ago_s", "progress"),
    [
        (0, Progress.UNDER_WAY),
        (SETTLING_S - 1, Progress.UNDER_WAY),
        (SETTLING_S, Progress.FAILED),
        # The clock was set back: nobody knows since when it should be seen.
        (-1, Progress.FAILED),
    ],
)
def test_a_vm_that_still_runs_has_fallen_back_once_the_call_had_its_time(
    accepted_ago_s: int, progress: Progress
) -> None:
    accepted = replace(STOP, outcome_at_s=NOW_S - accepted_ago_s)
    assert observe_action(accepted, RUNS, NOW_S) is progress


def test_what_oned_refused_has_failed_at_once() -> None:
    refused = replace(STOP, outcome=Outcome.REFUSED, outcome_at_s=NOW_S)
    assert observe_action(refused, RUNS, NOW_S) is Progress.FAILED


def test_a_vm_that_arrives_and_does_not_boot_has_not_moved() -> None:
    moves = replace(STOP, kind=ActionKind.MIGRATE, host_id=0)
    assert observe_action(moves, RUNS, NOW_S) is Progress.DONE
    assert observe_action(moves, replace(RUNS, lcm_state=LcmState.BOOT_MIGRATE_FAILURE), NOW_S) is Progress.FAILED


@pytest.mark.parametrize("vm", [RUNS, LEAVES, OUT, None], ids=["runs", "leaves", "is out", "is gone"])
def test_nothing_that_happens_is_the_effect_of_a_call_that_was_never_made(vm: VirtualMachine | None) -> None:
    intended = replace(STOP, attempts=0, outcome=None, outcome_at_s=None)
    assert observe_action(intended, vm, NOW_S) is Progress.TO_ISSUE


@pytest.mark.parametrize(
    ("reserved", "counted"),
    [
        (Reservation(5, NOW_S + 60, NOW_S + 90, (0,), firm=True), True),
        (Reservation(5, NOW_S - 60, None, (0,), firm=True), True),
        (Reservation(5, NOW_S + 60, NOW_S + 90, (0,), firm=False), False),
        (Reservation(5, NOW_S - 60, NOW_S, (0,), firm=True), False),
        (Reservation(5, NOW_S + 60, NOW_S + 90, (1,), firm=True), False),
    ],
    ids=["to come", "that lasts", "of the queue", "that is over", "elsewhere"],
)
def test_who_is_on_the_hosts_of_a_firm_reservation_is_counted_on(
    reserved: Reservation, counted: bool, known: LeaseRecord
) -> None:
    ledger = Ledger(leases={1: known}, reservations={5: (reserved,)})
    assert (1 in CountedOn(cluster([host(0, [RUNS])], [RUNS]).snapshot, ledger, NOW_S)) is counted


@pytest.mark.parametrize(
    ("reserved", "from_s"),
    [
        (Reservation(5, NOW_S + 60, NOW_S + 90, (0,), firm=True), NOW_S + 60),
        (Reservation(5, NOW_S - 60, NOW_S + 90, (0,), firm=True), NOW_S - 60),
        (Reservation(5, NOW_S + 60, NOW_S + 90, (0,), firm=False), inf),
        (Reservation(5, NOW_S - 60, NOW_S, (0,), firm=True), inf),
        (Reservation(5, NOW_S + 60, NOW_S + 90, (1,), firm=True), inf),
        (Reservation(1, NOW_S + 60, NOW_S + 90, (0,), firm=True), inf),
    ],
    ids=["to come", "late", "of the queue", "that is over", "elsewhere", "its own"],
)
def test_the_hosts_of_a_lease_are_promised_from_the_first_firm_reservation_of_another_on(
    reserved: Reservation, from_s: float, known: LeaseRecord
) -> None:
    ledger = Ledger(leases={1: known}, reservations={reserved.lease_id: (reserved,)})
    counted_on = CountedOn(cluster([host(0, [RUNS])], [RUNS]).snapshot, ledger, NOW_S)
    assert counted_on.promised_at_s(1) == from_s
