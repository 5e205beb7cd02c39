"""VMs with a LEASE attribute that must wait are put on HOLD, again when their owner released them early.

A VM on HOLD without LEASE is somebody's wish and is never touched.
"""

from __future__ import annotations

from one_preempt.core.memory.lease_concerns import Concern
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.plan import Action, ActionKind, Reason
from one_preempt.core.model.virtual_machine import LockLevel, VmState
from one_preempt.core.phases.draft import PlanDraft

# An owner who releases hundreds of VMs each cycle must not take the cycle's time from everybody else.
HOLDS_A_CYCLE = 50


def hold_leases(draft: PlanDraft) -> None:
    """Hold the PENDING members of explicit leases that do not start in this very cycle."""
    leases = draft.concerns.ordered(Concern.TO_HOLD)
    if not leases:
        return
    held = 0
    starting = {action.vm_id for action in draft.actions if action.kind is ActionKind.DEPLOY and not action.after}
    for lease in leases:
        if held < HOLDS_A_CYCLE:
            held += _hold(draft, lease, starting)


def _hold(draft: PlanDraft, lease: Lease, starting: set[int]) -> int:
    """Hold the members that are to wait; how many there are."""
    before = len(draft.actions)
    for vm in draft.members(lease):
        action_id = f"hold/{vm.id}"
        if vm.state != VmState.PENDING or vm.id in starting or vm.lock_level is not LockLevel.NONE:
            continue
        if draft.attempts.must_pause_before(action_id):
            continue
        draft.actions.append(
            Action(
                id=action_id,
                kind=ActionKind.HOLD,
                vm_id=vm.id,
                lease_id=lease.id,
                reason=Reason("waits-on-hold", "a VM with a LEASE attribute waits on HOLD"),
                expected_states=("PENDING",),
                expected_uid=vm.uid,
            )
        )
    return len(draft.actions) - before
