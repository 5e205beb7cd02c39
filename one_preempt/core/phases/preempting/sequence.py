"""The actions of one preemption: the victims leave, and after all of them the preemptor starts.

A victim that is suspended in place does not leave: it is saved, told why, locked, and oned is asked to start the
preemptor on the same host without regard to its books.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from one_preempt.core.lease_status import in_place_status, says_in_place, terminated_status
from one_preempt.core.model.lease import Lease, PreemptionMethod
from one_preempt.core.model.plan import METHOD_ACTIONS, Action, ActionKind, Placement, Preemption, Reason, Victim
from one_preempt.core.model.virtual_machine import VirtualMachine, VmState
from one_preempt.core.model.written_time import utc_text
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.preempting.lent_room import set_aside
from one_preempt.core.phases.reservations.promised import is_promised
from one_preempt.core.phases.reservations.stays import expected_end_s

TOLD_WITHIN_S = 60

_SUSPEND = PreemptionMethod.SUSPEND


def leave_id(preemption: Preemption, victim: Victim) -> str:
    """The id of the action that sends one victim out."""
    return f"{preemption.id}/{victim.method}/{victim.vm_id}"


def start_id(preemption: Preemption, vm_id: int) -> str:
    """The id of the action that starts one VM of the preemptor."""
    return f"{preemption.id}/deploy/{vm_id}"


def lock_id(preemption: Preemption, vm_id: int) -> str:
    """The id of the action that keeps one victim from being resumed."""
    return f"{preemption.id}/lock/{vm_id}"


def sequence_actions(
    draft: PlanDraft,
    preemption: Preemption,
    lease: Lease,
    outstanding: Sequence[Victim],
    placements: Sequence[Placement],
) -> list[Action]:
    """What is still to be done while `outstanding` victims hold their hosts: they leave, and then the starts.

    Nothing yet while their guests are being warned. Their owners are told.
    """
    if _are_being_warned(draft, preemption, lease, outstanding):
        return []
    for victim in outstanding:
        if victim.method is _SUSPEND:
            draft.statuses[victim.lease_id] = in_place_status(lease.id)
            draft.warned.add(victim.lease_id)
        elif victim.method is PreemptionMethod.TERMINATE:
            draft.statuses[victim.lease_id] = terminated_status(lease.id)
            draft.warned.add(victim.lease_id)
    return steps_of(draft, preemption, lease, outstanding, placements)


def steps_of(
    draft: PlanDraft,
    preemption: Preemption,
    lease: Lease,
    outstanding: Sequence[Victim],
    placements: Sequence[Placement],
) -> list[Action]:
    """The same as if nobody had to be warned, and without a word to anybody: it may be advice."""
    vms = draft.state.snapshot.vms
    leaving = [
        _paced(draft, _leave(draft, preemption, lease, victim))
        for victim in outstanding
        if victim.method is not _SUSPEND or vms[victim.vm_id].state != VmState.SUSPENDED
    ]
    resting = [victim for victim in outstanding if victim.method is _SUSPEND]
    told = [victim for victim in resting if _is_told(draft, preemption, victim)]
    locks = [_lock(draft, preemption, lease, victim) for victim in told]
    # What is not told yet is told in this cycle; its lock, and the starts after that, come in the next.
    places = placements if len(told) == len(resting) else ()
    after = tuple(action.id for action in (*leaving, *locks))
    return [*leaving, *locks, *start_actions(draft, preemption, lease, places, after)]


def waits_for(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], victims: int, gone_at_s: int) -> str:
    """What the owner of a preemptor, of which `vms` are to start, is told while so many `victims` have not left yet.

    Where they leave so late that what was promised comes too late, he reads that as well.
    """
    waits = (
        f"waits until {victims} VMs have made room for it" if victims != 1 else "waits until 1 VM has made room for it"
    )
    deadline_s, end_s = lease.promised_deadline_at_s, expected_end_s(draft, lease, vms, gone_at_s)
    if deadline_s is None or end_s is None or end_s <= deadline_s:
        return waits
    return f"its DEADLINE cannot be kept as things stand: {waits}"


def making_room(start_at_s: int) -> str:
    """What the owner of a preemptor that starts later is told while its victims leave."""
    return f"reserved: starts at {utc_text(start_at_s)}; room is being made for it"


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


def _is_told(draft: PlanDraft, preemption: Preemption, victim: Victim) -> bool:
    """Nothing can be written to a VM that is locked: LEASE_STATUS says first why it rests.

    An owner who wipes it time and again does not keep the preemption up for ever.
    """
    vm = draft.state.snapshot.vms[victim.vm_id]
    if vm.state != VmState.SUSPENDED or says_in_place(vm):
        return True
    record = draft.state.actions.get(leave_id(preemption, victim))
    suspended_at_s = draft.state.now_s if record is None else record.outcome_at_s or record.intended_at_s
    return not 0 <= draft.state.now_s - suspended_at_s <= TOLD_WITHIN_S


def _lock(draft: PlanDraft, preemption: Preemption, lease: Lease, victim: Victim) -> Action:
    vm = draft.state.snapshot.vms[victim.vm_id]
    rests = vm.state == VmState.SUSPENDED
    if rests:
        draft.wake_by(draft.state.now_s + 1)
    return Action(
        id=lock_id(preemption, victim.vm_id),
        kind=ActionKind.LOCK,
        vm_id=victim.vm_id,
        lease_id=victim.lease_id,
        reason=Reason("suspended-in-place", f"must not be resumed while {lease.label} runs in its room"),
        host_id=victim.host_id,
        after=() if rests else (leave_id(preemption, victim),),
        preemption_id=preemption.id,
        expected_states=(VmState.SUSPENDED.name,),
        expected_uid=vm.uid,
        lock_owner_uid=draft.state.snapshot.own_uid,
    )


def _leave(draft: PlanDraft, preemption: Preemption, lease: Lease, victim: Victim) -> Action:
    vm = draft.state.snapshot.vms[victim.vm_id]
    return Action(
        id=leave_id(preemption, victim),
        kind=METHOD_ACTIONS[victim.method],
        vm_id=victim.vm_id,
        lease_id=victim.lease_id,
        reason=Reason("preempted", f"{victim.method} to make room for {lease.label}, chosen by {preemption.policy}"),
        host_id=victim.host_id if victim.target_host_id is None else victim.target_host_id,
        preemption_id=preemption.id,
        # Whoever was paused when he was chosen may be resumed until the call, and then has to leave in another way.
        expected_states=(vm.state_name,) if vm.is_at_rest else ("RUNNING",),
        expected_uid=vm.uid,
    )


def start_actions(
    draft: PlanDraft, preemption: Preemption, lease: Lease, placements: Iterable[Placement], after: tuple[str, ...]
) -> list[Action]:
    """The actions that start VMs of the preemptor, once those of `after` are done.

    Where a victim rests on the host oned would not find the room, nor where others do whose room was promised to the
    preemptor: it is not asked to look for it.
    """
    beside = {one.host_id for one in preemption.victims if one.method is _SUSPEND and _is_there(draft, one)}
    if draft.in_place.vm_ids and is_promised(draft, lease):
        beside |= {vm.host_id for vm in set_aside(draft) if vm.host_id is not None}
    reason = Reason("preemptor", f"starts in the room that {named_leases(preemption.victim_lease_ids)} left")
    actions = []
    for placement in placements:
        vm = draft.state.snapshot.vms[placement.vm_id]
        action = draft.deploy(placement, vm, lease, start_id(preemption, vm.id), reason)
        enforced = placement.host_id not in beside
        actions.append(replace(action, preemption_id=preemption.id, after=after, enforce_capacity=enforced))
    return actions


def _is_there(draft: PlanDraft, victim: Victim) -> bool:
    """oned charges its host for it: nobody has ended or moved it meanwhile."""
    vm = draft.state.snapshot.vms.get(victim.vm_id)
    return vm is not None and victim.host_id in vm.charged_host_ids


def _paced(draft: PlanDraft, action: Action) -> Action:
    """Over all preemptions, at most `victims_in_flight` leave at once: each later one waits for an earlier one."""
    ceiling = draft.policies.limits.victims_in_flight
    draft.leaving.append(action.id)
    if len(draft.leaving) <= ceiling:
        return action
    return replace(action, after=(*action.after, draft.leaving[-1 - ceiling]))
