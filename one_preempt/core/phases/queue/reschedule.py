"""VMs marked by `onevm resched` or `onehost flush` (RESCHED) move to another host, as the matchmaker moves them.

They stand in one queue with those that wait, and are paced like them. Only the host is chosen: datastore and
networks stay. Nothing is moved that nobody marked.
"""

from __future__ import annotations

from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.memory.lease_concerns import Concern
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.plan import Action, ActionKind, MigrationType, Placement, Reason
from one_preempt.core.model.virtual_machine import LockLevel, VirtualMachine
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.queue.moves import another_host, hold_target

_MOVABLE_STATES = ("RUNNING", "UNKNOWN", "POWEROFF")


def marked_vms(draft: PlanDraft) -> list[tuple[Lease, VirtualMachine]]:
    """The VMs that want another host, each with its lease; none of a lease that takes part in a preemption."""
    return [
        (lease, vm)
        for lease in draft.concerns.ordered(Concern.MARKED)
        if lease.id not in draft.busy_leases
        for vm in draft.members(lease)
        if vm.resched and vm.state_name in _MOVABLE_STATES
    ]


def reschedule(draft: PlanDraft, lease: Lease, vm: VirtualMachine) -> bool:
    """Move `vm` to the best other host with room, or note why it stays; whether it moves."""
    action_id = f"reschedule/{vm.id}/{len(vm.history)}"
    hindrance = _hindrance(draft, vm, action_id)
    if hindrance is None:
        placed = another_host(draft, lease, vm, limited=True, after_host_id=draft.attempts.refused_host_id(action_id))
        if not isinstance(placed, Unplaced):
            draft.actions.append(_move(draft, lease, vm, placed[0], action_id))
            hold_target(draft, lease, vm, placed[0])
            return True
        hindrance = placed.reason
    draft.waits.setdefault(lease.id, Reason(hindrance.code, f"To be rescheduled: {hindrance.text}"))
    return False


def _hindrance(draft: PlanDraft, vm: VirtualMachine, action_id: str) -> Reason | None:
    """What stands against a move though there may be room."""
    if vm.lock_level is not LockLevel.NONE:
        return Reason("locked", f"VM {vm.id} is locked: it moves when it is unlocked.")
    saved = draft.policies.match.cold_migrate_mode is MigrationType.SAVE
    if vm.pci_requests and saved and vm.state_name != "POWEROFF":
        text = f"VM {vm.id} has PCI devices and cannot be saved: power it off, or set cold_migrate_mode to poweroff."
        return Reason("cannot-be-saved", text)
    if draft.attempts.must_pause_before(action_id):
        record = draft.attempts.last(action_id)
        answer = record.error_text if record is not None and record.error_text else "it went back to its former state"
        return Reason("refused", f"VM {vm.id} was not moved: {answer}; it is tried again")
    return None


def _move(draft: PlanDraft, lease: Lease, vm: VirtualMachine, placement: Placement, action_id: str) -> Action:
    match = draft.policies.match
    # oned moves only running VMs live, and neither pinned ones nor those with devices.
    live = match.live_rescheds and vm.is_running and not vm.is_pinned and not vm.pci_requests
    return Action(
        id=action_id,
        kind=ActionKind.LIVE_MIGRATE if live else ActionKind.MIGRATE,
        vm_id=vm.id,
        lease_id=lease.id,
        reason=Reason("rescheduled", "marked for rescheduling: the best ranked other host that matches and has room"),
        host_id=placement.host_id,
        expected_states=(vm.state_name,),
        expected_uid=vm.uid,
        migration_type=match.cold_migrate_mode,
    )
