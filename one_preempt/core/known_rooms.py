"""What each lease has and is promised, remembered from decision to decision for leases of which nothing has changed.

Only speed depends on it: what is remembered is what `lease_room` would say again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from one_preempt.core.availability.timeline import ObservedRoom
from one_preempt.core.in_place import in_place
from one_preempt.core.model.cluster_state import ClusterState, IntArray
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.reservation import Reservation
from one_preempt.core.observed_room import LeaseRoom, Surroundings, lease_room
from one_preempt.core.overhead.rates import RatesByStorage
from one_preempt.core.policies import Policies

NOTHING: tuple[Reservation, ...] = ()


@dataclass(slots=True)
class _Known:
    """What was said of a lease, and of which objects; good until `until_s`, None = for ever."""

    lease: Lease
    reserved: tuple[Reservation, ...]
    room: LeaseRoom
    until_s: int | None

    def is_over(self, now_s: int) -> bool:
        """Time has changed what there is to say."""
        return self.until_s is not None and now_s >= self.until_s


class KnownRooms:
    """The rooms of all leases over the hosts of one cloud."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}
        self._under: tuple[object, ...] = ()
        self._accepts: bytes = b""
        self._now_s = 0
        self._rates: RatesByStorage | None = None
        self._more: IntArray = np.zeros((0, 2), dtype=np.int64)
        self._firmly_more: IntArray = np.zeros((0, 2), dtype=np.int64)

    def observed(self, state: ClusterState, policies: Policies, rates: RatesByStorage) -> ObservedRoom:
        """Every lease whose end is known, or that gives way, or was promised room. All others are simply not free."""
        surroundings = Surroundings(
            state,
            policies,
            rates,
            resting=in_place(state.snapshot, state.actions, state.leases.values()).vm_ids,
            preemptors={one.preemption.preemptor_lease_id: one.preemption.placements for one in state.preemptions},
        )
        self._begin(surroundings)
        for lease_id in self._known.keys() - state.leases.keys():
            self._forget(lease_id)
        for lease in state.leases.values():
            known, reserved = self._known.get(lease.id), state.reservations.get(lease.id, NOTHING)
            if known is None or known.lease is not lease or known.reserved != reserved or known.is_over(state.now_s):
                self._look_at(surroundings, lease, reserved)
        stays = {lease_id: known.room.stays for lease_id, known in self._known.items() if known.room.stays}
        hosts = state.hosts
        return ObservedRoom(
            tuple(hosts.ids.tolist()),
            hosts.free + self._more,
            hosts.free + self._firmly_more,
            stays,
            hosts.accepts_vms,
        )

    def _begin(self, surroundings: Surroundings) -> None:
        """Forget everything where what concerns all leases has changed."""
        state = surroundings.state
        under = (
            state.hosts.index_by_id,
            surroundings.policies,
            state.snapshot.datastores,
        )
        lasting = not surroundings.resting and not surroundings.preemptors and self._accepts == _accepts(state)
        lasting, self._now_s = lasting and state.now_s >= self._now_s, state.now_s
        if (
            lasting
            and surroundings.rates == self._rates
            and len(self._under) == len(under)
            and all(map(_is, under, self._under))
        ):
            return
        self._known.clear()
        self._under = under if not surroundings.resting and not surroundings.preemptors else ()
        self._accepts, self._rates = _accepts(state), surroundings.rates
        self._more = np.zeros((len(state.hosts.ids), 2), dtype=np.int64)
        self._firmly_more = self._more.copy()

    def _look_at(self, surroundings: Surroundings, lease: Lease, reserved: tuple[Reservation, ...]) -> None:
        self._forget(lease.id)
        room = lease_room(surroundings, lease, reserved)
        self._known[lease.id] = _Known(lease, reserved, room, _good_until_s(surroundings.state, room, reserved))
        self._add(room, 1)

    def _forget(self, lease_id: int) -> None:
        known = self._known.pop(lease_id, None)
        if known is not None:
            self._add(known.room, -1)

    def _add(self, room: LeaseRoom, sign: int) -> None:
        if room.rows:
            np.add.at(self._more, list(room.rows), sign * np.array(room.more, dtype=np.int64))
        if room.firm_rows:
            np.add.at(self._firmly_more, list(room.firm_rows), sign * np.array(room.firmly_more, dtype=np.int64))


def _good_until_s(state: ClusterState, room: LeaseRoom, reserved: tuple[Reservation, ...]) -> int | None:
    """When time alone changes what there is to say: a stay begins or ends. At once where local disks count."""
    if not room.lasts:
        return state.now_s
    bounds = [bound for stay in room.stays for bound in (stay.start_s, stay.end_s)]
    bounds += [bound for one in reserved for bound in (one.start_at_s, one.end_at_s)]
    return min((at_s for at_s in bounds if at_s is not None and at_s > state.now_s), default=None)


def _accepts(state: ClusterState) -> bytes:
    return bytes([state.paused]) + state.hosts.accepts_vms.tobytes()


def _is(one: object, other: object) -> bool:
    return one is other
