"""The queue's view of room: what starts now is placed by the matchmaker, what starts later is promised by the timeline.

A backfilling policy walks through the queue and asks here; nothing it is told can take what was promised firmly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from one_preempt.core.availability.slot_table import GangSlot
from one_preempt.core.availability.timed_request import TimedRequest
from one_preempt.core.availability.timeline import Stay
from one_preempt.core.matching import reasons
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.model.cluster_state import IntArray
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.plan import Placement
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.observed_room import amounts_of
from one_preempt.core.phases.draft import RETURNING_STATES, PlanDraft
from one_preempt.core.phases.reschedule import reschedule
from one_preempt.core.phases.room_ahead import ceiling, end_of, gang_demand, rows_of, stay_at
from one_preempt.core.suspendable import may_be_suspended_later


@dataclass(frozen=True, slots=True)
class Turn:
    """One entry of the queue: the VMs of a lease that are to start, or one VM that is `marked` to move elsewhere."""

    lease: Lease
    vms: tuple[VirtualMachine, ...]
    marked: bool = False

    @property
    def id(self) -> int:
        """Told apart: the lease's id, or a negative number for a VM that moves."""
        return -1 - self.vms[0].id if self.marked else self.lease.id

    @property
    def returning(self) -> bool:
        """It was sent out, and comes back."""
        return self.lease.state in RETURNING_STATES


class QueueRoom:
    """An `Availability` whose demands are `Turn`s. `placed` are the placements of what starts now, by the turn's id."""

    def __init__(self, draft: PlanDraft) -> None:
        self._draft = draft
        self._stays = draft.timeline.all_stays
        self.placed: dict[int, tuple[Placement, ...]] = {}
        self.unplaced: dict[int, Unplaced] = {}

    # -- what a backfilling policy asks ----------------------------------------------------------------------

    def start_of(self, lease_id: int) -> int | None:
        """The start that the lease is promised."""
        return self._stays.start_of(lease_id)

    def place(self, request: TimedRequest[Turn], not_before_s: int) -> int | None:
        """Start it now if it fits now; else promise it the first start that is known. None where none is."""
        now_s = self._draft.state.now_s
        if not_before_s <= now_s and self.place_at(request, now_s):
            return now_s
        if request.demand.marked or not self._waits_for_room(request) or self._draft.timeline.is_empty:
            return None
        demand = gang_demand(self._draft, request.demand.vms)
        slot = self._stays.table.earliest_fit(demand, request.duration_s, max(not_before_s, now_s + 1))
        if slot is None or slot.start_s <= now_s + 1:
            # What has room and yet does not start waits for something that time does not bring.
            return None
        self._stays.hold(TimedRequest(request.lease_id, demand, request.duration_s), slot)
        return slot.start_s

    def place_at(self, request: TimedRequest[Turn], start_s: int) -> bool:
        """Start it now, if the matchmaker finds hosts where nothing is in its way for its whole duration."""
        turn = request.demand
        if turn.marked:
            return reschedule(self._draft, turn.lease, turn.vms[0])
        end_s = end_of(start_s, request.duration_s)
        whole = ceiling(self._draft, start_s, end_s)
        placed = self._placed(turn, whole)
        if isinstance(placed, Unplaced) and whole is not None and lacks_room(placed):
            placed = self._until_it_gives_way(turn, start_s, end_s, placed)
        if isinstance(placed, Unplaced):
            self.unplaced[turn.id] = placed
            return False
        self._take(turn, placed, start_s, end_s)
        return True

    def bring_forward(self, request: TimedRequest[Turn], not_before_s: int) -> int:
        """Start it now, or let it keep its promise, or have an earlier one."""
        now_s, lease_id = self._draft.state.now_s, request.lease_id
        stay = self._stays.stay_of(lease_id)
        assert stay is not None, "only promised leases are brought forward"
        demand = gang_demand(self._draft, request.demand.vms)
        start_s = self._stays.bring_forward(TimedRequest(lease_id, demand, request.duration_s), not_before_s)
        if start_s > now_s:
            return start_s
        self._stays.take_out(lease_id)
        if self.place_at(request, now_s):
            return now_s
        # Something else than room is in its way now: it keeps what it had, and is looked at again in the next cycle.
        self._stays.hold_stay(stay)
        return max(stay.start_s, now_s + 1)

    def withdraw(self, lease_id: int) -> None:
        """Take a promise back."""
        self._stays.withdraw(lease_id)

    def keeps(self, lease_ids: Iterable[int]) -> bool:
        """Is there still room for what these leases are promised?"""
        return self._stays.keeps(lease_ids)

    def shield(self, lease_id: int) -> None:
        """Nothing: hosts are promised by name."""

    def unshield(self) -> None:
        """Nothing: see `shield`."""

    # -- now -------------------------------------------------------------------------------------------------

    def _placed(self, turn: Turn, free_then: IntArray | None) -> tuple[Placement, ...] | Unplaced:
        """MAX_HOST and MAX_DISPATCH pace ordinary VMs; what is owed, or may preempt, is not held up by them."""
        draft = self._draft
        with draft.room.capped(free_then):
            if len(turn.vms) > 1:
                return draft.matchmaker.place_together(turn.vms, draft.room)
            vm = turn.vms[0]
            paced = not (turn.returning or turn.lease.preempts)
            refused_host_id = draft.refused_host_id(start_id(vm, returning=turn.returning))
            placed = draft.matchmaker.place(vm, draft.room, limited=paced, after_host_id=refused_host_id)
        return placed if isinstance(placed, Unplaced) else (placed,)

    def _until_it_gives_way(
        self, turn: Turn, start_s: int, end_s: int | None, unplaced: Unplaced
    ) -> tuple[Placement, ...] | Unplaced:
        """What may be suspended can use the time before a reservation, if that is worth its while (VW07 6.1)."""
        worth_s = may_be_suspended_later(self._draft.state, self._draft.policies, turn.lease, turn.vms)
        if worth_s is None or (end_s is not None and start_s + worth_s >= end_s):
            return unplaced
        return self._placed(turn, ceiling(self._draft, start_s, start_s + worth_s))

    def _take(self, turn: Turn, placed: tuple[Placement, ...], start_s: int, end_s: int | None) -> None:
        """Hold the room of what starts now, up to where something firm begins."""
        self.placed[turn.id] = placed
        timeline, rows, amounts = self._draft.timeline, rows_of(self._draft, placed), amounts_of(turn.vms)
        timeline.withdraw(turn.lease.id)
        until_s = timeline.cut_end(GangSlot(start_s, rows), amounts, end_s)
        stay = stay_at(turn.lease, turn.vms, rows, start_s, until_s, firm=False)
        timeline.hold((stay,))

    def _waits_for_room(self, request: TimedRequest[Turn]) -> bool:
        unplaced = self.unplaced.get(request.lease_id)
        return unplaced is None or lacks_room(unplaced)


def promised_stay(draft: PlanDraft, lease_id: int) -> Stay | None:
    """What the backfilling policy has promised to a lease that waits."""
    return draft.timeline.as_promised(lease_id)


def start_id(vm: VirtualMachine, *, returning: bool) -> str:
    """The id of the action that starts `vm`: another one for each stay on a host."""
    return f"{'return' if returning else 'deploy'}/{vm.id}/{len(vm.history)}"


def lacks_room(unplaced: Unplaced) -> bool:
    """Some host would do if others left it."""
    return any(unplaced.counts.get(code) for code in (reasons.CAPACITY, reasons.DEVICES))
