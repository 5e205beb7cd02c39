"""The leases that concern a phase are found once, and are those that a walk over all leases would find."""

from __future__ import annotations

from hypothesis import given, settings

from one_preempt.core.memory.lease_concerns import WAITING_STATES, Concern, LeaseConcerns
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.lease import LeaseState
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.model.virtual_machine import LockLevel, VmState
from one_preempt.core.victims import is_guarded
from tests.core.drawn_leases import histories


@given(histories())
@settings(max_examples=200, deadline=None, derandomize=True)
def test_what_is_kept_is_what_all_leases_say(states: list[ClusterState]) -> None:
    kept = LeaseConcerns()
    for state in states:
        kept.observe(state)

        for concern, expected in walked(state).items():
            assert [lease.id for lease in kept.ordered(concern)] == expected, concern
            assert all(state.leases[lease_id] is lease for lease_id, lease in kept.all(concern).items())


def walked(state: ClusterState) -> dict[Concern, list[int]]:
    """What each phase looks for, asked of every lease."""
    found: dict[Concern, list[int]] = {concern: [] for concern in Concern}
    for lease_id in sorted(state.leases):
        lease = state.leases[lease_id]
        vms = [state.snapshot.vms[vm_id] for vm_id in lease.vm_ids]
        waits = lease.state in WAITING_STATES
        runs = lease.state is LeaseState.RUNNING and lease.run_began_at_s is not None
        asks = lease.terms.deadline_at_s is not None
        returns = lease.terms.type.best_effort and lease.preemptions > 0 and is_guarded(lease)
        free_to_hold = [vm.state is VmState.PENDING and vm.lock_level is LockLevel.NONE for vm in vms]
        held = waits or lease.state in (LeaseState.REFUSED, LeaseState.INCOMPLETE)
        half = lease.state in (LeaseState.STARTING, LeaseState.RETURNING, LeaseState.FAILED)
        concerned = {
            Concern.QUEUE: waits,
            Concern.PREEMPTS: waits and lease.may_preempt and not lease.terms.type.preemptable,
            Concern.TIME: asks or lease.verdict is Verdict.ACCEPTED or is_guarded(lease),
            Concern.PROMISED: waits and ((asks and lease.verdict is Verdict.ACCEPTED) or returns),
            Concern.ANY_TIME: asks or lease.terms.max_suspensions is not None,
            Concern.HALF_STARTED: half and len(lease.vm_ids) > 1,
            Concern.TO_HOLD: held and lease.explicit and any(free_to_hold),
            Concern.TIME_GOES_ON: lease.run_began_at_s is not None,
            Concern.RUNS_TO_DEADLINE: runs and asks and lease.verdict is Verdict.ACCEPTED,
            Concern.SUSPENDED: lease.preempted_by == 99 and VmState.SUSPENDED in [vm.state for vm in vms],
            Concern.MARKED: any(vm.resched for vm in vms),
        }
        for concern, is_concerned in concerned.items():
            if is_concerned:
                found[concern].append(lease_id)
    return found
