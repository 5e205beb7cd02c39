"""The recount of plans that suspend in place: what runs counts everywhere, oned's books where oned counts."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.host import HostState
from one_preempt.core.model.lease import LeaseType, PreemptionMethod
from one_preempt.core.model.ledger import ActionRecord, OpenPreemption
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import Action, ActionKind, Placement, Plan, Preemption, Victim
from one_preempt.core.model.virtual_machine import LcmState, LockLevel, VirtualMachine, VmState
from tests.core.recounted_cluster import (
    NOW_S,
    WHY,
    cluster,
    codes,
    deploy,
    host,
    lease,
    plan,
    running,
    waiting,
    with_lease,
    with_vm,
)

VICTIM, PREEMPTOR, OTHER = running(1, 0, cpus=2), waiting(2, cpus=2), waiting(3)
AT_REST = replace(VICTIM, state=VmState.SUSPENDED, lcm_state=LcmState.LCM_INIT)
LOCKED = replace(AT_REST, lock_level=LockLevel.MANAGE, lock_owner_uid=0)
PREEMPTION = Preemption(
    "2@1", 2, (Victim(1, 1, 0, PreemptionMethod.SUSPEND),), (Placement(2, 0),), "moml", 0, True, 0, NOW_S
)
RECORD = ActionRecord("2@1/lock/1", ActionKind.LOCK, 1, 1, "2@1", 0, None, "t", "t", NOW_S, 1, Outcome.ACCEPTED, NOW_S)
SUSPENDED = replace(RECORD, id="2@1/suspend/1", kind=ActionKind.SUSPEND)
GAVE_WAY = replace(lease(1, lease_type=LeaseType.BE_SUSPENDABLE), preempted_by=2, shielded_by_lock=True)


def state(victim: VirtualMachine = LOCKED, *more: VirtualMachine) -> ClusterState:
    made = cluster(
        [host(0, [victim, *(vm for vm in more if vm.host_id == 0)])],
        [victim, PREEMPTOR, OTHER, *more],
        [GAVE_WAY, replace(lease(2), may_preempt=True)],
    )
    records = {one.id: one for one in (RECORD, SUSPENDED)} if victim is not VICTIM else {}
    return replace(made, preemptions=(OpenPreemption(PREEMPTION, NOW_S),), actions=records)


def step(kind: ActionKind, *after: str) -> Action:
    return Action(f"2@1/{kind}/1", kind, 1, 1, WHY, host_id=0, after=after, preemption_id="2@1", lock_owner_uid=0)


def start(*after: str) -> Action:
    return replace(deploy(2, 0, *after), preemption_id="2@1", enforce_capacity=False)


SUSPEND, LOCK = step(ActionKind.SUSPEND), step(ActionKind.LOCK, "2@1/suspend/1")
UNLOCK = replace(step(ActionKind.UNLOCK), preemption_id=None)
RESUME = replace(step(ActionKind.RESUME, "2@1/unlock/1"), preemption_id=None)
STOP = replace(step(ActionKind.STOP), preemption_id=None)


def test_the_whole_sequence_is_sound() -> None:
    assert codes(state(VICTIM), plan(SUSPEND, LOCK, start("2@1/lock/1"))) == []
    assert codes(state(), plan(start())) == []
    assert codes(replace(state(), preemptions=()), plan(UNLOCK, RESUME)) == []


@pytest.mark.parametrize(
    ("made", "broken"),
    [
        (plan(SUSPEND, LOCK, start("2@1/suspend/1")), ["not-enforced", "over-capacity"]),
        (plan(SUSPEND, LOCK, start()), ["not-enforced", "over-capacity"]),
        (plan(SUSPEND, LOCK, replace(start("2@1/lock/1"), enforce_capacity=True)), ["over-capacity"]),
        (plan(replace(deploy(3, 0), enforce_capacity=False)), ["not-enforced", "over-capacity"]),
    ],
)
def test_nothing_is_started_unenforced_before_its_victim_is_locked(made: Plan, broken: list[str]) -> None:
    assert codes(state(VICTIM), made) == broken


@pytest.mark.parametrize(
    "victim",
    [AT_REST, replace(LOCKED, lock_owner_uid=5), replace(LOCKED, lock_level=LockLevel.USE), VICTIM],
    ids=["not locked", "locked by its owner", "locked at another level", "running"],
)
def test_who_can_be_resumed_takes_his_room(victim: VirtualMachine) -> None:
    assert codes(state(victim), plan(start())) == ["not-enforced", "over-capacity"]


def test_two_do_not_share_the_room_of_one() -> None:
    beside = replace(deploy(3, 0), enforce_capacity=False)
    assert codes(state(), plan(start(), beside)) == ["over-capacity"]
    assert codes(state(), plan(deploy(3, 0))) == ["over-capacity"]


def test_nobody_is_unlocked_while_his_room_is_taken() -> None:
    taken = replace(state(LOCKED, running(4, 0)), preemptions=())
    assert codes(taken, plan(UNLOCK, RESUME)) == ["over-capacity"]
    assert codes(replace(state(), preemptions=()), plan(UNLOCK, RESUME, start())) == ["over-capacity"]


@pytest.mark.parametrize("victim", [replace(LOCKED, lock_owner_uid=5), replace(LOCKED, lock_level=LockLevel.ADMIN)])
def test_no_lock_of_others_is_opened(victim: VirtualMachine) -> None:
    assert "foreign-lock" in codes(replace(state(victim), preemptions=()), plan(UNLOCK))


def test_a_lock_that_nobody_recorded_is_not_opened() -> None:
    unknown = replace(state(), preemptions=(), actions={SUSPENDED.id: SUSPENDED})
    assert codes(unknown, plan(UNLOCK)) == ["foreign-lock"]
    told = replace(LOCKED, user_template={"LEASE_STATUS": ("suspended in place for lease 2, and locked",)})
    assert codes(with_vm(unknown, told), plan(UNLOCK)) == []


def test_a_lock_that_we_only_meant_to_set_is_somebody_elses() -> None:
    never_sent = replace(RECORD, attempts=0, outcome=None, outcome_at_s=None)
    meant = replace(state(), preemptions=(), actions={one.id: one for one in (SUSPENDED, never_sent)})
    assert codes(meant, plan(UNLOCK)) == ["foreign-lock"]


def test_an_owner_who_writes_our_words_opens_no_lock_of_an_administrator() -> None:
    told = replace(LOCKED, user_template={"LEASE_STATUS": ("suspended in place for lease 2, and locked",)})
    his = replace(with_lease(state(told), replace(GAVE_WAY, preempted_by=None)), preemptions=(), actions={})
    assert codes(his, plan(UNLOCK)) == ["foreign-lock"]


def test_a_locked_vm_is_neither_resumed_nor_stopped_before_it_is_unlocked() -> None:
    calm = replace(state(), preemptions=())
    assert codes(calm, plan(replace(RESUME, after=()))) == ["locked-vm"]
    assert codes(calm, plan(STOP)) == ["locked-vm", "no-preemption"]
    lost = replace(calm, snapshot=replace(calm.snapshot, hosts={0: replace(host(0, [LOCKED]), state=HostState.ERROR)}))
    assert codes(lost, plan(UNLOCK, STOP)) == []
    assert codes(lost, plan(STOP, UNLOCK)) == ["locked-vm"]


def test_what_its_owner_suspended_is_his_to_resume() -> None:
    his = replace(state(AT_REST), preemptions=(), actions={})
    his = replace(his, leases={**his.leases, 1: replace(GAVE_WAY, preempted_by=None)})
    assert codes(his, plan(replace(RESUME, after=()))) == ["not-ours-to-resume"]


def test_pause_holds_for_suspending_and_not_for_returning() -> None:
    assert "paused" in codes(replace(state(VICTIM), paused=True), plan(SUSPEND))
    assert codes(replace(state(), preemptions=(), paused=True), plan(UNLOCK, RESUME)) == []
