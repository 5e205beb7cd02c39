"""The hosts that are on and that somebody in the queue cannot do without.

Who fits on the hosts that are on only as long as all of them stay on would have one woken again at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from one_preempt.core.model.cluster_state import IntArray
from one_preempt.core.model.lease import Lease
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.place_waiting import waiting_leases
from one_preempt.core.phases.power_draft import PowerDraft
from one_preempt.core.phases.supply_question import largest_need, places, suited_rows

# So many requests that may preempt, and so many that only sleeping hosts suit, are looked at in one cycle.
LOOKED_AT = 32


def lacking_room(draft: PlanDraft) -> list[Lease]:
    """Who waits and was found no room, in the order of the queue; known once the queue was placed."""
    return [lease for lease in waiting_leases(draft) if _lacks_room(draft, lease)]


def _lacks_room(draft: PlanDraft, lease: Lease) -> bool:
    if lease.id in draft.reserved or not draft.startable(lease):
        return False
    return lease.id in draft.lacking_room


@dataclass(slots=True)
class _Need:
    """The places of a lease by row, shape (H,), and how many more there are on hosts that are on than it has VMs."""

    places: IntArray
    to_spare: int


class NeededHosts:
    """What those who wait have to spare of the hosts that are on or come, as some of these go."""

    def __init__(self, draft: PlanDraft, power: PowerDraft) -> None:
        on = power.awake | power.coming
        known = on | power.asleep
        self._needs: list[_Need] = []
        for lease in lacking_room(draft)[:LOOKED_AT]:
            vms = draft.startable(lease)
            room = places(draft.state.hosts.capacity, largest_need(vms), suited_rows(draft, vms))
            # Who would not even fit if nobody else were there is no reason to keep hosts on.
            if int(room[known].sum()) >= len(vms):
                self._needs.append(_Need(room, int(room[on].sum()) - len(vms)))

    def spare(self, row: int) -> bool:
        """May the host of this row, which is on, go as well? Then it counts as gone from now on."""
        if any(need.places[row] > max(need.to_spare, 0) for need in self._needs):
            return False
        for need in self._needs:
            need.to_spare -= int(need.places[row])
        return True
