"""What has had its time leaves: at the end of a slot of a split lease, and by the administrator's rule for overruns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from one_preempt.core.ends_without_duration import OVERRUNS_ENDED_BY, is_beyond_ending
from one_preempt.core.memory.lease_concerns import Concern
from one_preempt.core.model.cluster_state import IntArray
from one_preempt.core.model.lease import Lease, LeaseState
from one_preempt.core.model.lease_lifecycle import VmPhase, phase_of
from one_preempt.core.model.modes_and_limits import Mode
from one_preempt.core.model.plan import Action, ActionKind, Reason
from one_preempt.core.model.reservation import Reservation
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.model.written_time import duration_text, utc_text
from one_preempt.core.observed_room import hosts_of_members
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.demand_ahead import gang_demand
from one_preempt.core.phases.reservations.planned_stays import piece_rules
from one_preempt.core.phases.reservations.room_ahead import ceiling
from one_preempt.core.phases.reservations.stays import book, end_of, stay_at
from one_preempt.core.reconciliation.settled_actions import OVERRUN


def end_stays(draft: PlanDraft) -> None:
    """Stop what has reached the end of its slot or its duration, as far as acting is allowed."""
    if draft.state.paused or draft.policies.mode is not Mode.ACT:
        return
    ends_overruns = draft.policies.time.overrun in OVERRUNS_ENDED_BY
    for lease in draft.concerns.ordered(Concern.TIME_GOES_ON if ends_overruns else Concern.RUNS_TO_DEADLINE):
        if lease.id in draft.busy_leases:
            continue
        if lease.promised_deadline_at_s is not None and lease.state is LeaseState.RUNNING:
            _end_slot(draft, lease)
        _end_overrun(draft, lease)


def _end_slot(draft: PlanDraft, lease: Lease) -> None:
    """Its room is somebody else's now: it leaves until its next slot, unless it can simply go on."""
    now_s = draft.state.now_s
    slots = draft.state.reservations.get(lease.id, ())
    later = [slot for slot in slots if slot.start_at_s > now_s]
    current = _current_slot(draft, lease, [slot for slot in slots if slot.start_at_s <= now_s])
    if not later or current is None or current.end_at_s is None:
        return
    # Its slot includes the time in which it is warned and saved: at the end of it the hosts are somebody else's.
    warned_at_s = current.end_at_s - piece_rules(draft, lease, draft.members(lease)).suspend_s
    if now_s < warned_at_s:
        draft.wake_by(warned_at_s)
        return
    if _goes_on(draft, lease):
        return
    leaves_at_s = warned_at_s + draft.policies.time.grace_s
    if now_s < leaves_at_s:
        draft.wake_by(leaves_at_s)
        draft.warned.add(lease.id)
        draft.statuses[lease.id] = f"stop at {utc_text(leaves_at_s)} until its next slot: save your work"
        return
    for vm in draft.members(lease):
        reason = Reason("slot-ended", f"{lease.label} goes on in its next slot")
        _leave(draft, lease, vm, ActionKind.STOP, f"slot/{lease.id}/stop/{vm.id}/{len(vm.history)}", reason)


def _current_slot(draft: PlanDraft, lease: Lease, begun: Sequence[Reservation]) -> Reservation | None:
    """The last one on whose hosts the lease is; else, for it was moved, the last one that has begun."""
    host_ids = tuple(vm.host_id for vm in draft.members(lease))
    there = (slot for slot in reversed(begun) if hosts_of_members(draft.state, lease, slot) == host_ids)
    return next(there, begun[-1] if begun else None)


def _goes_on(draft: PlanDraft, lease: Lease) -> bool:
    """Nobody needs its hosts until it is done: it stays where it is, and its other slots are given back."""
    vms, now_s = draft.members(lease), draft.state.now_s
    end_s = end_of(now_s, lease.left_at(now_s))
    known = [draft.state.hosts.index_by_id.get(vm.history[-1].host_id) for vm in vms]
    rows = tuple(row for row in known if row is not None)
    if len(rows) < len(vms):
        # Of a host that is left out nobody knows whether it is needed.
        return False
    before = draft.timeline.withdraw(lease.id)
    if _are_free_for(rows, gang_demand(draft, vms).needs, ceiling(draft, lease, now_s, end_s)):
        book(draft, lease, [stay_at(lease, vms, rows, now_s, end_s, firm=True)])
        return True
    if before:
        draft.timeline.hold(before)
    return False


def _are_free_for(rows: Sequence[int], needs: IntArray, free: IntArray | None) -> bool:
    """These rows' hosts have room for what needs it there. `free`, shape (H, 2); None: all who are there may stay."""
    if free is None:
        return True
    left = free.copy()
    np.subtract.at(left, list(rows), needs)
    return bool((left[list(rows)] >= 0).all())


def _end_overrun(draft: PlanDraft, lease: Lease) -> None:
    """What runs of it leaves. What its owner took away meanwhile stays as it is, and runs no longer once it is back."""
    rules, end_at_s = draft.policies.time, lease.expected_end_at_s
    kind = OVERRUNS_ENDED_BY.get(rules.overrun)
    if kind is None or end_at_s is None:
        return
    leaves_at_s = end_at_s + rules.overrun_grace_s
    if draft.state.now_s >= end_at_s:
        # Said in the last cycle as well: nothing is written to a VM that is on its way out.
        when = f"at {utc_text(leaves_at_s)}" if draft.state.now_s < leaves_at_s else "soon"
        draft.statuses[lease.id] = f"its DURATION is over: it will be made to leave ({kind}) {when}"
    if draft.state.now_s < leaves_at_s:
        draft.wake_by(leaves_at_s)
        return
    over_s = draft.state.now_s - end_at_s
    vms = draft.members(lease)
    if all(is_beyond_ending(draft.state.snapshot, lease, vm, kind) for vm in vms):
        told = "cannot: a lock, a device or a full datastore is in the way"
        draft.statuses[lease.id] = f"its DURATION is over: it should leave ({kind}), but {told}"
    for vm in vms:
        reason = Reason(OVERRUN, f"{lease.label} has outlived its DURATION by {duration_text(over_s)}")
        _leave(draft, lease, vm, kind, f"overrun/{lease.id}/{kind}/{vm.id}/{len(vm.history)}", reason)


def _leave(
    draft: PlanDraft, lease: Lease, vm: VirtualMachine, kind: ActionKind, action_id: str, reason: Reason
) -> None:
    """One VM leaves its host for no preemptor."""
    if is_beyond_ending(draft.state.snapshot, lease, vm, kind):
        # Not busy: who needs its room may have another way to take it.
        return
    draft.busy_leases.add(lease.id)
    if phase_of(vm) is not VmPhase.RUNNING or draft.attempts.must_pause_before(action_id):
        return
    if kind is ActionKind.STOP:
        draft.hold_memory_image(vm)
    draft.actions.append(
        Action(
            id=action_id,
            kind=kind,
            vm_id=vm.id,
            lease_id=lease.id,
            reason=reason,
            host_id=vm.host_id,
            expected_states=("RUNNING",),
            expected_uid=vm.uid,
        )
    )
