"""Who is on hosts that are being emptied, so that they can sleep, moves elsewhere by the rules of preemption."""

from __future__ import annotations

from one_preempt.core.model.lease import Lease
from one_preempt.core.model.lease_lifecycle import VmPhase, phase_of
from one_preempt.core.model.modes_and_limits import Mode
from one_preempt.core.model.plan import METHOD_ACTIONS, Action, Reason
from one_preempt.core.model.power_sequence import PowerPhase
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.power.emptiable_hosts import method_to_move, place_elsewhere
from one_preempt.core.phases.power.power_draft import PowerDraft
from one_preempt.core.phases.queue.moves import hold_target


def empty_hosts(draft: PlanDraft) -> None:
    """Move away who is to leave the hosts that are being emptied, as far as that can be done now."""
    power = draft.power
    if power is None or draft.state.paused or draft.policies.mode is not Mode.ACT:
        return
    emptying = power.columns.in_phase(PowerPhase.EMPTYING)
    for sequence in [one for one in power.sequences.values() if one.host_id in emptying] if emptying else ():
        for vm_id in sequence.emptied_vm_ids:
            vm = draft.state.snapshot.vms.get(vm_id)
            lease = draft.state.leases.get(draft.state.lease_of_vm.get(vm_id, -1))
            if vm is not None and lease is not None and vm.host_id == sequence.host_id:
                _move(draft, power, lease, vm)


def _move(draft: PlanDraft, power: PowerDraft, lease: Lease, vm: VirtualMachine) -> None:
    action_id = f"consolidate/{vm.id}/{len(vm.history)}"
    method = method_to_move(draft, lease, vm)
    if lease.id in draft.busy_leases or method is None or draft.attempts.must_pause_before(action_id):
        return
    draft.busy_leases.add(lease.id)
    if phase_of(vm) is not VmPhase.RUNNING or vm.resched:
        return
    placed = place_elsewhere(draft, power, lease, vm)
    if placed is not None:
        hold_target(draft, lease, vm, placed)
        draft.actions.append(
            Action(
                id=action_id,
                kind=METHOD_ACTIONS[method],
                vm_id=vm.id,
                lease_id=lease.id,
                reason=Reason("consolidated", "moves so that its host can sleep"),
                host_id=placed.host_id,
                expected_states=(vm.state_name,),
                expected_uid=vm.uid,
            )
        )
