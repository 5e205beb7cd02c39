"""Hosts that differ, several resources, VMs that may go to some of them only: a gang is promised hosts by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from one_preempt.core.availability.gang_demand import BoolArray, GangDemand
from one_preempt.core.availability.slot_reservation import SlotReservation
from one_preempt.core.availability.slot_table import GangSlot, SlotTable
from one_preempt.core.availability.timed_request import TimedRequest
from one_preempt.core.model.cluster_state import IntArray

# Before anything came free: the count of those times begins at 0, and a search is due where it is higher.
NEVER = -1


class UnlikeHosts:
    """An `Availability` over a slot table; a demand is a `GangDemand`. A lease has one stay here.

    The table may be used beside it for overheads and for other leases, but what comes free there has to be told by
    `room_freed`, or promises are not brought forward.
    """

    def __init__(self, table: SlotTable) -> None:
        self.table = table
        self._stays: dict[int, SlotReservation] = {}
        self._times_freed = 0
        # Another object whenever room came free: while it is the same there is nowhere more of it at any time to come.
        self.freed_at = object()
        self._freed_when_placed: dict[int, int] = {}
        self._row_freed: IntArray = np.zeros(len(table.free_during(table.since_s, None)), dtype=np.int64)

    def stay_of(self, lease_id: int) -> SlotReservation | None:
        """The room that the lease has or is promised."""
        return self._stays.get(lease_id)

    # -- what a backfilling policy asks ----------------------------------------------------------------------

    def start_of(self, lease_id: int) -> int | None:
        """When the lease starts or has started; None where nothing is held for it."""
        stay = self._stays.get(lease_id)
        return None if stay is None else stay.start_s

    def starts_of(self, lease_ids: Iterable[int]) -> dict[int, int]:
        """When these leases start or have started, without those for which nothing is held."""
        starts_s = {lease_id: self.start_of(lease_id) for lease_id in lease_ids}
        return {lease_id: start_s for lease_id, start_s in starts_s.items() if start_s is not None}

    def place(self, request: TimedRequest[GangDemand], not_before_s: int) -> int | None:
        """Hold hosts from the first instant at which the gang fits for the duration; None where there is none."""
        slot = self.table.earliest_fit(request.demand, request.duration_s, not_before_s)
        if slot is None:
            return None
        self.hold(request, slot)
        return slot.start_s

    def place_at(self, request: TimedRequest[GangDemand], start_s: int) -> bool:
        """Hold hosts from exactly then on, if the gang fits for the duration."""
        host_rows = self.table.fit_at(request.demand, start_s, request.end_s(start_s))
        if host_rows is None:
            return False
        self.hold(request, GangSlot(start_s, host_rows))
        return True

    def worth_trying(
        self, requests: Sequence[TimedRequest[GangDemand]], _start_s: int
    ) -> Sequence[TimedRequest[GangDemand]]:
        """All of them: each must be looked at."""
        return requests

    def is_hopeless(self, _request: TimedRequest[GangDemand]) -> bool:
        """Never known: what hosts have without those who are there is not kept here."""
        return False

    def bring_forward(self, request: TimedRequest[GangDemand], not_before_s: int) -> int:
        """Let a lease that is promised hosts start earlier, if that has become possible; returns its start."""
        stay = self._stays[request.lease_id]
        freed = self._row_freed > self._freed_when_placed[request.lease_id]
        self._freed_when_placed[request.lease_id] = self._times_freed
        slot = self._released_for_earlier(request, not_before_s, stay, freed) if freed.any() else None
        if slot is None:
            return stay.start_s
        self.room_freed(stay.host_rows)
        self.hold(request, slot)
        return slot.start_s

    def _released_for_earlier(
        self, request: TimedRequest[GangDemand], not_before_s: int, stay: SlotReservation, freed: BoolArray
    ) -> GangSlot | None:
        """Hosts for an earlier start, which takes a place on a host where something came free since the last search.

        So the hosts that changed are looked at first. What the lease itself holds counts as free; it is released
        for that only where it matters, and held again where there is no earlier start.
        """
        limits = (request.demand, request.duration_s, not_before_s, stay.start_s, freed)
        own_freed = bool(freed[list(stay.host_rows)].any())
        first_s = None if own_freed else self.table.first_place(*limits)
        if first_s is None and not own_freed:
            return None
        mark = self.table.checkpoint()
        self.table.release(stay)
        if own_freed:
            first_s = self.table.first_place(*limits)
        slot = None
        if first_s is not None:
            slot = self.table.earliest_fit(request.demand, request.duration_s, first_s, stay.start_s)
        if slot is None:
            self.table.rollback(mark)
        return slot

    def withdraw(self, lease_id: int) -> None:
        """Give back all that is held for the lease, because it has ended or is to have no promise any more."""
        self.room_freed(self.take_out(lease_id).host_rows)

    def take_out(self, lease_id: int) -> SlotReservation:
        """Give back what is held for the lease although nobody is to have it: it is held elsewhere from now on."""
        stay = self._stays.pop(lease_id)
        self._give_back(stay)
        return stay

    def keeps(self, lease_ids: Iterable[int]) -> bool:
        """Is there still room for what these leases are promised?"""
        short = self.table.overbooked().keys()
        if not short:
            return True
        stays = [self._stays[lease_id] for lease_id in lease_ids]
        return all(short.isdisjoint(stay.host_rows) or self._is_kept(stay) for stay in stays)

    def shield(self, lease_id: int) -> None:
        """Nothing: hosts are promised by name, so nobody counts on the others."""

    def unshield(self) -> None:
        """Nothing: see `shield`."""

    # -- what happens ----------------------------------------------------------------------------------------

    def hold(self, request: TimedRequest[GangDemand], slot: GangSlot) -> None:
        """Hold hosts from then on, free or not: for a lease that was seen running, or an advance reservation."""
        stay = SlotReservation(
            lease_id=request.lease_id,
            start_s=slot.start_s,
            end_s=request.end_s(slot.start_s),
            host_rows=slot.host_rows,
            amounts=tuple(map(tuple, request.demand.needs.tolist())),
        )
        self.hold_stay(stay)
        self._freed_when_placed[request.lease_id] = self._times_freed

    def hold_stay(self, stay: SlotReservation) -> None:
        """Hold a stay that was planned before, free or not."""
        self.table.reserve(stay)
        self._stays[stay.lease_id] = stay
        self.search_again(stay.lease_id)

    def is_search_due(self, lease_id: int) -> bool:
        """Did anything come free since an earlier start was looked for?"""
        return bool((self._row_freed > self._freed_when_placed[lease_id]).any())

    def search_again(self, lease_id: int) -> None:
        """Look for an earlier start for a promised lease whatever came free since: not all that was found was taken."""
        self._freed_when_placed[lease_id] = NEVER

    def forget_before(self, now_s: int) -> None:
        """Drop the time before an instant; a lease that should have ended by then is known until it is withdrawn."""
        self.table.forget_before(now_s)

    def room_freed(self, host_rows: Iterable[int]) -> None:
        """Room came free on these hosts: promises may be brought forward."""
        self._times_freed += 1
        self.freed_at = object()
        row_freed = self._row_freed.data
        for row in host_rows:
            row_freed[row] = self._times_freed

    def _give_back(self, stay: SlotReservation) -> None:
        """The table forgets stays that should have ended; the leases may still be there."""
        self.table.release_known(stay)

    def _is_kept(self, stay: SlotReservation) -> bool:
        room = self.table.free_during(max(stay.start_s, self.table.since_s), stay.end_s)
        return bool((room[list(stay.host_rows)] >= 0).all())
