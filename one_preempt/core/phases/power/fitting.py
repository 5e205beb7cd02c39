"""What would fit on the hosts that are on, come or sleep, were so much free there.

Where CPU and memory alone decide, places are counted. Else it is tried with the matchmaker itself, which takes as long
as placing it. Of thousands that wait many may ask for the same, and one user for ever new things: the same is tried
once in a decision, and of each user so much and no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from one_preempt.core.availability.gang_demand import BoolArray
from one_preempt.core.matching.gang import what_it_asks
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.model.cluster_state import IntArray
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.power.suited_hosts import suited_hosts

TRIED_OF_A_USER = 16


class Fitting:
    """Asked during one decision, that of `draft`, about the hosts `among`, shape (H,), with `free`, shape (H, 2)."""

    def __init__(self, draft: PlanDraft, free: IntArray, among: BoolArray) -> None:
        self._draft, self._free, self._among = draft, free, among
        self._places: dict[tuple[int, int, int], tuple[BoolArray, int]] = {}
        self._found: dict[tuple[object, ...], bool] = {}
        self._tried: Counter[int] = Counter()

    def fits(self, vms: Sequence[VirtualMachine]) -> bool:
        """Is there a place for each of the VMs? False as well where too much was tried for their owner already."""
        if self._draft.matchmaker.are_alike(vms) and self._draft.room.takes_capacity_alone(vms[0]):
            return self._count(vms) >= len(vms)
        asked = tuple([what_it_asks(vm) for vm in vms])
        if asked not in self._found:
            if self._tried[vms[0].uid] == TRIED_OF_A_USER:
                return False
            self._tried[vms[0].uid] += 1
            room = self._draft.matchmaker.new_room()
            room.free = self._free.copy()
            placed = self._draft.matchmaker.place_together(vms, room, self._among)
            self._found[asked] = not isinstance(placed, Unplaced)
        return self._found[asked]

    def _count(self, vms: Sequence[VirtualMachine]) -> int:
        """The places for VMs like these."""
        suited = suited_hosts(self._draft, vms)
        need = (id(suited.mask), suited.cpu_centi, suited.memory_mib)
        if need not in self._places:
            # With the mask, so that no other one is ever given its identity.
            self._places[need] = suited.mask, int(suited.places(self._free)[self._among].sum())
        return self._places[need][1]
