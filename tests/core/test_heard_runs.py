"""What was heard between two looks: when runs began, and what ran and was over before anybody looked."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from one_preempt.core.admission.rules import AdmissionRules
from one_preempt.core.model.lease import LeaseTerms
from one_preempt.core.model.ledger import ActionRecord, LeaseRecord, Ledger
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import ActionKind
from one_preempt.core.model.virtual_machine import VirtualMachine, VmState
from one_preempt.core.reconcile import reconcile
from one_preempt.core.reconciliation.served_time import clocked
from one_preempt.core.reconciliation.settled_actions import settle_actions
from one_preempt.core.reconciliation.watch import Watch
from tests.core.recounted_cluster import NOW_S, cluster, host, running, waiting

LOOKED_S = NOW_S + 100
RUNS = "RUNNING"


def recorded(*vms: VirtualMachine) -> LeaseRecord:
    ids = tuple(vm.id for vm in vms)
    return LeaseRecord(1, LeaseTerms(size=len(ids)), 5, 100, ids, True, False, NOW_S, NOW_S)


def began(heard: dict[tuple[int, str], int], before: dict[int, str], *, after_s: int) -> int | None:
    """Since when two VMs run as they are seen so long after they were in the states `before`."""
    vms = running(1, 0), running(2, 1)
    return clocked(recorded(*vms), vms, Watch(LOOKED_S + after_s, LOOKED_S, heard, before)).run_began_at_s


@pytest.mark.parametrize("after_s", [60, 61])
def test_a_run_begins_when_its_last_vm_was_heard_to_run(after_s: int) -> None:
    heard = {(1, RUNS): LOOKED_S + 3, (2, RUNS): LOOKED_S + 8}
    assert began(heard, {1: "HOLD", 2: "HOLD"}, after_s=after_s) == LOOKED_S + 8
    assert began(heard, {1: "HOLD", 2: RUNS}, after_s=after_s) == LOOKED_S + 3


@pytest.mark.parametrize(
    "heard",
    [
        {(1, RUNS): LOOKED_S + 3},
        {(1, RUNS): LOOKED_S + 3, (2, "BOOT"): LOOKED_S + 8},
        {(1, RUNS): LOOKED_S + 3, (2, RUNS): LOOKED_S - 1},
        {(1, RUNS): LOOKED_S + 3, (2, RUNS): LOOKED_S + 62},
    ],
)
def test_what_was_not_heard_of_each_is_seen_instead(heard: dict[tuple[int, str], int]) -> None:
    assert began(heard, {1: "HOLD", 2: "HOLD"}, after_s=60) == LOOKED_S + 60
    assert began(heard, {1: "HOLD", 2: "HOLD"}, after_s=61) == NOW_S


def test_a_run_that_began_and_ended_between_two_looks_has_served() -> None:
    ran = running(1, 0)
    stay = replace(ran.history[0], running_end_at_s=LOOKED_S + 50)
    rests = replace(ran, state=VmState.SUSPENDED, history=(stay,))
    told = Watch(LOOKED_S + 90, LOOKED_S, {(1, RUNS): LOOKED_S + 20}, {1: "PENDING"})
    after = clocked(recorded(rests), [rests], told)
    assert (after.served_s, after.run_began_at_s) == (30, None)
    assert clocked(recorded(rests), [rests], replace(told, heard={})) == recorded(rests)


def test_a_start_has_succeeded_of_what_was_heard_to_run_and_is_gone() -> None:
    started = ActionRecord(
        "deploy/1/0", ActionKind.DEPLOY, 1, 1, None, 0, 0, "fits", "has room", NOW_S, attempts=1,
        outcome=Outcome.ACCEPTED, outcome_at_s=NOW_S,
    )  # fmt: skip
    snapshot = cluster([], [waiting(2)]).snapshot

    def succeeded(heard: dict[tuple[int, str], int]) -> list[bool | None]:
        settled = settle_actions(snapshot, {started.id: started}, Watch(LOOKED_S, heard=heard))
        return [one.succeeded for one in settled.closed]

    assert (succeeded({}), succeeded({(1, "BOOT"): NOW_S}), succeeded({(1, RUNS): NOW_S})) == ([False], [False], [True])


def test_a_run_that_began_in_the_future_by_a_clock_set_back_counts_from_now() -> None:
    """Else it would be expected to end a day later than it does, and others would be promised its room then."""
    terms = LeaseTerms(duration_s=600)
    record = replace(recorded(running(1, 0)), terms=terms, run_began_at_s=NOW_S + 86_400, served_s=60)
    after = clocked(record, [running(1, 0)], Watch(NOW_S))
    assert (after.run_began_at_s, after.served_s) == (NOW_S, 60)
    assert clocked(after, [running(1, 0)], Watch(NOW_S + 5)) is after


def test_victims_of_what_is_the_future_since_the_clock_was_set_back_count_for_no_hour() -> None:
    ledger = Ledger(victims_last_hour=(NOW_S - 60, NOW_S, NOW_S + 1))
    state = reconcile(cluster([host(0)], []).snapshot, ledger, AdmissionRules(), NOW_S).state
    assert state.victims_last_hour == (NOW_S - 60, NOW_S)


def test_all_runs_are_looked_at_once_the_clock_was_set_back() -> None:
    began = replace(recorded(running(1, 0)), run_began_at_s=NOW_S + 3000)
    ledger = Ledger(leases={1: began}, vm_states={1: RUNS}, changed_lease_ids=frozenset())
    snapshot = cluster(hosts=[host(0)], vms=[running(1, 0)]).snapshot
    snapshot = replace(snapshot, changed_vm_ids=frozenset(), changed_host_ids=frozenset())
    last = reconcile(snapshot, ledger, AdmissionRules(), NOW_S + 3060).state
    assert reconcile(snapshot, ledger, AdmissionRules(), NOW_S + 3075, NOW_S + 3060, last=last).changes.updated == ()
    (after,) = reconcile(snapshot, ledger, AdmissionRules(), NOW_S + 75, NOW_S + 3060, last=last).changes.updated
    assert after.run_began_at_s == NOW_S + 75
