"""Who leaves so that a request which may preempt, and fits nowhere, can start (CCPE13; ALGORITHMS 1.3)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from one_preempt.core.matching.placement import Unplaced
from one_preempt.core.model.lease import Lease, PreemptionMethod
from one_preempt.core.model.plan import Action, Placement, Preemption, Reason, Victim
from one_preempt.core.model.policies import Mode
from one_preempt.core.model.virtual_machine import LockLevel, VirtualMachine
from one_preempt.core.phases.continue_preemptions import leave_actions, start_actions
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.place_waiting import waiting_leases
from one_preempt.core.preemption.choose import choose_victims
from one_preempt.core.preemption.problem import Choice, NoChoice
from one_preempt.core.preemption.request_problem import preemption_problem
from one_preempt.core.victims import PossibleVictim, memory_images_fit, possible_victims


def preempt_for_waiting(draft: PlanDraft) -> None:
    """Decide a preemption for each request that may preempt and was not placed, in queue order."""
    for lease in waiting_leases(draft):
        if lease.may_preempt and lease.id in draft.waits and _may_be_helped(draft, lease):
            _preempt_for(draft, lease)


def _may_be_helped(draft: PlanDraft, lease: Lease) -> bool:
    """Room is what is lacking, and preempting is not paused."""
    if draft.waits[lease.id].code not in ROOM_IS_LACKING:
        return False
    if draft.state.paused:
        draft.waits[lease.id] = Reason("paused", "does not fit, and preempting is paused")
        return False
    return all(vm.lock_level is LockLevel.NONE for vm in draft.members(lease))


ROOM_IS_LACKING = frozenset({"no-capacity"})


def _preempt_for(draft: PlanDraft, lease: Lease) -> None:
    vms = [vm for vm in draft.members(lease) if vm.may_be_deployed]
    victims = possible_victims(
        draft.state, draft.policies.limits, draft.policies.victims, frozenset(draft.busy_leases)
    )
    problem = preemption_problem(draft, vms, victims)
    choice = choose_victims(problem, draft.policies.preemption, draft.policies.search_limits)
    if isinstance(choice, NoChoice):
        draft.waits[lease.id] = choice.reason
        return
    chosen = {victim.lease.id: victim for victim in victims if victim.lease.id in choice.lease_ids}
    obstacle = _ceiling(draft, chosen) or memory_images_fit(draft.state.snapshot, list(chosen.values()))
    if obstacle is not None:
        draft.waits[lease.id] = obstacle
        return
    _decide(draft, lease, vms, choice, list(chosen.values()))
