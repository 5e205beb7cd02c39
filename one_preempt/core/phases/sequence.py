"""The actions of one preemption: the victims leave, and after all of them the preemptor starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from one_preempt.core.model.lease import Lease
from one_preempt.core.model.plan import METHOD_ACTIONS, Action, Placement, Preemption, Reason, Victim
from one_preempt.core.model.written_time import utc_text
from one_preempt.core.phases.draft import PlanDraft


def leave_id(preemption: Preemption, victim: Victim) -> str:
    """The id of the action that sends one victim out."""
    return f"{preemption.id}/{victim.method}/{victim.vm_id}"


def start_id(preemption: Preemption, vm_id: int) -> str:
    """The id of the action that starts one VM of the preemptor."""
    return f"{preemption.id}/deploy/{vm_id}"


def sequence_actions(
    draft: PlanDraft,
    preemption: Preemption,
    lease: Lease,
    outstanding: Sequence[Victim],
    placements: Sequence[Placement],
) -> list[Action]:
    """What is still to be done while `outstanding` victims hold their hosts: they leave, and then the starts.

    Nothing yet while their guests are being warned.
    """
    if _are_being_warned(draft, preemption, lease, outstanding):
        return []
    leaving = [_paced(draft, _leave(draft, preemption, lease, victim)) for victim in outstanding]
    after = tuple(action.id for action in leaving)
    return leaving + [start_action(draft, preemption, lease, placement, after) for placement in placements]


def named_leases(lease_ids: Sequence[int]) -> str:
    """Leases in a sentence: "lease 4", "leases 4 and 7"."""
    if len(lease_ids) == 1:
        return f"lease {lease_ids[0]}"
    return f"leases {', '.join(map(str, lease_ids[:-1]))} and {lease_ids[-1]}"


def _are_being_warned(draft: PlanDraft, preemption: Preemption, lease: Lease, outstanding: Sequence[Victim]) -> bool:
    """The victims read that they will have to leave, and when, so that their guests can save what they need."""
    leaves_at_s = preemption.decided_at_s + draft.policies.time.grace_s
    if not preemption.decided_at_s <= draft.state.now_s < leaves_at_s:
        return False
    for victim in outstanding:
        when = utc_text(leaves_at_s)
        draft.statuses[victim.lease_id] = f"{victim.method} at {when} to make room for lease {lease.id}: save your work"
        draft.warned.add(victim.lease_id)
    draft.wake_by(leaves_at_s)
    return True


def _leave(draft: PlanDraft, preemption: Preemption, lease: Lease, victim: Victim) -> Action:
    return Action(
        id=leave_id(preemption, victim),
        kind=METHOD_ACTIONS[victim.method],
        vm_id=victim.vm_id,
        lease_id=victim.lease_id,
        reason=Reason("preempted", f"{victim.method} to make room for {lease.label}, chosen by {preemption.policy}"),
        host_id=victim.host_id if victim.target_host_id is None else victim.target_host_id,
        preemption_id=preemption.id,
        expected_states=("RUNNING",),
        expected_uid=draft.state.snapshot.vms[victim.vm_id].uid,
    )


def start_action(
    draft: PlanDraft, preemption: Preemption, lease: Lease, placement: Placement, after: tuple[str, ...]
) -> Action:
    """The action that starts one VM of the preemptor, once those of `after` are done."""
    reason = Reason("preemptor", f"starts in the room that {named_leases(preemption.victim_lease_ids)} left")
    action = draft.deploy(placement, lease, start_id(preemption, placement.vm_id), reason)
    return replace(action, preemption_id=preemption.id, after=after)


def _paced(draft: PlanDraft, action: Action) -> Action:
    """Over all preemptions, at most `victims_in_flight` leave at once: each later one waits for an earlier one."""
    ceiling = draft.policies.limits.victims_in_flight
    draft.leaving.append(action.id)
    if len(draft.leaving) <= ceiling:
        return action
    return replace(action, after=(*action.after, draft.leaving[-1 - ceiling]))
