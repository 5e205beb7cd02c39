"""What each lease has and is promised, remembered from decision to decision for leases of which nothing has changed.

Only speed depends on it: what is remembered is what `lease_room` would say again.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

import numpy as np
from msgspec import Struct

from one_preempt.core.availability.gang_demand import BoolArray
from one_preempt.core.availability.timeline import ObservedRoom, Stay
from one_preempt.core.model.cluster_state import ClusterState, HostTable, IntArray
from one_preempt.core.model.infrastructure import Datastore
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.plan import Preemption
from one_preempt.core.model.reservation import Reservation
from one_preempt.core.observed_room import NO_ROOM, Circumstances, LeaseRoom, lease_room
from one_preempt.core.overhead.rates import RatesByStorage
from one_preempt.core.policies import Policies
from one_preempt.core.victims import has_left, shared_free_mib

NOTHING: tuple[Reservation, ...] = ()
NO_LEASE = -1
_NEVER_S = 2**62


# Rows, shape (n,), and what is to be added there, shape (n, 2).
_Amounts = tuple[IntArray, IntArray] | None


class _Known(Struct):
    """What was said of a lease; good until `until_s`. `more` and `firmly_more` are that part of `room` in arrays, and
    the very same where they say the same."""

    room: LeaseRoom
    until_s: int
    more: _Amounts
    firmly_more: _Amounts


class RememberedRooms:
    """The rooms of all leases over the hosts of one cloud."""

    _known: dict[int, _Known]
    _reserved: Mapping[int, tuple[Reservation, ...]]
    _stays: dict[int, tuple[Stay, ...]]
    _accepting: BoolArray
    _free: IntArray | None
    _paused: bool
    _preempting: set[int]

    def __init__(self) -> None:
        self._under: tuple[object, ...] = ()
        self._number = 0
        self._now_s = 0
        self._host_ids: tuple[int, ...] = ()
        self._rates: RatesByStorage | None = None
        self._datastores: Mapping[int, Datastore] = {}
        self._forget_all(np.zeros((0, 2), dtype=np.int64))

    def observed(
        self,
        state: ClusterState,
        policies: Policies,
        rates: RatesByStorage,
        resting: frozenset[int],
        changed: frozenset[int],
    ) -> ObservedRoom:
        """Every lease whose end is known, or that gives way, or was promised room. All others are simply not free.

        `resting` VMs are suspended in place. `changed` are the leases that came, went or are other objects since the
        last observation. What is handed out holds until the next one.
        """
        preemptors, victims = _making_room(state) if state.preemptions else ({}, frozenset())
        circumstances = Circumstances(state, policies, rates, resting, preemptors, victims)
        anew = self._begin(circumstances)
        # Of these more is said than they themselves, their reservations and the time tell.
        preempting = {*preemptors, *victims}
        if resting:
            preempting.update([state.lease_of_vm.get(vm_id, NO_LEASE) for vm_id in resting])
        concerned = set(state.leases) if anew else self._concerned(state, changed)
        if preempting or self._preempting:
            concerned |= (preempting | self._preempting) & state.leases.keys()
        self._preempting = preempting
        for lease_id in concerned:
            lease = state.leases.get(lease_id)
            if lease is None:
                self._forget(lease_id)
            else:
                self._look_at(circumstances, lease, state.reservations.get(lease_id, NOTHING))
        if self._reserved != state.reservations:
            self._reserved = dict(state.reservations)
        self._count_up(state.hosts)
        self._number += 1
        return ObservedRoom(
            self._host_ids,
            self._base,
            self._firm_base,
            self._stays,
            self._accepting,
            number=self._number,
            changed=None if anew else frozenset(concerned),
        )

    def _begin(self, circumstances: Circumstances) -> bool:
        """Forget everything where what concerns all leases has changed."""
        state = circumstances.state
        under = (state.hosts.index_by_id, circumstances.policies)
        lasting = state.paused == self._paused and state.now_s >= self._now_s
        accepting, self._now_s = state.hosts.accepts_vms, state.now_s
        if (
            lasting
            and (circumstances.rates is self._rates or circumstances.rates == self._rates)
            and len(self._under) == len(under)
            and all(map(_is, under, self._under))
            and self._have_room_as_before(state.snapshot.datastores)
            and (accepting is self._accepting or accepting.tobytes() == self._accepting.tobytes())
        ):
            return False
        self._under, self._datastores = under, state.snapshot.datastores
        self._rates = circumstances.rates
        self._forget_all(np.zeros((len(state.hosts.ids), 2), dtype=np.int64))
        self._paused, self._accepting = state.paused, accepting
        host_ids = tuple(state.hosts.ids.tolist())
        if host_ids != self._host_ids:
            self._host_ids = host_ids
        return True

    def _have_room_as_before(self, datastores: Mapping[int, Datastore]) -> bool:
        """Whatever was saved there meanwhile, each memory image of a lease that was looked at fits, or does not."""
        before, self._datastores = self._datastores, datastores
        if datastores is before:
            return True
        return datastores.keys() == before.keys() and all(
            _takes_the_same(one, before[store_id], self._largest_mib) for store_id, one in datastores.items()
        )

    def _forget_all(self, nothing: IntArray) -> None:
        self._known, self._reserved, self._stays = {}, {}, {}
        self._preempting = set()
        self._due_s = _NEVER_S
        self._largest_mib = 0
        self._paused = False
        self._accepting = np.zeros(len(nothing), dtype=np.bool_)
        self._free = None
        # What is given for all, and what more of it is given firmly, or less.
        self._more, self._beyond = nothing, nothing.copy()
        self._base, self._firm_base = nothing.copy(), nothing.copy()

    def _concerned(self, state: ClusterState, changed: frozenset[int]) -> set[int]:
        """Those that have `changed` or have other reservations, or of which time says something else."""
        concerned, now_s = set(changed), state.now_s
        if self._reserved != state.reservations:
            either = self._reserved.keys() | state.reservations.keys()
            concerned |= {
                lease_id
                for lease_id in either & state.leases.keys()
                if self._reserved.get(lease_id) != state.reservations.get(lease_id)
            }
        if now_s >= self._due_s:
            concerned |= {lease_id for lease_id, one in self._known.items() if one.until_s <= now_s}
            self._due_s = min((one.until_s for one in self._known.values() if one.until_s > now_s), default=_NEVER_S)
        return concerned

    def _forget(self, lease_id: int) -> None:
        known = self._known.pop(lease_id, None)
        if known is not None:
            self._stays.pop(lease_id, None)
            self._count(np.subtract, np.add, known)

    def _look_at(self, circumstances: Circumstances, lease: Lease, reserved: tuple[Reservation, ...]) -> None:
        room = lease_room(circumstances, lease, reserved)
        if room is NO_ROOM and not reserved:
            # As of most that wait: nothing is to be said of it until it has changed.
            self._forget(lease.id)
            return
        vms = circumstances.state.snapshot.vms
        self._largest_mib = max(self._largest_mib, *[vms[vm_id].memory_mib for vm_id in lease.vm_ids], 0)
        until_s = _good_until_s(circumstances.state, room, reserved)
        self._due_s = min(self._due_s, until_s)
        if room.stays:
            self._stays[lease.id] = room.stays
        else:
            self._stays.pop(lease.id, None)
        known = self._known.get(lease.id)
        if known is None:
            known = self._known[lease.id] = _Known(NO_ROOM, until_s, None, None)
        if not _frees_the_same(room, known.room):
            self._count(np.subtract, np.add, known)
            known.more = _amounts(room.rows, room.more)
            is_firm_too = room.rows == room.firm_rows and room.more == room.firmly_more
            known.firmly_more = known.more if is_firm_too else _amounts(room.firm_rows, room.firmly_more)
            self._count(np.add, np.subtract, known)
        known.room, known.until_s = room, until_s

    def _count(self, by: np.ufunc, back: np.ufunc, known: _Known) -> None:
        """Have the tables count what a lease gives, by adding it or taking it away; `back` does the opposite."""
        self._change(self._more, by, known.more)
        if known.firmly_more is not known.more:
            self._change(self._beyond, by, known.firmly_more)
            self._change(self._beyond, back, known.more)

    def _change(self, table: IntArray, by: np.ufunc, amounts: _Amounts) -> None:
        if amounts is not None:
            by.at(table, *amounts)
            self._free = None

    def _count_up(self, hosts: HostTable) -> None:
        """What would be free without any stay. The same arrays as before where they say the same."""
        if hosts.free is self._free:
            return
        self._free = hosts.free
        base = hosts.free + self._more
        firm_base = base + self._beyond
        if base.tobytes() != self._base.tobytes():
            self._base = base
        if firm_base.tobytes() != self._firm_base.tobytes():
            self._firm_base = firm_base


def _making_room(state: ClusterState) -> tuple[dict[int, Preemption], frozenset[int]]:
    """The preemptions under way by their preemptors, and the leases that have still to leave for these."""
    opened = [one.preemption for one in state.preemptions]
    left = [one for preemption in opened for one in preemption.victims if not has_left(state, preemption, one)]
    return {one.preemptor_lease_id: one for one in opened}, frozenset([victim.lease_id for victim in left])


def _takes_the_same(one: Datastore, before: Datastore, largest_mib: int) -> bool:
    """Images up to that size; those on hosts' own disks are looked at in each cycle."""
    if one is before:
        return True
    if one.shared is not before.shared:
        return False
    free_mib, free_before_mib = shared_free_mib(one), shared_free_mib(before)
    return free_mib == free_before_mib or min(free_mib, free_before_mib) > largest_mib


def _frees_the_same(one: LeaseRoom, other: LeaseRoom) -> bool:
    return (
        one.rows == other.rows
        and one.firm_rows == other.firm_rows
        and one.more == other.more
        and one.firmly_more == other.firmly_more
    )


def _amounts(rows: tuple[int, ...], more: tuple[tuple[int, int], ...]) -> _Amounts:
    if not rows:
        return None
    amounts = np.fromiter(chain.from_iterable(more), np.int64, 2 * len(more))
    return np.array(rows), amounts.reshape(-1, 2)


def _good_until_s(state: ClusterState, room: LeaseRoom, reserved: tuple[Reservation, ...]) -> int:
    """When time alone changes what there is to say: a stay begins, has begun, or ends.

    At once where local disks count, or where a slot went by and another one becomes shorter unused.
    """
    now_s = state.now_s
    if not room.lasts or (reserved and _is_wasted(reserved, now_s)):
        return now_s
    bounds = [room.until_s]
    for stay in room.stays:
        bounds += (stay.start_s, stay.end_s)
    for one in reserved:
        bounds += (one.start_at_s, one.start_at_s + 1, one.end_at_s)
    return min([at_s for at_s in bounds if at_s is not None and at_s > now_s], default=_NEVER_S)


def _is_wasted(reserved: tuple[Reservation, ...], now_s: int) -> bool:
    """A slot is over, and another one has begun."""
    over = [one.end_at_s is not None and one.end_at_s <= now_s for one in reserved]
    return any(over) and any(
        one.start_at_s <= now_s for one, is_over in zip(reserved, over, strict=True) if not is_over
    )


def _is(one: object, other: object) -> bool:
    return one is other
