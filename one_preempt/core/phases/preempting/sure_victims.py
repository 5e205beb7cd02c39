"""Who surely can leave, and where the request surely could go: asked where the cheapest sets come to nothing.

What is cheapest may be kept from leaving by a deadline or for want of a place to move to, and its hosts may lack a
network or a disk; the next cheapest may be no better, in each cycle anew.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from one_preempt.core.availability.gang_demand import BoolArray
from one_preempt.core.model.lease import Lease, LeaseState
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.victims import MOVES, PossibleVictim, is_past_its_grace


def leaves_surely(draft: PlanDraft, victim: PossibleVictim) -> bool:
    """It needs no other place to go to, and was promised no deadline that it might miss."""
    return not may_miss_its_deadline(draft, victim.lease) and not any(method in MOVES for method in victim.methods)


def may_miss_its_deadline(draft: PlanDraft, lease: Lease) -> bool:
    """It was promised one, and has not outlived its DURATION: who has was done in time, or is late anyway.

    So is who is paused and may be sent out all the same.
    """
    is_over = is_past_its_grace(lease, draft.state.now_s, draft.policies.time)
    is_over = is_over or lease.state is LeaseState.PAUSED_BY_OWNER
    return lease.promised_deadline_at_s is not None and not is_over


def hosts_if_all_left(draft: PlanDraft, vms: Sequence[VirtualMachine], possible: Sequence[PossibleVictim]) -> BoolArray:
    """Where each of `vms` alone would be placed if all who may leave had left; one row a VM, or for all."""
    room, index = draft.room, draft.state.hosts.index_by_id
    mark = room.checkpoint()
    for victim in possible:
        for vm in victim.vms:
            room.leave(vm.id)
    asked = vms[:1] if draft.matchmaker.are_alike(vms) else vms
    found = np.zeros((len(asked), len(draft.state.hosts.ids)), dtype=np.bool_)
    for place, vm in enumerate(asked):
        found[place, [index[placement.host_id] for placement in draft.matchmaker.candidates(vm, room)]] = True
    room.rollback(mark)
    return found
