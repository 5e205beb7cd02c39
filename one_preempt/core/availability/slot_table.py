"""The slot table: who has which room on which host and when, hosts of all kinds, several resources.

It answers from when on a gang fits together, and whether it fits exactly then (advance reservations, VW07). What has
been reserved is taken back by naming it again.

What is reserved is laid into the hosts' steps when somebody looks at the time in which it is: where nodes are counted
nobody does, and most of what is reserved is taken back without anybody having looked.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import add, sub

import numpy as np
from msgspec import Struct

from one_preempt.core.availability import stay_windows
from one_preempt.core.availability.gang_demand import BoolArray, GangDemand, LikeVms
from one_preempt.core.availability.host_steps import HostSteps
from one_preempt.core.availability.slot_reservation import SlotReservation
from one_preempt.core.availability.stay_windows import StayWindow
from one_preempt.core.availability.steps import END_OF_TIME_S
from one_preempt.core.distinct import distinct
from one_preempt.core.model.cluster_state import IntArray

# Nobody may hold up the scheduler with a gang of VMs that differ and can nowhere be packed: after so many instants only
# the last one is looked at, when all that ends has ended.
PACKED_STARTS = 100
# From so many hosts on it takes less to change all of them together than one after the other.
_TOGETHER = 10
# So many answers to "what if some of it were not reserved" are remembered at once.
_ASIDES = 16


class SlotTableChange(Struct, frozen=True):
    """A reservation that was made or, where not `made`, taken back."""

    reservation: SlotReservation
    made: bool


class GangSlot(Struct, frozen=True):
    """Where and when a gang fits: the row of a host for each VM."""

    start_s: int
    host_rows: tuple[int, ...]


class SlotTable:
    """Reservations on H hosts with R resources.

    `capacity`, shape (H, R), is what VMs may use on each host from `since_s` on. Nothing is known of the time before.
    Room goes below zero where more is reserved than there is: what is observed need not have been planned.
    """

    def __init__(self, capacity: IntArray, since_s: int) -> None:
        self._steps = HostSteps(capacity, since_s)
        self._since_s = self._laid_in_since_s = since_s
        self._reservations: dict[int, tuple[SlotReservation, ...]] = {}
        self._first_end_s = END_OF_TIME_S
        self._journal: list[SlotTableChange] = []
        # Not laid in yet: what is taken, by identity, what is given back, and how much more the hosts have.
        self._to_take: dict[int, SlotReservation] = {}
        self._to_give: list[SlotReservation] = []
        self._more: IntArray | None = None
        # What is free without some of what is reserved, by the identity of that; kept with it, as of some state.
        self._asides: dict[tuple[int, ...], tuple[tuple[SlotReservation, ...], HostSteps]] = {}
        self._asides_as_of = (0, since_s)

    # -- looking -----------------------------------------------------------------------------------------

    @property
    def since_s(self) -> int:
        """The first instant that is known."""
        return self._since_s

    def reservations_of(self, lease_id: int) -> tuple[SlotReservation, ...]:
        """What is reserved for a lease, by its start."""
        return self._reservations.get(lease_id, ())

    def reservations(self) -> Mapping[int, tuple[SlotReservation, ...]]:
        """What is reserved for each lease; not to be changed."""
        return self._reservations

    def free_over_time(self, row: int) -> tuple[IntArray, IntArray]:
        """The instants at which a host's free resources change and what is free from each on; copies."""
        return self._hosts.as_steps(row)

    def free_during(self, start_s: int, end_s: int | None, aside: tuple[SlotReservation, ...] = ()) -> IntArray:
        """The least that is free on each host between two instants, shape (H, R), as if nothing were reserved `aside`.

        These are the very objects that `reservations` has.
        """
        return self._between(start_s, end_s, aside).lowest(start_s, _or_endless(end_s))

    def free_on(
        self, rows: Sequence[int], start_s: int, end_s: int | None, aside: tuple[SlotReservation, ...] = ()
    ) -> IntArray:
        """The same on some hosts, shape (rows, R)."""
        return self._between(start_s, end_s, aside).lowest_on(rows, start_s, _or_endless(end_s))

    def overbooked(self) -> Mapping[int, int]:
        """The rows of hosts on which at some time more is reserved than there is, and from when on that is over."""
        return self._hosts.overbooked()

    @property
    def number(self) -> int:
        """So many changes were made to what is free. What was taken and given back unseen is none, nor is time."""
        return self._hosts.number

    def is_unchanged(self, number: int, rows: Sequence[int]) -> bool:
        """What is free on these hosts, from now on, is what it was when `number` was that of the table."""
        return self._hosts.is_unchanged(number, rows)

    def fit_at(self, demand: GangDemand, start_s: int, end_s: int | None) -> tuple[int, ...] | None:
        """The row of a host for each VM, such that all run together between two instants; None if they do not fit."""
        return fit_in(demand, self.free_during(start_s, end_s))

    def earliest_fit(
        self, demand: GangDemand, duration_s: int | None, not_before_s: int, before_s: int = END_OF_TIME_S
    ) -> GangSlot | None:
        """The first instant before `before_s` from which the gang fits together for the duration; None without one.

        Like VMs are counted in one sweep. VMs that differ are packed, but only at instants at which each kind would
        fit alone, and at no more than PACKED_STARTS of them.
        """
        not_before_s = max(not_before_s, self._since_s)
        for start_s in self._possible_starts(demand, duration_s, not_before_s, before_s):
            end_s = None if duration_s is None else start_s + duration_s
            host_rows = self.fit_at(demand, start_s, end_s)
            if host_rows is not None:
                return GangSlot(start_s, host_rows)
        return None

    def first_place(
        self, demand: GangDemand, duration_s: int | None, not_before_s: int, before_s: int, rows: BoolArray
    ) -> int | None:
        """The first instant before `before_s` from which any VM of the gang fits on one of these hosts, shape (H,).

        When nothing else has come free, the gang cannot start before it either.
        """
        firsts = []
        for like in demand.classes:
            one = LikeVms(like.members[:1], like.need, like.allowed & rows, 1)
            instants, fits = self._hosts.enough(one, _or_endless(duration_s), not_before_s, before_s)
            firsts += instants[fits][:1].tolist()
        return min(firsts, default=None)

    def stay_windows(
        self, demand: GangDemand, shortest_s: int, not_before_s: int, before_s: int
    ) -> Iterator[StayWindow]:
        """Where the gang may stay together for at least `shortest_s` between two instants, as long as it may stay.

        The first window is from when on it fits, and for how long at most. Like VMs are counted. VMs that differ are
        packed, at each start for which each kind would find a longer stay alone; after PACKED_STARTS packings only the
        last such start is looked at.
        """
        limits = (shortest_s, max(not_before_s, self._since_s), before_s)
        by_kind = [self._hosts.stay_windows(like, *limits) for like in demand.classes]
        if len(by_kind) == 1:
            return iter(by_kind[0])
        return self._packed_windows(demand, stay_windows.common(by_kind, shortest_s), shortest_s)

    def _packed_windows(self, demand: GangDemand, possible: list[StayWindow], shortest_s: int) -> Iterator[StayWindow]:
        instants = distinct(self._hosts.instants(), np.array(possible, dtype=np.int64))
        ends = stay_windows.ends_from(possible, instants)
        starts = [(int(t), int(end)) for t, end in zip(instants, ends, strict=True) if end - t >= shortest_s]
        packings, known_end_s = 0, 0
        for start_s, limit_s in starts:
            least_s = max(start_s + shortest_s, known_end_s + 1)
            if least_s > limit_s or (packings > PACKED_STARTS and start_s != starts[-1][0]):
                continue
            between = instants[(instants > least_s) & (instants < limit_s)].tolist()
            packings += 1 + len(between).bit_length()
            end_s = self._longest_stay(demand, start_s, [least_s, *between, limit_s])
            if end_s is not None:
                known_end_s = end_s
                yield StayWindow(start_s, end_s)

    def _longest_stay(self, demand: GangDemand, start_s: int, ends_s: list[int]) -> int | None:
        """The last of these ends, ascending, until which the gang may stay from the start on."""
        if self.fit_at(demand, start_s, ends_s[-1]) is not None:
            return ends_s[-1]
        longer = bisect_left(ends_s, True, key=lambda end_s: self.fit_at(demand, start_s, end_s) is None)
        return ends_s[longer - 1] if longer else None

    def _possible_starts(
        self, demand: GangDemand, duration_s: int | None, not_before_s: int, before_s: int
    ) -> Iterable[int]:
        """Instants, ascending, at which each kind of VM would fit alone, and the gang perhaps for the first time."""
        wanted_s = _or_endless(duration_s)
        found = [self._hosts.enough(like, wanted_s, not_before_s, before_s) for like in demand.classes]
        if len(found) == 1:
            instants, possible = found[0]
        else:
            # More room may come free than any kind needs alone, so every change counts.
            instants = distinct(self._hosts.instants(), *(starts for starts, _ in found))
            instants = instants[(instants >= not_before_s) & (instants < before_s)]
            fitting = [fits[starts.searchsorted(instants, side="right") - 1] for starts, fits in found]
            possible = np.logical_and.reduce(fitting)
        starts = instants[possible]
        if len(found) > 1 and len(starts) > PACKED_STARTS:
            starts = np.append(starts[:PACKED_STARTS], starts[-1])
        return (int(start_s) for start_s in starts)

    # -- changing ----------------------------------------------------------------------------------------

    def reserve(self, reservation: SlotReservation) -> None:
        """Take the room, free or not. Raises ValueError where the very same is reserved already."""
        known = self.reservations_of(reservation.lease_id)
        if reservation in known:
            raise ValueError(f"{reservation} is in the slot table already")
        both = tuple(sorted((*known, reservation), key=_order)) if known else (reservation,)
        self._reservations[reservation.lease_id] = both
        self._first_end_s = min(self._first_end_s, _end_of(reservation))
        if reservation in self._to_give:
            # Taken back for a moment only.
            self._to_give.remove(reservation)
        else:
            self._to_take[id(reservation)] = reservation
        self._journal.append(SlotTableChange(reservation, made=True))

    def release(self, reservation: SlotReservation) -> None:
        """Give the room back. Raises ValueError where it is not reserved."""
        if not self.release_known(reservation):
            raise ValueError(f"{reservation} is not in the slot table")

    def release_known(self, reservation: SlotReservation) -> bool:
        """Give the room back where it is reserved: what has ended is forgotten already. Was it?"""
        known = self.reservations_of(reservation.lease_id)
        if reservation not in known:
            return False
        held = known[known.index(reservation)]
        self._keep(reservation.lease_id, tuple(other for other in known if other is not held))
        if self._to_take.pop(id(held), None) is None:
            self._to_give.append(held)
        self._journal.append(SlotTableChange(held, made=False))
        return True

    def change_capacity(self, more: IntArray) -> None:
        """From now on each host has so much more, or less where negative, shape (H, R). Not undone by `rollback`."""
        self._more = more if self._more is None else self._more + more

    def checkpoint(self) -> int:
        """A mark for `rollback`, until the next `forget_before`."""
        return len(self._journal)

    def rollback(self, mark: int) -> None:
        """Undo everything since the mark."""
        while len(self._journal) > mark:
            change = self._journal.pop()
            (self.release if change.made else self.reserve)(change.reservation)
            self._journal.pop()

    def forget_before(self, instant_s: int) -> None:
        """Drop the time before an instant, and reservations that have ended. Marks end here."""
        self._since_s = max(self._since_s, instant_s)
        self._journal.clear()
        if instant_s < self._first_end_s:
            return
        ended = [one for known in self._reservations.values() for one in known if _end_of(one) <= instant_s]
        for one in ended:
            self._keep(one.lease_id, tuple(other for other in self._reservations[one.lease_id] if other is not one))
            self._to_take.pop(id(one), None)
        self._to_give = [one for one in self._to_give if _end_of(one) > instant_s]
        ends_s = (_end_of(one) for known in self._reservations.values() for one in known)
        self._first_end_s = min(ends_s, default=END_OF_TIME_S)

    def _keep(self, lease_id: int, left: tuple[SlotReservation, ...]) -> None:
        if left:
            self._reservations[lease_id] = left
        else:
            del self._reservations[lease_id]

    def _between(self, start_s: int, end_s: int | None, aside: tuple[SlotReservation, ...]) -> HostSteps:
        """Steps that are right between two instants, without some of what is reserved."""
        return self._without(aside) if aside else self._laid_in(start_s, _or_endless(end_s))

    def _without(self, aside: tuple[SlotReservation, ...]) -> HostSteps:
        """The steps without some of what is reserved; remembered while nothing changes, for many ask the same."""
        steps = self._hosts
        as_of = (steps.number, self._laid_in_since_s)
        if as_of != self._asides_as_of or len(self._asides) >= _ASIDES:
            self._asides_as_of = as_of
            self._asides.clear()
        key = tuple(map(id, aside))
        known = self._asides.get(key)
        if known is None:
            without = steps.copy()
            for (start_s, end_s), by_row in _balance(aside, ()).items():
                _lay_in(without, start_s, end_s, by_row)
            known = self._asides[key] = (aside, without)
        return known[1]

    @property
    def _hosts(self) -> HostSteps:
        """The steps of all hosts, with everything laid in."""
        return self._laid_in(self._since_s, END_OF_TIME_S)

    def _laid_in(self, start_s: int, end_s: int) -> HostSteps:
        """The same with what there is between two instants; of the rest perhaps nobody ever asks."""
        if self._laid_in_since_s < self._since_s:
            self._steps.forget_before(self._since_s)
            self._laid_in_since_s = self._since_s
        if self._more is not None:
            for row in np.flatnonzero(self._more.any(axis=1)).tolist():
                self._steps.add(row, self._since_s, END_OF_TIME_S, self._more[row])
            self._more = None
        given = [one for one in self._to_give if _meets(one, start_s, end_s)]
        taken = [one for one in self._to_take.values() if _meets(one, start_s, end_s)]
        for span, by_row in _balance(given, taken).items():
            _lay_in(self._steps, *span, by_row)
        if given:
            self._to_give = [one for one in self._to_give if not _meets(one, start_s, end_s)]
        for one in taken:
            del self._to_take[id(one)]
        return self._steps


def _lay_in(steps: HostSteps, start_s: int, end_s: int, by_row: Mapping[int, tuple[int, ...]]) -> None:
    if len(by_row) >= _TOGETHER:
        rows, amounts = np.array(list(by_row), dtype=np.int64), np.array(list(by_row.values()), dtype=np.int64)
        steps.add_together(rows, start_s, end_s, amounts)
        return
    for row, amount in by_row.items():
        steps.add(row, start_s, end_s, np.array(amount, dtype=np.int64))


def _balance(
    given: Iterable[SlotReservation], taken: Iterable[SlotReservation]
) -> dict[tuple[int, int], dict[int, tuple[int, ...]]]:
    """What is more free, or less where negative, between two instants by row; a stay that only moves in part leaves
    the other rows alone."""
    found: dict[tuple[int, int], dict[int, tuple[int, ...]]] = {}
    for change, reservations in ((add, given), (sub, taken)):
        for one in reservations:
            by_row = found.setdefault((one.start_s, _end_of(one)), {})
            nothing = (0,) * len(one.amounts[0]) if one.amounts else ()
            for row, amounts in zip(one.host_rows, one.amounts, strict=True):
                by_row[row] = tuple(map(change, by_row.get(row, nothing), amounts))
    return {span: {row: changes for row, changes in by_row.items() if any(changes)} for span, by_row in found.items()}


def fit_in(demand: GangDemand, room: IntArray) -> tuple[int, ...] | None:
    """The row of a host for each VM where so much is free, shape (H, R); None if they do not fit together."""
    if len(demand.classes) == 1:
        like = demand.classes[0]
        found = _spread(demand, like, room)
        # One may stand for all of them, which share its host.
        return found * demand.size if found is not None and len(like.members) < demand.size else found
    rows = demand.packing_rows
    placed = demand.packing.placement(room[rows]) if len(rows) else None
    return None if placed is None else tuple(int(rows[position]) for position in placed)


def _spread(demand: GangDemand, like: LikeVms, room: IntArray) -> tuple[int, ...] | None:
    """Fill hosts with like VMs in the preferred order."""
    places = np.where(like.allowed & (room >= 0).all(axis=1), np.int64(like.most_per_host), np.int64(0))
    for resource, amount in enumerate(like.need.tolist()):
        if amount:
            np.minimum(places, room[:, resource] // amount, out=places)
    np.maximum(places, 0, out=places)
    if like.fewest_per_host > 1:
        places[places < like.fewest_per_host] = 0
    order = np.arange(len(places)) if demand.host_order is None else demand.host_order
    behind = places[order].cumsum()
    size = len(like.members)
    if not len(behind) or behind[-1] < size:
        return None
    return tuple(order[behind.searchsorted(np.arange(size), side="right")].tolist())


def _end_of(reservation: SlotReservation) -> int:
    return END_OF_TIME_S if reservation.end_s is None else reservation.end_s


def _meets(reservation: SlotReservation, start_s: int, end_s: int) -> bool:
    """Some of it is between two instants, or borders on that."""
    return reservation.start_s <= end_s and start_s <= _end_of(reservation)


def _or_endless(duration_s: int | None) -> int:
    return END_OF_TIME_S if duration_s is None else duration_s


def _order(reservation: SlotReservation) -> tuple[int, bool, int, tuple[int, ...]]:
    return (
        reservation.start_s,
        reservation.end_s is None,
        reservation.end_s or 0,
        reservation.host_rows,
    )
