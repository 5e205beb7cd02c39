"""What the VMs of a lease need together at a time to come, and where they may go whatever is free there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from one_preempt.core.availability.gang_demand import BoolArray, GangDemand
from one_preempt.core.matching.vm_groups import are_tied, group_rules, role_of
from one_preempt.core.model.virtual_machine import VirtualMachine, VmState
from one_preempt.core.observed_room import amounts_of
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.known_ends import has_ended_by


def gang_demand(
    draft: PlanDraft, vms: Sequence[VirtualMachine], within: BoolArray | None = None, start_s: int | None = None
) -> GangDemand:
    """What the VMs of a lease need together, and where they may go whatever is free there.

    A VM that is on a host may come back to it once it was stopped. `within`, shape (H,): on these hosts alone.
    Beside which VMs they may be is told of who will be there at `start_s`, None: now.
    """
    mark = draft.room.checkpoint()
    if start_s is not None:
        _let_group_members_end(draft, vms, start_s)
    demand = _gang_demand(draft, vms, within, start_s)
    draft.room.rollback(mark)
    return demand


def _gang_demand(
    draft: PlanDraft, vms: Sequence[VirtualMachine], within: BoolArray | None, start_s: int | None
) -> GangDemand:
    allowed = []
    lease_id = draft.state.lease_of_vm.get(vms[0].id)
    # Most gangs are of one kind, and what is told of one of its VMs is told of all.
    told: dict[int, tuple[BoolArray, BoolArray]] = {}
    of_kinds = vms[:1] if draft.matchmaker.are_alike(vms) else vms
    for vm in of_kinds:
        waiting = vm if vm.host_id is None else replace(vm, state=VmState.STOPPED, lcm_state=0)
        found = _suited_at(draft, waiting, start_s)
        if id(found) not in told:
            visible = found if draft.power is None else draft.power.visible(found, lease_id)
            told[id(found)] = found, visible if within is None else visible & within
        mask = told[id(found)][1]
        rules = group_rules(vm, draft.room)
        allowed.append(mask if rules is None else mask & rules.mask)
    first = allowed[0]
    if all(mask is first for mask in allowed):
        together = np.broadcast_to(first, (len(vms), len(first)))
    else:
        together = np.array(allowed, dtype=np.bool_)
    rows_by_role: dict[tuple[int, str], list[int]] = {}
    for row, vm in enumerate(of_kinds):
        role = role_of(vm, draft.state.snapshot)
        if role is not None and role[1].policy == "ANTI_AFFINED":
            rows_by_role.setdefault((role[0].id, role[1].name), []).append(row)
    return GangDemand(
        needs=np.array(amounts_of(vms), dtype=np.int64),
        allowed=together,
        separate=tuple(tuple(rows) for rows in rows_by_role.values() if len(rows) > 1),
        on_one_host=are_tied(vms, draft.state.snapshot),
        host_order=np.array(draft.matchmaker.preference(vms[0]), dtype=np.int64),
    )


def _suited_at(draft: PlanDraft, vm: VirtualMachine, start_s: int | None) -> BoolArray:
    """The hosts that suit a VM; where it speaks of VMs beside it, of those alone that will be there then."""
    match = draft.matchmaker.match(vm)
    if start_s is None or not match.follows_current_vms:
        return match.mask

    def beside(vm_id: int) -> Sequence[int]:
        lease = draft.state.leases.get(draft.state.lease_of_vm.get(vm_id, -1))
        gone = lease is not None and has_ended_by(draft, lease, start_s)
        return () if gone else draft.room.rows_of(vm_id)

    return draft.matchmaker.suited_beside(vm, beside)


def _let_group_members_end(draft: PlanDraft, vms: Sequence[VirtualMachine], by_s: int) -> None:
    """Count those as gone to whom a VM group ties these VMs, or that it keeps them apart from, and who end by then."""
    known = draft.state.snapshot.vm_groups
    groups = [
        known[group_id] for group_id in {vm.vm_group_id for vm in vms} if group_id is not None and group_id in known
    ]
    for vm_id in [vm_id for group in groups for role in group.roles for vm_id in role.vm_ids]:
        lease = draft.state.leases.get(draft.state.lease_of_vm.get(vm_id, -1))
        if lease is not None and has_ended_by(draft, lease, by_s):
            draft.room.leave(vm_id)
