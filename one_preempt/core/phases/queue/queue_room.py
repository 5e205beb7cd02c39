"""The queue's view of room: what starts now is placed by the matchmaker, what starts later is promised by the timeline.

A backfilling policy walks through the queue and asks here; nothing it is told can take what was promised firmly.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property, lru_cache, partial

from one_preempt.core.availability.gang_demand import BoolArray, GangDemand
from one_preempt.core.availability.slot_reservation import SlotReservation
from one_preempt.core.availability.slot_table import GangSlot, fit_in
from one_preempt.core.availability.timed_request import TimedRequest
from one_preempt.core.availability.timeline import Stay
from one_preempt.core.matching import reasons
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.matching.vm_groups import group_rules, role_of
from one_preempt.core.model.cluster_state import IntArray
from one_preempt.core.model.plan import Placement
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.observed_room import amounts_of
from one_preempt.core.phases.devices_and_groups.beside_promised import placed_beside
from one_preempt.core.phases.devices_and_groups.never_placed import exceed_all_hosts, never_placed
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.images.expected_images import hosts_with_images_first, rows_with_images
from one_preempt.core.phases.queue.firm_ahead import FirmAhead
from one_preempt.core.phases.queue.reschedule import reschedule
from one_preempt.core.phases.reservations.demand_ahead import gang_demand
from one_preempt.core.phases.reservations.leaving_in_time import may_leave_again
from one_preempt.core.phases.reservations.room_ahead import ceiling, most_places, smallest_need
from one_preempt.core.phases.reservations.stays import end_of, rows_of, stay_at
from one_preempt.core.queue_turn import Turn
from one_preempt.core.suspendable import worth_s


class QueueRoom:
    """An `Availability` whose demands are `Turn`s. `placed` are the placements of what starts now, by the turn's id.

    Where hosts are alike they are counted, and a promise names none; else it names its hosts.
    """

    def __init__(self, draft: PlanDraft, queue: Sequence[TimedRequest[Turn]]) -> None:
        """`queue`: those who will be asked about."""
        self._draft = draft
        self._queue = queue
        self._named = draft.timeline.all_stays
        self._alike = draft.timeline.alike
        self._promises = self._named if self._alike is None else self._alike
        self._firm = FirmAhead(draft)
        self._places: dict[tuple[int, int], int] = {}
        self.placed: dict[int, tuple[Placement, ...]] = {}
        self.unplaced: dict[int, Unplaced] = {}

    # -- what a backfilling policy asks ----------------------------------------------------------------------

    def starts_of(self, lease_ids: Iterable[int]) -> dict[int, int]:
        """The starts that these leases are promised, in seconds since the epoch; only those that are promised one."""
        return self._promises.starts_of(lease_ids)

    def place(self, request: TimedRequest[Turn], not_before_s: int) -> int | None:
        """Start it now if it fits now; else promise it the first start that is known. None where none is."""
        now_s = self._draft.state.now_s
        if not_before_s <= now_s and self.place_at(request, now_s):
            return now_s
        turn = request.demand
        unplaced = self.unplaced.get(turn.id)
        # Pace alone keeps it, until the next cycle: nobody behind who knows no pace takes its room.
        is_put_off = unplaced is not None and unplaced.is_put_off and request.lease_id in self._before_unpaced
        is_promised = unplaced is None or is_put_off or lacks_room(unplaced)
        if turn.marked or self._draft.timeline.is_empty or not is_promised:
            return None
        self._is_another_search(request)
        later_s = max(not_before_s, now_s + 1)
        end_s = end_of(now_s, request.duration_s)
        if self._alike is not None:
            fits = self._alike.profile.fits(len(turn.vms), now_s, end_s)
            if fits and unplaced is not None and not is_put_off:
                return self._promised_beside_named(request, later_s)
            return self._alike.place(_counted(request), later_s)
        demand = self._demand(turn)
        fits = self._named.table.fit_at(demand, now_s, end_s) is not None
        if unplaced is not None and fits and not is_put_off and self._may_stay(turn, demand, now_s, end_s):
            return None
        start_s = self._named.place(TimedRequest(request.lease_id, demand, request.duration_s), later_s)
        if fits and start_s is not None:
            # Only what overruns keeps it from starting at once, and may end any second.
            self._named.search_again(request.lease_id)
        return start_s

    def _promised_beside_named(self, request: TimedRequest[Turn], later_s: int) -> int | None:
        """Promise a start to who has room by number now, though not on hosts, because firm stays name these.

        None for who would have it there, too: that waits for something that time does not bring.
        """
        assert self._alike is not None, "only where hosts are counted"
        turn, now_s = request.demand, self._draft.state.now_s
        demand = self._demand(turn)
        free = self._firm.leaves_free(turn.lease, now_s, end_of(now_s, request.duration_s))
        if free is None or fit_in(demand, free) is not None:
            return None
        not_before_s: int | None = later_s
        while not_before_s is not None:
            slot = self._named.table.earliest_fit(demand, request.duration_s, not_before_s)
            if slot is None:
                return None
            not_before_s = self._alike.profile.earliest_fit(len(turn.vms), request.duration_s, slot.start_s)
            if not_before_s == slot.start_s:
                self._alike.hold(_counted(request), slot.start_s)
                break
        return not_before_s

    def place_at(self, request: TimedRequest[Turn], start_s: int) -> bool:
        """Start it now, if the matchmaker finds hosts where nothing is in its way for its whole duration."""
        turn = request.demand
        if turn.marked:
            self._places.clear()
            return reschedule(self._draft, turn.lease, turn.vms[0])
        if self._alike is not None and len(turn.vms) > self._alike.profile.free_at(start_s):
            # So it is with most that wait, and it is settled whatever they are.
            self.unplaced[request.lease_id] = _no_place(len(turn.vms))
            return False
        end_s = end_of(start_s, request.duration_s)
        # Where too few are free now it does not matter for how long they are, nor who gives way later.
        if self._alike is None and self._lacks_places(turn.vms):
            placed = self._why_left_over(turn, end_s)
        else:
            placed = self._placed(turn, start_s, end_s)
            if isinstance(placed, Unplaced) and lacks_room(placed):
                placed = self._until_it_gives_way(turn, start_s, end_s, placed)
        if isinstance(placed, Unplaced):
            self.unplaced[request.lease_id] = placed
            return False
        self._take(turn, placed, start_s, end_s)
        return True

    def worth_trying(self, requests: Sequence[TimedRequest[Turn]], start_s: int) -> Sequence[TimedRequest[Turn]]:
        """Those that have no more VMs than there are places now: most that wait have, and that settles it."""
        if self._alike is None:
            return requests
        free, unplaced, tried = self._alike.profile.free_at(start_s), self.unplaced, []
        for request in requests:
            turn = request.demand
            vms = len(turn.vms)
            if vms <= free or turn.marked:
                tried.append(request)
            else:
                unplaced[request.lease_id] = _no_place(vms)
        return tried

    def is_hopeless(self, request: TimedRequest[Turn]) -> bool:
        """No host could take it whoever left, nor all of them together, as far as that is known."""
        turn, unplaced = request.demand, self.unplaced.get(request.lease_id)
        if turn.marked or unplaced is None:
            return False
        if unplaced.reason.code == reasons.TOO_SMALL or never_placed(self._draft, turn.vms) is not None:
            return True
        return len(turn.vms) > 1 and exceed_all_hosts(self._draft, turn.vms)

    def bring_forward(self, request: TimedRequest[Turn], not_before_s: int) -> int:
        """Start it now, or let it keep its promise, or have an earlier one."""
        now_s, lease_id = self._draft.state.now_s, request.lease_id
        before_s = self._promises.start_of(lease_id)
        assert before_s is not None, "only promised leases are brought forward"
        start_s, promised = before_s, self._named.stay_of(lease_id) if self._alike is None else None
        if self._is_another_search(request):
            # Hosts on which nothing came free may suit it by now.
            self._promises.search_again(lease_id)
        if self._promises.is_search_due(lease_id):
            start_s = self._brought_forward(request, not_before_s)
        if start_s > now_s:
            return start_s
        again = self._given_up(request, before_s, promised)
        if self.place_at(request, now_s):
            return now_s
        # Something else than room is in its way now: it keeps what it had, and is looked at again in the next cycle.
        again()
        return max(before_s, now_s + 1)

    def withdraw(self, lease_id: int) -> None:
        """Take a promise back."""
        self._promises.withdraw(lease_id)

    def keeps(self, lease_ids: Iterable[int]) -> bool:
        """Is there still room for what these leases are promised?"""
        return self._promises.keeps(lease_ids)

    def shield(self, lease_id: int) -> None:
        """Where hosts are counted, keep others off what comes free in the second in which this lease starts."""
        if self._alike is not None:
            self._alike.shield(lease_id)

    def unshield(self) -> None:
        """Give back what `shield` kept."""
        if self._alike is not None:
            self._alike.unshield()

    @cached_property
    def _before_unpaced(self) -> frozenset[int]:
        """The leases behind which somebody stands in the queue who is never put off to the next cycle."""
        last = max((place for place, one in enumerate(self._queue) if not one.demand.is_paced), default=0)
        return frozenset(one.lease_id for one in self._queue[:last])

    # -- later -----------------------------------------------------------------------------------------------

    def _brought_forward(self, request: TimedRequest[Turn], not_before_s: int) -> int:
        if self._alike is not None:
            return self._alike.bring_forward(_counted(request), not_before_s)
        demand = self._demand(request.demand)
        return self._named.bring_forward(TimedRequest(request.lease_id, demand, request.duration_s), not_before_s)

    def _demand(self, turn: Turn) -> GangDemand:
        """What it needs, and where."""
        return hosts_with_images_first(self._draft, turn.vms, turn.lease, gang_demand(self._draft, turn.vms))

    def _is_another_search(self, request: TimedRequest[Turn]) -> bool:
        """Is it looked for with anything else than the last time? What it is now is remembered."""
        draft, turn, searches = self._draft, request.demand, self._draft.memory.searches
        if self._alike is not None:
            # Where hosts are counted all of them suit.
            return searches.is_another(request, len(draft.state.leases))
        told: list[Hashable] = []
        of_kinds = turn.vms[:1] if draft.matchmaker.are_alike(turn.vms) else turn.vms
        matches = [draft.matchmaker.match(vm) for vm in of_kinds]
        if draft.power is not None:
            told += [draft.power.visible(one.mask, turn.lease.id).tobytes() for one in matches]
        for vm in of_kinds:
            rules = group_rules(vm, draft.room)
            if rules is not None:
                told += [role_of(vm, draft.state.snapshot), rules.mask.tobytes()]
        return searches.is_another(request, len(draft.state.leases), matches, told)

    def _given_up(
        self, request: TimedRequest[Turn], before_s: int, promised: SlotReservation | None
    ) -> Callable[[], None]:
        """Give its promise up; returns how to have it as it was, before it was brought forward in vain."""
        lease_id = request.lease_id
        if self._alike is not None:
            alike, counted = self._alike, _counted(request)
            alike.take_out(lease_id)

            def count_again() -> None:
                alike.hold(counted, before_s)
                alike.search_again(lease_id)

            return count_again
        stay = self._named.take_out(lease_id)
        return lambda: self._named.hold_stay(promised or stay)

    # -- now -------------------------------------------------------------------------------------------------

    def _may_stay(self, turn: Turn, demand: GangDemand, start_s: int, end_s: int | None) -> bool:
        """There is CPU and memory for it between two instants, beside what overruns as well if that keeps it out."""
        free = ceiling(self._draft, turn.lease, start_s, end_s)
        return free is None or fit_in(demand, free) is not None

    def _placed(self, turn: Turn, start_s: int, end_s: int | None) -> tuple[Placement, ...] | Unplaced:
        """Hosts for all VMs until `end_s`."""
        if self._alike is None:
            return self._matched(turn, ceiling(self._draft, turn.lease, start_s, end_s), end_s)
        profile, nodes = self._alike.profile, len(turn.vms)
        if not profile.fits(nodes, start_s, end_s):
            return _no_place(nodes)
        return self._matched(turn, self._firm.leaves_free(turn.lease, start_s, end_s), end_s)

    def _lacks_places(self, vms: Sequence[VirtualMachine]) -> bool:
        """Fewer of such VMs have room now, on all hosts together; counted once for all that are so small."""
        are_alike = self._draft.matchmaker.are_alike(vms)
        smallest = (vms[0].cpu_centi, vms[0].memory_mib) if are_alike else smallest_need(vms)
        if smallest not in self._places:
            self._places[smallest] = most_places(self._draft.room.free, smallest)
        return self._places[smallest] < len(vms)

    def _why_left_over(self, turn: Turn, end_s: int | None) -> tuple[Placement, ...] | Unplaced:
        """Where there are too few places, what of it is its owner told? Known from before for most that wait."""
        draft = self._draft
        told = draft.matchmaker.where_some_are_left_over(turn.vms, draft.room) if len(turn.vms) > 1 else None
        return told or self._matched(turn, None, end_s)

    def _matched(self, turn: Turn, free_then: IntArray | None, end_s: int | None) -> tuple[Placement, ...] | Unplaced:
        """Hosts where so much stays free, and where by `end_s` nobody lacks devices or cores that he was promised."""
        among = partial(self._matched_among, turn)
        if free_then is None:
            return placed_beside(self._draft, turn.lease, turn.vms, end_s, among, in_queue=True)
        with self._draft.room.capped(free_then):
            return placed_beside(self._draft, turn.lease, turn.vms, end_s, among, in_queue=True)

    def _matched_among(self, turn: Turn, among: BoolArray | None) -> tuple[Placement, ...] | Unplaced:
        """Hosts for it, those first to which no image need be copied where such images are brought ahead."""
        first = rows_with_images(self._draft, turn.vms, turn.lease)
        if first is not None:
            refused_host_id = self._refused_host_id(turn)
            if refused_host_id is not None:
                first = first & (self._draft.state.hosts.ids != refused_host_id)
            placed = self._matched_on(turn, first if among is None else among & first)
            if not isinstance(placed, Unplaced):
                return placed
        return self._matched_on(turn, among)

    def _matched_on(self, turn: Turn, among: BoolArray | None) -> tuple[Placement, ...] | Unplaced:
        draft, refused_id = self._draft, self._refused_host_id(turn)
        if len(turn.vms) > 1:
            return draft.matchmaker.place_together(turn.vms, draft.room, among)
        vm, limited = turn.vms[0], turn.is_paced
        placed = draft.matchmaker.place(vm, draft.room, among, limited=limited, after_host_id=refused_id)
        return placed if isinstance(placed, Unplaced) else (placed,)

    def _refused_host_id(self, turn: Turn) -> int | None:
        """The host that refused its only VM a moment ago."""
        if len(turn.vms) > 1:
            return None
        return self._draft.attempts.refused_host_id(start_id(turn.vms[0], returning=turn.returning))

    def _until_it_gives_way(
        self, turn: Turn, start_s: int, end_s: int | None, unplaced: Unplaced
    ) -> tuple[Placement, ...] | Unplaced:
        """What may be suspended can use the time before a reservation, if that is worth its while (VW07 6.1).

        Only what was promised firmly is worth being suspended for: a promise to the queue is not.
        """
        draft, nodes, ahead = self._draft, len(turn.vms), self._firm.preempting()
        # So it is with most that wait: others are in its way, too.
        if not ahead or (self._alike is not None and not self._alike.fits_without(ahead, nodes, start_s, end_s)):
            return unplaced
        if self._lacks_places(turn.vms) or turn.lease.id in self._firm.sent_out:
            # Nobody's giving way later makes room now; and whoever has just made room is not to make it once more.
            return unplaced
        # Others are not in its way.
        reserved = self._firm.meeting(start_s, end_s)
        if not reserved:
            return unplaced
        methods = draft.ways_out(turn.lease)
        if methods is None:
            return unplaced
        worthwhile_s = worth_s(draft.policies, draft.rates, turn.lease, turn.vms, methods)
        if end_s is not None and start_s + worthwhile_s >= end_s:
            return unplaced
        free_then = None
        if self._alike is None:
            free_then = draft.timeline.free_without(reserved, start_s, end_s)
        elif self._firm.has_others():
            free_then = self._firm.leaves_free_beside(reserved, start_s, end_s)
        mark = draft.room.checkpoint()
        with draft.room.capped(free_then):
            placed = self._placed(turn, start_s, start_s + worthwhile_s)
        if isinstance(placed, Unplaced):
            return unplaced
        if not may_leave_again(draft, turn, methods, rows_of(draft, placed), reserved, start_s + worthwhile_s):
            draft.room.rollback(mark)
            return unplaced
        return placed

    def _take(self, turn: Turn, placed: tuple[Placement, ...], start_s: int, end_s: int | None) -> None:
        """Hold the room of what starts now, up to where something firm begins; firmly where it gives way to nobody."""
        self.placed[turn.id] = placed
        self._places.clear()
        self._firm.has_started(turn.lease.id)
        timeline, rows = self._draft.timeline, rows_of(self._draft, placed)
        # Of a gang some VMs may be on hosts already: these stay there.
        known = timeline.stays.get(turn.lease.id, ())
        there = known if len(turn.vms) < len(turn.lease.vm_ids) else ()
        if known:
            timeline.replace(turn.lease.id, tuple(one for one in there if not one.promise))
        if self._alike is None:
            until_s = timeline.cut_end(GangSlot(start_s, rows), amounts_of(turn.vms), end_s)
        else:
            until_s = self._alike.profile.free_until(len(turn.vms), start_s, end_s)
        firm = not self._draft.gives_way(turn.lease)
        timeline.hold_beside(stay_at(turn.lease, turn.vms, rows, start_s, until_s, firm=firm))


# Asked for most that wait, in every cycle.
_no_place = lru_cache(maxsize=1024)(reasons.no_place)


def _counted(request: TimedRequest[Turn]) -> TimedRequest[int]:
    """Its VMs, one for a place on a host."""
    return TimedRequest(request.lease_id, len(request.demand.vms), request.duration_s)


def promised_stay(draft: PlanDraft, lease_id: int) -> Stay | None:
    """What the backfilling policy has promised to a lease that waits."""
    return draft.timeline.as_promised(lease_id, amounts_of(draft.members(draft.state.leases[lease_id])))


def start_id(vm: VirtualMachine, *, returning: bool) -> str:
    """The id of the action that starts `vm`: one for its first stay on a host, one for all that follow."""
    return f"{'return' if returning else 'deploy'}/{vm.id}/{len(vm.history)}"


def lacks_room(unplaced: Unplaced) -> bool:
    """Some host would do if others left it, or if it were larger: one that sleeps may be."""
    counts = unplaced.counts
    return bool(counts.get(reasons.CAPACITY) or counts.get(reasons.TOO_SMALL) or counts.get(reasons.DEVICES))
