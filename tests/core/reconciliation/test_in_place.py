"""What rests by our hand, and whose lock it is: read off the ledger, or off LEASE_STATUS where that was lost."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from one_preempt.core.admission.rules import AdmissionRules, LeaseRule, VmMatch
from one_preempt.core.lease_status import in_place_status, preemptor_in_status, says_in_place
from one_preempt.core.model.lease import LeaseState, LeaseTerms, LeaseType, PreemptionMethod
from one_preempt.core.model.ledger import ActionRecord, LeaseRecord, Ledger
from one_preempt.core.model.modes_and_limits import VictimRules
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import ActionKind
from one_preempt.core.model.pool_snapshot import PoolSnapshot, RaftState
from one_preempt.core.model.virtual_machine import (
    LcmState,
    LockLevel,
    PciRequest,
    ScheduledAction,
    Topology,
    VirtualMachine,
    VmState,
)
from one_preempt.core.reconcile import reconcile
from one_preempt.core.reconciliation.in_place import in_place
from one_preempt.core.reconciliation.observation import Progress, observe_action
from one_preempt.core.victims import first_methods, method_is_possible
from tests.core.recounted_cluster import NOW_S, host, lease, running

OWN_UID = 0
PREEMPTOR = 9
RUNS = running(1, 0)
RESTS = replace(RUNS, state=VmState.SUSPENDED, lcm_state=LcmState.LCM_INIT)
TOLD = replace(RESTS, user_template={"LEASE_STATUS": (in_place_status(PREEMPTOR),)})
LOCKED = replace(TOLD, lock_level=LockLevel.MANAGE, lock_owner_uid=OWN_UID)
SAVED = replace(RUNS, lcm_state=LcmState.SAVE_SUSPEND)
RETURNS = replace(RUNS, lcm_state=LcmState.BOOT_SUSPENDED)


def record(kind: ActionKind, outcome: Outcome | None = Outcome.ACCEPTED, attempts: int = 1) -> ActionRecord:
    return ActionRecord(
        f"9@1/{kind}/1", kind, 1, 1, "9@1", 0, None, "test", "test", NOW_S - 60, attempts, outcome, NOW_S - 60
    )


def snapshot(vm: VirtualMachine, own_uid: int = OWN_UID) -> PoolSnapshot:
    return PoolSnapshot(NOW_S, "7.4.0", 0, RaftState.SOLO, {0: host(0, [vm])}, {vm.id: vm}, own_uid=own_uid)


SUSPEND, LOCK, UNLOCK, RESUME = ActionKind.SUSPEND, ActionKind.LOCK, ActionKind.UNLOCK, ActionKind.RESUME
REFUSED, DROPPED = Outcome.REFUSED, Outcome.DROPPED


@pytest.mark.parametrize(
    ("kind", "outcome", "vm", "before", "progress"),
    [
        (SUSPEND, Outcome.ACCEPTED, SAVED, "RUNNING", Progress.UNDER_WAY),
        (SUSPEND, Outcome.ACCEPTED, RESTS, "SAVE_SUSPEND", Progress.LASTING),
        (SUSPEND, None, RESTS, "RUNNING", Progress.LASTING),
        (SUSPEND, DROPPED, RESTS, "RUNNING", Progress.FAILED),
        (SUSPEND, Outcome.ACCEPTED, RETURNS, "SUSPENDED", Progress.LASTING),
        (SUSPEND, Outcome.ACCEPTED, RUNS, "BOOT_SUSPENDED", Progress.DONE),
        (SUSPEND, None, RUNS, "SUSPENDED", Progress.DONE),
        (SUSPEND, Outcome.ACCEPTED, RUNS, "SAVE_SUSPEND", Progress.FAILED),
        (SUSPEND, None, RUNS, "RUNNING", Progress.TO_ISSUE),
        (SUSPEND, Outcome.ACCEPTED, replace(RESTS, state=VmState.STOPPED), "SUSPENDED", Progress.DONE),
        (SUSPEND, Outcome.ACCEPTED, None, "SUSPENDED", Progress.DONE),
        (LOCK, Outcome.ACCEPTED, LOCKED, "", Progress.LASTING),
        (LOCK, None, LOCKED, "", Progress.LASTING),
        (LOCK, None, TOLD, "", Progress.TO_ISSUE),
        (LOCK, Outcome.ACCEPTED, TOLD, "", Progress.DONE),
        (LOCK, REFUSED, LOCKED, "", Progress.FAILED),
        (LOCK, Outcome.ACCEPTED, None, "", Progress.DONE),
        (UNLOCK, Outcome.ACCEPTED, TOLD, "", Progress.DONE),
        (UNLOCK, None, LOCKED, "", Progress.TO_ISSUE),
        (UNLOCK, None, TOLD, "", Progress.DONE),
        (RESUME, Outcome.ACCEPTED, RESTS, "", Progress.FAILED),
        (RESUME, None, RESTS, "", Progress.TO_ISSUE),
        (RESUME, Outcome.ACCEPTED, RETURNS, "", Progress.UNDER_WAY),
        (RESUME, Outcome.ACCEPTED, RUNS, "", Progress.DONE),
    ],
)
def test_what_lasts_stays_open_until_it_is_undone(
    kind: ActionKind, outcome: Outcome | None, vm: VirtualMachine | None, before: str, progress: Progress
) -> None:
    assert observe_action(record(kind, outcome), vm, NOW_S, before) is progress


def test_an_open_record_tells_what_rests_by_our_hand() -> None:
    resting = in_place(snapshot(RESTS), {"a": record(SUSPEND)}, ())
    assert (dict(resting.occasions), resting.own_locks) == ({1: "9@1"}, frozenset())
    assert in_place(snapshot(RESTS), {}, ()).vm_ids == frozenset()
    assert in_place(snapshot(RESTS), {"a": record(SUSPEND, attempts=0)}, ()).vm_ids == frozenset()
    assert in_place(snapshot(RESTS), {"a": record(SUSPEND, DROPPED)}, ()).vm_ids == frozenset()


@pytest.mark.parametrize(
    ("vm", "own_uid", "kind", "ours"),
    [
        (LOCKED, OWN_UID, LOCK, True),
        (LOCKED, OWN_UID, UNLOCK, False),
        (LOCKED, 3, LOCK, False),
        (replace(LOCKED, lock_owner_uid=5), OWN_UID, LOCK, False),
        (replace(LOCKED, lock_level=LockLevel.USE), OWN_UID, LOCK, False),
        (replace(LOCKED, lock_level=LockLevel.ADMIN), OWN_UID, LOCK, False),
        (TOLD, OWN_UID, LOCK, False),
    ],
)
def test_a_lock_is_ours_by_its_owner_its_level_and_our_record(
    vm: VirtualMachine, own_uid: int, kind: ActionKind, ours: bool
) -> None:
    assert (1 in in_place(snapshot(vm, own_uid), {"a": record(kind)}, ()).own_locks) is ours


RULES = AdmissionRules(rules=(LeaseRule("batch", VmMatch(group="users"), LeaseType.BE_SUSPENDABLE),))


def test_a_lost_ledger_is_replaced_by_what_the_owner_could_not_write() -> None:
    lost = reconcile(snapshot(LOCKED), Ledger(), RULES, NOW_S)
    assert lost.changes.admitted[0].preempted_by == PREEMPTOR
    assert lost.state.leases[1].state is LeaseState.PREEMPTED
    resting = in_place(lost.state.snapshot, {}, lost.state.leases.values())
    assert resting.vm_ids == resting.own_locks == frozenset({1})


@pytest.mark.parametrize("vm", [TOLD, RESTS, replace(LOCKED, lock_owner_uid=5), replace(LOCKED, user_template={})])
def test_without_our_lock_or_our_words_a_suspended_vm_is_its_owners(vm: VirtualMachine) -> None:
    lost = reconcile(snapshot(vm), Ledger(), RULES, NOW_S)
    assert lost.state.leases[1].state is LeaseState.PAUSED_BY_OWNER
    assert in_place(lost.state.snapshot, {}, lost.state.leases.values()).own_locks == frozenset()


def test_a_lease_that_is_new_to_a_ledger_brings_no_lock_of_ours_with_it() -> None:
    """Its owner wrote our words before an administrator locked it."""
    other = LeaseRecord(7, LeaseTerms(), 5, 100, (7,), True, False, NOW_S, NOW_S)
    known = reconcile(snapshot(LOCKED), Ledger(leases={7: other}), RULES, NOW_S)
    assert known.changes.admitted[0].preempted_by is None
    assert in_place(known.state.snapshot, {}, known.state.leases.values()).own_locks == frozenset()


@pytest.mark.parametrize(
    ("kind", "preemptor"),
    [(LeaseType.BE_SUSPENDABLE, 4), (LeaseType.BE_CANCELLABLE, None), (LeaseType.DC_NON_PREEMPTABLE, None)],
)
def test_what_never_returns_was_sent_out_by_nobody_whatever_its_owner_writes(
    kind: LeaseType, preemptor: int | None
) -> None:
    words = "preempted by lease 4; returns when there is room"
    stopped = replace(RESTS, state=VmState.STOPPED, user_template={"LEASE_STATUS": (words,)})
    rules = AdmissionRules(rules=(LeaseRule("batch", VmMatch(group="users"), kind),))
    lost = reconcile(snapshot(stopped), Ledger(), rules, NOW_S)
    assert [one.preempted_by for one in lost.changes.admitted] == [preemptor]


def test_the_words_of_both_ways_out_name_the_preemptor() -> None:
    assert preemptor_in_status(LOCKED) == PREEMPTOR
    assert says_in_place(LOCKED)
    stopped = replace(LOCKED, user_template={"LEASE_STATUS": ("preempted by lease 4; returns when there is room",)})
    assert (preemptor_in_status(stopped), says_in_place(stopped)) == (4, False)


# -- who may rest ----------------------------------------------------------------------------------------

GIVES_WAY = lease(1, lease_type=LeaseType.BE_SUSPENDABLE)
LISTED = {LeaseType.BE_SUSPENDABLE: (PreemptionMethod.SUSPEND, PreemptionMethod.STOP)}


@pytest.mark.parametrize(
    "vm",
    [
        replace(RUNS, pci_requests=(PciRequest("10de"),)),
        replace(RUNS, topology=Topology(1, 1, "CORE", None, None)),
        replace(RUNS, topology=Topology(1, 1, "NONE", 2, None)),
        replace(RUNS, lock_level=LockLevel.ADMIN),
        replace(RUNS, scheduled_actions=(ScheduledAction("resume", "+60"),)),
        replace(RUNS, scheduled_actions=(ScheduledAction("", ""),)),
    ],
)
def test_some_vms_never_rest_in_place(vm: VirtualMachine) -> None:
    assert method_is_possible(snapshot(RUNS), RUNS, GIVES_WAY, PreemptionMethod.SUSPEND)
    assert not method_is_possible(snapshot(vm), vm, GIVES_WAY, PreemptionMethod.SUSPEND)


def test_what_has_a_deadline_never_rests_in_place() -> None:
    terms = replace(GIVES_WAY.terms, deadline_at_s=NOW_S + 9999)
    assert not method_is_possible(snapshot(RUNS), RUNS, replace(GIVES_WAY, terms=terms), PreemptionMethod.SUSPEND)


def test_listing_the_method_is_not_enough() -> None:
    rules = VictimRules(methods=LISTED)
    assert first_methods(snapshot(RUNS), GIVES_WAY, [RUNS], rules) == (PreemptionMethod.STOP,)
    opted_in = replace(rules, suspend_in_place=True)
    assert first_methods(snapshot(RUNS), GIVES_WAY, [RUNS], opted_in) == (PreemptionMethod.SUSPEND,)
