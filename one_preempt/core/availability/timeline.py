"""What is free on every host from now on, as the decision sees it: once for the queue, once for firm promises.

`all_stays` is the slot table that the queue is held against: everything that runs until its expected end, firm
reservations, and the promises of the backfilling policy. `firm_stays` leaves out what may be suspended for a
reservation: what is free there can be promised firmly (VW07 6.1: best-effort VMs give way to reservations).

A timeline is kept from cycle to cycle and told only what has changed; what it then says is the same as if it had
been made anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from one_preempt.core.availability.alike_nodes import AlikeNodes, HeldNodes
from one_preempt.core.availability.gang_demand import BoolArray
from one_preempt.core.availability.slot_reservation import SlotReservation
from one_preempt.core.availability.slot_table import GangSlot, SlotTable
from one_preempt.core.availability.timed_request import TimedRequest
from one_preempt.core.availability.unlike_hosts import UnlikeHosts
from one_preempt.core.model.cluster_state import IntArray


class Stay(Struct, frozen=True):
    """Room that a lease has or is promised. `host_rows` and `amounts` have one entry a VM, (CPU in hundredths, MiB).

    `firm`: nothing may be promised in its place. `promise`: one of the backfilling policy, which the queue may improve.
    `displaced`: a host is lost, and others are looked for; what is left is kept until then, and nothing starts by it.
    `vm_ids`: whose its hosts are, where it does not have one for each VM of the lease that it is about.
    """

    lease_id: int
    start_s: int
    end_s: int | None
    host_rows: tuple[int, ...]
    amounts: tuple[tuple[int, ...], ...]
    firm: bool
    promise: bool = False
    displaced: bool = False
    vm_ids: tuple[int, ...] = ()

    @property
    def slot_reservation(self) -> SlotReservation:
        """As the slot table has it."""
        return SlotReservation(self.lease_id, self.start_s, self.end_s, self.host_rows, self.amounts)


class ObservedRoom(Struct, frozen=True, eq=False):
    """What a timeline is told. `base` and `firm_base`, shape (H, 2), are what would be free if none of `stays` were.

    `accepting`, shape (H,): the hosts that take VMs. `host_ids` are the rows' hosts; `stays` by lease, in the order of
    time. Observations of one cloud are numbered; `changed` are the leases that may have other stays, or be other
    objects, than by the number before; None: any may. Arrays that say the same are the same.
    """

    host_ids: tuple[int, ...]
    base: IntArray
    firm_base: IntArray
    stays: Mapping[int, tuple[Stay, ...]]
    accepting: BoolArray
    number: int = 0
    changed: frozenset[int] | None = None
    to_come: Mapping[int, tuple[Stay, ...]] = field(default_factory=dict)

    def changed_since(self, number: int) -> frozenset[int] | None:
        """The leases that may have changed since an observation; None: any may."""
        return self.changed if number == self.number - 1 else None


class Timeline:
    """Free room on H hosts over time. Instants in seconds since the epoch."""

    def __init__(self, room: ObservedRoom, now_s: int, alike_slots: int | None = None) -> None:
        """`alike_slots`: see `observe`."""
        self.host_ids = room.host_ids
        self.all_stays = UnlikeHosts(SlotTable(room.base, now_s))
        self.firm_stays = SlotTable(room.firm_base, now_s)
        self._base, self._firm_base, self._accepting = room.base, room.firm_base, room.accepting
        self._gives_way = bool((room.base != room.firm_base).any())
        self._stays: dict[int, tuple[Stay, ...]] = {}
        self._told, self._number, self._to_come = room.stays, room.number, room.to_come
        # Leases of which the decision has changed what the observation said.
        self._touched: set[int] = set()
        self.alike: AlikeNodes | None = None
        self._alike_slots = alike_slots
        self._recount(alike_slots, now_s)
        self._learn(room, (*room.stays, *room.to_come))

    @property
    def stays(self) -> Mapping[int, tuple[Stay, ...]]:
        """What is known of each lease; not to be changed."""
        return self._stays

    @property
    def is_empty(self) -> bool:
        """Nothing ends, nothing is promised and nothing gives way: what is free now stays free."""
        return not self._stays and not self._gives_way

    def can_follow(self, room: ObservedRoom, now_s: int) -> bool:
        """The same hosts, and time has not gone back: the timeline can be told what changed."""
        are_same = room.host_ids is self.host_ids or room.host_ids == self.host_ids
        return are_same and now_s >= self.firm_stays.since_s

    def observe(self, room: ObservedRoom, now_s: int, alike_slots: int | None = None) -> None:
        """Make it what `room` says at `now_s`; only differences cost anything.

        `alike_slots`: all VMs that the queue is about need the same, and so many of them have room in all if none of
        the stays has any; None where VMs or hosts differ.
        """
        self.all_stays.forget_before(now_s)
        self.firm_stays.forget_before(now_s)
        self._rebase(room)
        are_counted = self.alike is not None
        self._recount(alike_slots, now_s)
        # Other stays than those that are numbered may have been added in between.
        changed = room.changed_since(self._number) if room.stays is self._told else None
        if changed is None or are_counted != (self.alike is not None):
            self._learn(room, self._stays.keys() | room.stays.keys() | room.to_come.keys())
        else:
            self._learn(room, {*changed, *self._touched, *self._changed_hosts(room)})
        self._told, self._number, self._to_come = room.stays, room.number, room.to_come

    def _learn(self, room: ObservedRoom, lease_ids: Iterable[int]) -> None:
        """Hold for these leases what was observed; about all others nothing is new."""
        for lease_id in sorted(lease_ids):
            said = room.stays.get(lease_id) or room.to_come.get(lease_id, ())
            stays = _worth(said, counted=self.alike is not None) if said else ()
            known = self._stays.get(lease_id, ())
            if known and known != stays:
                self.replace(lease_id, stays)
            elif stays and not known:
                self.hold(stays)
        self._touched.clear()

    def _changed_hosts(self, room: ObservedRoom) -> set[int]:
        """Of the hosts that are not on those of which something else is said now."""
        if self._to_come == room.to_come:
            return set()
        return {key for key, _ in self._to_come.items() ^ room.to_come.items()}

    def replace(self, lease_id: int, stays: tuple[Stay, ...]) -> tuple[Stay, ...]:
        """Hold other stays for a lease than until now; returns those that it had."""
        before = self._take_out(lease_id)
        if stays:
            self.hold(stays)
        for stay in before:
            if not any(_covers(other, stay) for other in stays):
                self.all_stays.room_freed(stay.host_rows)
                if self.alike is not None:
                    self.alike.room_freed()
        return before

    def withdraw(self, lease_id: int) -> tuple[Stay, ...]:
        """Give back all that is held for a lease; returns what that was."""
        return self.replace(lease_id, ())

    def hold(self, stays: tuple[Stay, ...]) -> None:
        """Hold all stays of a lease of which nothing is known yet, free or not."""
        lease_id = stays[0].lease_id
        self._stays[lease_id] = stays
        self._touched.add(lease_id)
        for stay in stays:
            self._reserve(stay)
        if self.alike is not None:
            _count(self.alike, stays)

    def hold_beside(self, stay: Stay) -> None:
        """Hold one more stay of a lease, free or not, beside all that it has and is promised.

        Several that begin and end together are one: the tables know no two that are the same. One that gives way and
        one that does not are one as well where nothing else tells them apart; then neither gives way, until it is
        observed.
        """
        known, taken = self._stays.get(stay.lease_id, ()), stay
        twin = next((one for one in known if _is_one_with(one, stay)), None)
        if twin is not None:
            known = tuple(one for one in known if one is not twin)
            self.all_stays.table.release(twin.slot_reservation)
            if twin.firm:
                self.firm_stays.release(twin.slot_reservation)
            rows, amounts = twin.host_rows + stay.host_rows, twin.amounts + stay.amounts
            taken = replace(stay, host_rows=rows, amounts=amounts, firm=twin.firm or stay.firm)
        self._reserve(taken)
        self._stays[stay.lease_id] = (*known, taken)
        self._touched.add(stay.lease_id)
        if self.alike is not None:
            _count(self.alike, (stay,))

    def _reserve(self, stay: Stay) -> None:
        """Have the tables know of a stay."""
        if not stay.host_rows:
            return
        reserved = stay.slot_reservation
        if stay.promise:
            self.all_stays.hold_stay(reserved)
        else:
            self.all_stays.table.reserve(reserved)
        if stay.firm:
            self.firm_stays.reserve(reserved)

    def _take_out(self, lease_id: int) -> tuple[Stay, ...]:
        """Hold nothing more for a lease. Stays that have ended are forgotten by the tables already."""
        stays = self._stays.pop(lease_id, ())
        self._touched.add(lease_id)
        for stay in stays:
            if not stay.host_rows:
                continue
            reserved = stay.slot_reservation
            if stay.promise and self.all_stays.stay_of(lease_id) is not None:
                self.all_stays.take_out(lease_id)
            else:
                self.all_stays.table.release_known(reserved)
            if stay.firm:
                self.firm_stays.release_known(reserved)
        if self.alike is not None and stays:
            _count_no_more(self.alike, lease_id)
        return stays

    def _recount(self, alike_slots: int | None, now_s: int) -> None:
        """Count nodes where they are alike, or are so by now; forget the count where they are not any more."""
        known, self._alike_slots = self._alike_slots, alike_slots
        if alike_slots is None:
            self.alike = None
        elif self.alike is None or known is None:
            self.alike = AlikeNodes(alike_slots, now_s)
            for stays in self._stays.values():
                _count(self.alike, stays)
        else:
            self.alike.forget_before(now_s)
            if alike_slots > known:
                self.alike.profile.release(now_s, None, alike_slots - known)
                self.alike.room_freed()
            elif alike_slots < known:
                self.alike.profile.reserve(now_s, None, known - alike_slots)

    def free_without(
        self,
        lease_ids: Iterable[int],
        start_s: int,
        end_s: int | None,
        rows: Sequence[int] | None = None,
        *,
        firmly: bool = False,
    ) -> IntArray:
        """What is free on each host between two instants if these leases had nothing, shape (H, R); not a copy.

        `rows`: on these hosts alone, shape (rows, R). `firmly`: whatever gives way is not there.
        """
        table = self.firm_stays if firmly else self.all_stays.table
        aside = tuple(one for lease_id in lease_ids for one in self._reserved_for(lease_id, table))
        if rows is None:
            return table.free_during(start_s, end_s, aside)
        return table.free_on(rows, start_s, end_s, aside)

    def _reserved_for(self, lease_id: int, table: SlotTable) -> list[SlotReservation]:
        """What a table has of the stays that are known of a lease."""
        known, firmly = table.reservations_of(lease_id), table is self.firm_stays
        promised = None if firmly else self.all_stays.stay_of(lease_id)
        found = []
        for stay in self._stays.get(lease_id, ()) if known else ():
            if not stay.host_rows or (firmly and not stay.firm):
                continue
            reserved = promised if stay.promise and promised is not None else stay.slot_reservation
            if reserved in known:
                found.append(known[known.index(reserved)])
        return found

    def adopt_promise(self, stay: Stay) -> None:
        """Know what the backfilling policy has promised to a lease; of a gang some VMs may have room already."""
        self._stays[stay.lease_id] = (*self._had(stay.lease_id), stay)
        self._touched.add(stay.lease_id)

    def drop_promise(self, lease_id: int) -> None:
        """Keep no room any more for what was promised to a lease that the backfilling policy promises nothing now.

        It gives back itself what it no longer promises; but it is not asked about what is out of the queue for a while.
        """
        self.replace(lease_id, self._had(lease_id))

    def _had(self, lease_id: int) -> tuple[Stay, ...]:
        """What a lease has beyond what the backfilling policy promised to it."""
        return tuple(stay for stay in self._stays.get(lease_id, ()) if not stay.promise)

    def as_promised(self, lease_id: int, amounts: tuple[tuple[int, ...], ...]) -> Stay | None:
        """The promise that the backfilling policy has made since to a lease whose VMs need `amounts`."""
        if self.alike is not None:
            held = self.alike.held().get(lease_id)
            if held is None:
                return None
            return Stay(lease_id, held.start_s, held.end_s, (), amounts, firm=False, promise=True)
        slot = self.all_stays.stay_of(lease_id)
        if slot is None:
            return None
        return Stay(lease_id, slot.start_s, slot.end_s, slot.host_rows, slot.amounts, firm=False, promise=True)

    def beside_counted(self, vms: int, duration_s: int | None, not_before_s: int) -> int | None:
        """The first instant from which so many VMs take nothing that was promised by number, naming no hosts.

        `not_before_s` where every promise names hosts; None where there is no such instant.
        """
        return not_before_s if self.alike is None else self.alike.profile.earliest_fit(vms, duration_s, not_before_s)

    def has_counted_nodes(self, lease_id: int, vms: int, start_s: int) -> bool:
        """Would they take none of it at this very instant? Where not, `has_counted_room` says the same at once."""
        own = self._stays.get(lease_id, ())
        if self.alike is None or (len(self._stays) == bool(own) and not self._gives_way):
            return True
        given_back = sum([len(stay.amounts) for stay in own if stay.start_s <= start_s])
        return self.alike.profile.free_at(start_s) + given_back >= vms

    def has_counted_room(self, lease_id: int, vms: int, duration_s: int | None, start_s: int) -> bool:
        """Would so many VMs of a lease take nothing that others have or were promised by number?

        What the lease itself has counts as free. True where every promise names hosts.
        """
        if not self.has_counted_nodes(lease_id, vms, start_s):
            return False
        own = self._stays.get(lease_id, ())
        if self.alike is None or (len(self._stays) == bool(own) and not self._gives_way):
            return True
        _count_no_more(self.alike, lease_id)
        fits = self.alike.profile.fits(vms, start_s, None if duration_s is None else start_s + duration_s)
        _count(self.alike, own)
        return fits

    def cut_end(self, slot: GangSlot, amounts: tuple[tuple[int, ...], ...], end_s: int | None) -> int | None:
        """How long VMs can stay on these hosts from `slot.start_s` on, at most until `end_s` (None: for ever)."""
        needed: dict[int, IntArray] = {}
        for row, amount in zip(slot.host_rows, amounts, strict=True):
            needed[row] = needed.get(row, np.zeros(len(amount), dtype=np.int64)) + np.array(amount, dtype=np.int64)
        for row, need in needed.items():
            times, free = self.all_stays.table.free_over_time(row)
            short = times[(free < need).any(axis=1) & (times > slot.start_s)]
            if len(short) and (end_s is None or int(short[0]) < end_s):
                end_s = int(short[0])
        return end_s

    def _rebase(self, room: ObservedRoom) -> None:
        """What others took or gave back, whose stays nobody knows."""
        base, firm_base, accepting = self._base, self._firm_base, self._accepting
        self._base, self._firm_base, self._accepting = room.base, room.firm_base, room.accepting
        if (
            _says_the_same(room.base, base)
            and _says_the_same(room.firm_base, firm_base)
            and _says_the_same(room.accepting, accepting)
        ):
            return
        freed = (room.base > base).any(axis=1) | (room.accepting & ~accepting)
        self.all_stays.table.change_capacity(room.base - base)
        self.firm_stays.change_capacity(room.firm_base - firm_base)
        self._gives_way = bool((room.base != room.firm_base).any())
        if freed.any():
            self.all_stays.room_freed(np.flatnonzero(freed).tolist())


def _says_the_same(array: IntArray | BoolArray, other: IntArray | BoolArray) -> bool:
    return array is other or array.tobytes() == other.tobytes()


def _worth(stays: tuple[Stay, ...], *, counted: bool) -> tuple[Stay, ...]:
    """Promises name no hosts where these are counted; elsewhere one that names none is worth nothing."""
    if counted:
        if any(stay.promise and stay.host_rows for stay in stays):
            return tuple(replace(stay, host_rows=()) if stay.promise else stay for stay in stays)
    elif not all(stay.host_rows for stay in stays):
        return tuple(stay for stay in stays if stay.host_rows)
    return stays


def _is_one_with(known: Stay, stay: Stay) -> bool:
    """Is what a lease has one stay with this one?"""
    if known.promise or (known.start_s, known.end_s) != (stay.start_s, stay.end_s):
        return False
    return known.firm == stay.firm or known.slot_reservation == stay.slot_reservation


def _covers(new: Stay, old: Stay) -> bool:
    """Does whoever has `new` still take all of `old`?"""
    if (new.host_rows, new.amounts) != (old.host_rows, old.amounts) or new.start_s > old.start_s:
        return False
    return new.end_s is None or (old.end_s is not None and old.end_s <= new.end_s)


def _count(nodes: AlikeNodes, stays: tuple[Stay, ...]) -> None:
    """Hold as many nodes as the stays of one lease take; only what the queue was promised may be brought forward."""
    taken = []
    for stay in stays:
        if stay.promise:
            duration_s = None if stay.end_s is None else stay.end_s - stay.start_s
            nodes.hold(TimedRequest(stay.lease_id, len(stay.amounts), duration_s), stay.start_s)
            nodes.search_again(stay.lease_id)
        else:
            taken.append(HeldNodes(len(stay.amounts), stay.start_s, stay.end_s))
    if taken:
        nodes.take(stays[0].lease_id, taken)


def _count_no_more(nodes: AlikeNodes, lease_id: int) -> None:
    if lease_id in nodes.held():
        nodes.take_out(lease_id)
    nodes.give_back(lease_id)
