"""The recount keeps books, and does not trust what it is told about changes for long."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from one_preempt.core.matching.host_table import host_table
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.lease import LeaseTerms
from one_preempt.core.model.plan import Action, ActionKind, Plan, Reason
from one_preempt.core.model.pool_snapshot import PoolSnapshot, RaftState
from one_preempt.core.model.reservation import Reservation, Verdict
from one_preempt.core.model.virtual_machine import LcmState, LockLevel, VirtualMachine, VmState
from one_preempt.core.verify import verify
from one_preempt.core.verify.recounter import FROM_SCRATCH_EVERY, Recounter
from tests.core.recounted_cluster import NOW_S, host, lease, running, waiting

IDLE = Plan(NOW_S, "test")
RUNS, WAITS = running(1, 0, cpus=2), waiting(2, cpus=2)
RESTS = replace(
    RUNS, state=VmState.SUSPENDED, lcm_state=LcmState.LCM_INIT, lock_level=LockLevel.MANAGE, lock_owner_uid=0
)
WISH = LeaseTerms(start_at_s=NOW_S + 60, duration_s=60)
PROMISED = {2: (Reservation(2, NOW_S + 60, NOW_S + 120, (0,), firm=True),)}


def state(*vms: VirtualMachine, changed: frozenset[int] | None = frozenset()) -> ClusterState:
    """Two CPUs' worth of host 0, charged for what is there; `changed` VMs and leases alike."""
    hosts = {0: host(0, [vm for vm in vms if vm.host_id == 0])}
    leases = {vm.id: lease(vm.id, vm.id) for vm in vms}
    leases = {one.id: replace(one, total=vm.resources) for one, vm in zip(leases.values(), vms, strict=True)}
    snapshot = PoolSnapshot(
        NOW_S, "7.4.0", 0, RaftState.SOLO, hosts, {vm.id: vm for vm in vms}, changed_vm_ids=changed, own_uid=0
    )
    return ClusterState(
        NOW_S, snapshot, host_table(hosts), leases, {vm.id: vm.id for vm in vms}, changed_lease_ids=changed
    )


def start(vm_id: int, *, enforced: bool = True) -> Plan:
    reason = Reason("placed", "there is room")
    action = Action("start", ActionKind.DEPLOY, vm_id, vm_id, reason, host_id=0, enforce_capacity=enforced)
    return replace(IDLE, actions=(action,))


def test_each_plan_is_checked_in_full_with_the_books_kept() -> None:
    recounter = Recounter()
    assert recounter.verify(state(RUNS, WAITS), IDLE) == ()
    full = recounter.verify(state(RUNS, WAITS), start(2))
    assert [one.code for one in full] == ["over-capacity"]
    assert full == verify(state(RUNS, WAITS), start(2))


def test_what_is_told_to_have_changed_is_entered() -> None:
    recounter = Recounter()
    recounter.verify(state(RUNS, WAITS), IDLE)
    told = state(RESTS, WAITS, changed=frozenset({1}))
    assert recounter.verify(told, start(2, enforced=False)) == verify(told, start(2, enforced=False)) == ()


def test_what_is_promised_and_told_is_counted() -> None:
    recounter = Recounter()
    recounter.verify(state(WAITS, waiting(3, cpus=2)), IDLE)
    told = replace(state(WAITS, waiting(3, cpus=2)), reservations=PROMISED, changed_lease_ids=frozenset({2}))
    accepted = replace(told.leases[2], terms=WISH, verdict=Verdict.ACCEPTED)
    told = replace(told, leases={**told.leases, 2: accepted})
    found = recounter.verify(told, start(3))
    assert "promise-broken" in {one.code for one in found}
    assert found == verify(told, start(3))


@pytest.mark.parametrize("what", ["a VM", "a reservation", "a lease"])
def test_what_was_not_told_is_found_after_so_many_plans(what: str) -> None:
    recounter = Recounter()
    recounter.verify(state(RUNS, WAITS), IDLE)
    untold = {
        "a VM": state(RESTS, WAITS),
        "a reservation": replace(state(RUNS, WAITS), reservations=PROMISED),
        "a lease": replace(state(RUNS, WAITS), leases=state(replace(RUNS, cpu_centi=1), WAITS).leases),
    }[what]
    found = [recounter.verify(untold, IDLE) for _ in range(FROM_SCRATCH_EVERY)]
    assert not any(found[:-1])
    assert {one.code for one in found[-1]} == {"changes-untold"}


def test_where_nobody_tells_what_changed_the_books_are_made_anew() -> None:
    recounter = Recounter()
    recounter.verify(state(RUNS, WAITS), IDLE)
    unknown = state(RESTS, WAITS, changed=None)
    assert recounter.verify(unknown, start(2, enforced=False)) == ()


@pytest.mark.parametrize(
    "before",
    [
        RESTS,
        replace(RUNS, lcm_state=LcmState.SAVE_STOP),
        replace(RUNS, lcm_state=LcmState.PROLOG_MIGRATE, source_host_id=0),
    ],
    ids=["rests", "is saved", "is copied"],
)
def test_what_is_over_is_struck_out_once_that_is_told(before: VirtualMachine) -> None:
    recounter = Recounter(from_scratch_every=1)
    recounter.verify(state(before, WAITS), IDLE)
    for vms in ((RUNS, WAITS), (before, WAITS), (WAITS,)):
        assert recounter.verify(state(*vms, changed=frozenset({1})), IDLE) == ()


def test_whose_locks_are_ours_is_looked_at_anew_by_another_user() -> None:
    recounter = Recounter()
    assert recounter.verify(state(RESTS, WAITS), start(2, enforced=False)) == ()
    ours = state(RESTS, WAITS)
    theirs = replace(ours, snapshot=replace(ours.snapshot, own_uid=5))
    found = recounter.verify(theirs, start(2, enforced=False))
    assert {one.code for one in found} == {"not-enforced", "over-capacity"}
