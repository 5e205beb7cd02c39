"""All or nothing, also in what happens: when a member of a gang fails to start, the others are stopped again.

Members that were refused are tried again first, by the queue; only after `gang_attempts` do the members that
run give their room back, and the lease waits as a whole.
"""

from __future__ import annotations

from one_preempt.core.memory.lease_concerns import Concern
from one_preempt.core.model.lease import Lease, PreemptionMethod
from one_preempt.core.model.lease_lifecycle import VmPhase, phase_of
from one_preempt.core.model.modes_and_limits import Mode
from one_preempt.core.model.plan import Action, ActionKind, Reason
from one_preempt.core.model.virtual_machine import LcmState, LockLevel, VirtualMachine, VmState
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.queue.queue_room import start_id
from one_preempt.core.victims import method_is_possible

_FAILED_STARTS = frozenset(
    {
        LcmState.BOOT_FAILURE,
        LcmState.PROLOG_FAILURE,
        LcmState.BOOT_STOPPED_FAILURE,
        LcmState.BOOT_UNDEPLOY_FAILURE,
        LcmState.PROLOG_RESUME_FAILURE,
        LcmState.PROLOG_UNDEPLOY_FAILURE,
    }
)


def repair_gangs(draft: PlanDraft) -> None:
    """Stop the running members of gangs of which another member cannot be started; not while paused or advising."""
    if draft.state.paused or draft.policies.mode is not Mode.ACT:
        return
    for lease in draft.concerns.ordered(Concern.HALF_STARTED):
        if lease.id not in draft.busy_leases:
            culprit = _would_not_start(draft, lease)
            if culprit is not None:
                _stop_the_others(draft, lease, culprit)


def _would_not_start(draft: PlanDraft, lease: Lease) -> VirtualMachine | None:
    """A member that failed while starting, or was refused too often."""
    for vm in draft.members(lease):
        if vm.state == VmState.ACTIVE and vm.lcm_state in _FAILED_STARTS:
            return vm
        if any(_refused_too_often(draft, start_id(vm, returning=returning)) for returning in (False, True)):
            return vm
    return None


def _refused_too_often(draft: PlanDraft, action_id: str) -> bool:
    record = draft.attempts.last(action_id)
    if record is None or record.succeeded is not False:
        return False
    return record.attempts >= draft.policies.enactment.gang_attempts


def _stop_the_others(draft: PlanDraft, lease: Lease, culprit: VirtualMachine) -> None:
    for vm in draft.members(lease):
        action_id = f"gang/{lease.id}/stop/{vm.id}/{len(vm.history)}"
        if phase_of(vm) is not VmPhase.RUNNING or vm.lock_level is not LockLevel.NONE:
            continue
        if not method_is_possible(draft.state.snapshot, vm, lease, PreemptionMethod.STOP):
            continue
        if draft.attempts.must_pause_before(action_id, _pause_s(draft, action_id)):
            continue
        draft.hold_memory_image(vm)
        draft.actions.append(
            Action(
                id=action_id,
                kind=ActionKind.STOP,
                vm_id=vm.id,
                lease_id=lease.id,
                reason=Reason("gang-incomplete", f"VM {culprit.id} of the same lease did not start: all wait together"),
                host_id=vm.host_id,
                expected_states=("RUNNING",),
                expected_uid=vm.uid,
            )
        )
    draft.busy_leases.add(lease.id)
    draft.statuses[lease.id] = f"VM {culprit.id} did not start: the others are stopped until all can start"


def _pause_s(draft: PlanDraft, action_id: str) -> int:
    """A member that falls back each time is asked less and less often."""
    record = draft.attempts.last(action_id)
    tried_out = record is not None and record.attempts >= draft.policies.limits.attempts
    return draft.policies.limits.victim_retry_s if tried_out else draft.policies.enactment.retry_delay_s
