"""What would fit on the hosts that are on, come or sleep, were so much free there.

Where CPU and memory alone decide, places are counted. Else it is tried with the matchmaker itself, which takes as long
as placing it. Of thousands that wait many may ask for the same, and one user for ever new things: the same is tried
once in a decision, and of each user so much and no more.
"""

from __future__ import annotations

from collections.abc import Sequence

from one_preempt.core.matching.gang import what_it_asks
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.power.fit_answers import FitAnswers
from one_preempt.core.phases.power.suited_hosts import suited_hosts

TRIED_OF_A_USER = 16


def fits(draft: PlanDraft, vms: Sequence[VirtualMachine], known: FitAnswers) -> bool:
    """Is there a place for each of the VMs? False as well where too much was tried for their owner already.

    `known` are the hosts that are asked about, and what was found of them so far; what is found now is added.
    """
    if draft.matchmaker.are_alike(vms) and draft.room.takes_capacity_alone(vms[0]):
        return _places(draft, vms, known) >= len(vms)
    asked = tuple([what_it_asks(vm) for vm in vms])
    if asked not in known.tried:
        if known.tries_by_owner[vms[0].uid] == TRIED_OF_A_USER:
            return False
        known.tries_by_owner[vms[0].uid] += 1
        room = draft.matchmaker.new_room()
        room.free = known.free.copy()
        placed = draft.matchmaker.place_together(vms, room, known.among)
        known.tried[asked] = not isinstance(placed, Unplaced)
    return known.tried[asked]


def _places(draft: PlanDraft, vms: Sequence[VirtualMachine], known: FitAnswers) -> int:
    """The places for VMs like these."""
    suited = suited_hosts(draft, vms)
    need = (id(suited.mask), suited.cpu_centi, suited.memory_mib)
    if need not in known.places:
        known.places[need] = suited.mask, int(suited.places(known.free)[known.among].sum())
    return known.places[need][1]
