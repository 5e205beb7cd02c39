"""Where nothing tells hosts apart for the queue they are counted; which ones it will be is settled at the start."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter, is_

import numpy as np
from msgspec import Struct

from one_preempt.core.availability.gang_demand import BoolArray
from one_preempt.core.availability.timeline import ObservedRoom
from one_preempt.core.matching.host_match import HostMatch
from one_preempt.core.matching.placement import Matchmaker
from one_preempt.core.model.cluster_state import ClusterState, IntArray
from one_preempt.core.model.lease import Lease, LeaseState
from one_preempt.core.model.virtual_machine import VirtualMachine

_ALL_WAIT = LeaseState.WAITING
_WAITING = frozenset({LeaseState.WAITING, LeaseState.PREEMPTED, LeaseState.RETURNING, LeaseState.STARTING})

# What a VM needs: CPU in hundredths, MiB. None: something tells hosts apart for it.
Kind = tuple[int, int]
# What a VM needs, and the devices, pinned cores or companions for which it prefers a host.
_kind_and_preferences = attrgetter("cpu_centi", "memory_mib", "pci_requests", "topology", "vm_group_id")


class _Seen(Struct, frozen=True):
    """Of which kind all VMs of a lease are. `follows_load`: that may change while nothing but a host's load does.

    `is_odd`: it is promised room beside what it has.
    """

    lease: Lease
    kind: Kind | None
    follows_load: bool
    is_odd: bool


class AlikeHosts:
    """Whether nothing tells hosts apart, remembered for the leases of which nothing has changed since."""

    def __init__(self) -> None:
        self._number = 0
        self._under: tuple[object, ...] | None = None
        self._seen: dict[int, _Seen] = {}
        self._leases_of_kind: dict[Kind | None, int] = {}
        self._following_load: set[int] = set()
        # The rows of the hosts that take VMs.
        self._accepting: frozenset[int] = frozenset()
        # By identity; the matches are kept with what is said of them.
        self._anywhere: dict[int, tuple[HostMatch, bool]] = {}
        self._counted: _Counted | None = None

    def slots(self, state: ClusterState, matchmaker: Matchmaker, room: ObservedRoom) -> int | None:
        """How many VMs of the one kind there is have room if no stay of `room` takes any; None where VMs or hosts
        differ.

        The kind is that of all VMs that wait, run until a known end, or are promised room. What else runs only makes
        the hosts smaller.
        """
        self._observe(state, matchmaker, room)
        if not room.stays or len(self._leases_of_kind) != 1:
            return None
        kind = next(iter(self._leases_of_kind))
        if kind is None:
            return None
        of = (room.base, room.accepting, state.hosts.capacity)
        if self._counted is None or not self._counted.is_of(kind, of):
            self._counted = _Counted(kind, of, _count(kind, *of))
        return self._counted.slots

    def _observe(self, state: ClusterState, matchmaker: Matchmaker, room: ObservedRoom) -> None:
        """Look at what has changed since the last observation."""
        changed = room.changed_since(self._number)
        self._number = room.number
        under = (matchmaker, matchmaker.matched_at, room.accepting)
        if changed is None or self._under is None or not all(map(is_, under, self._under)):
            self._under = under
            self._accepting = frozenset(np.flatnonzero(room.accepting).tolist())
            self._anywhere.clear()
            self._forget(list(self._seen))
            self._look_at(state.leases, state, matchmaker, room)
        else:
            anew = [lease_id for lease_id in changed if not self._holds(lease_id, state, room)]
            anew += self._following_load - changed
            self._forget(anew)
            self._look_at(anew, state, matchmaker, room)

    def _holds(self, lease_id: int, state: ClusterState, room: ObservedRoom) -> bool:
        """Other stays alone say the same of its VMs."""
        seen = self._seen.get(lease_id)
        if seen is None or seen.follows_load or state.leases.get(lease_id) is not seen.lease:
            return False
        return _is_counted(seen.lease, room) and _is_odd(seen.lease, room) == seen.is_odd

    def _forget(self, lease_ids: Iterable[int]) -> None:
        for lease_id in lease_ids:
            seen = self._seen.pop(lease_id, None)
            if seen is not None:
                self._leases_of_kind[seen.kind] -= 1
                if not self._leases_of_kind[seen.kind]:
                    del self._leases_of_kind[seen.kind]
            self._following_load.discard(lease_id)

    def _look_at(
        self, lease_ids: Iterable[int], state: ClusterState, matchmaker: Matchmaker, room: ObservedRoom
    ) -> None:
        for lease_id in lease_ids:
            lease = state.leases.get(lease_id)
            if lease is None or not _is_counted(lease, room):
                continue
            seen = self._see(lease, state, matchmaker, room)
            self._seen[lease_id] = seen
            self._leases_of_kind[seen.kind] = self._leases_of_kind.get(seen.kind, 0) + 1
            if seen.follows_load:
                self._following_load.add(lease_id)

    def _see(self, lease: Lease, state: ClusterState, matchmaker: Matchmaker, room: ObservedRoom) -> _Seen:
        """The kind of a lease's VMs where they are alike and may go anywhere."""
        vms = state.snapshot.vms
        waiting = [vms[vm_id] for vm_id in lease.vm_ids]
        placed: list[VirtualMachine] = []
        if lease.state is not _ALL_WAIT:
            members, waiting = waiting, [vm for vm in waiting if vm.host_id is None]
            placed = [vm for vm in members if vm.host_id is not None] if waiting else members
        if waiting and matchmaker.like_the_first(waiting) == len(waiting):
            # One speaks for all.
            del waiting[1:]
        kinds, is_odd = set(map(_kind_and_preferences, waiting + placed)), _is_odd(lease, room)
        cpu_centi, memory_mib, *prefers = next(iter(kinds))
        if len(kinds) > 1 or is_odd or prefers != [(), None, None]:
            return _Seen(lease, None, False, is_odd)
        index, accepting = state.hosts.index_by_id, self._accepting
        anywhere = not placed or accepting.issuperset([index.get(vm.history[-1].host_id) for vm in placed])
        follows_load = False
        for vm in waiting:
            match = matchmaker.match(vm)
            anywhere = anywhere and self._suits_anywhere(match, room)
            follows_load = follows_load or match.follows_load
        return _Seen(lease, (cpu_centi, memory_mib) if anywhere else None, follows_load, is_odd)

    def _suits_anywhere(self, match: HostMatch, room: ObservedRoom) -> bool:
        """No host that takes VMs is ruled out."""
        known = self._anywhere.get(id(match))
        if known is not None:
            return known[1]
        suits = not match.follows_current_vms and bool((match.mask == room.accepting).all())
        if not match.follows_load:
            # Others are made anew time and again.
            self._anywhere[id(match)] = (match, suits)
        return suits


class _Counted(Struct, frozen=True):
    """How many VMs of a kind have room on the hosts that some arrays describe."""

    kind: Kind
    of: tuple[object, ...]
    slots: int | None

    def is_of(self, kind: Kind, of: tuple[object, ...]) -> bool:
        return kind == self.kind and all(map(is_, of, self.of))


def _count(kind: Kind, base: IntArray, accepting: BoolArray, capacity: IntArray) -> int | None:
    """None where hosts differ, or where more is taken than there is."""
    capacity, base = capacity[accepting], base[accepting]
    if not len(capacity) or (capacity != capacity[0]).any() or (base < 0).any():
        return None
    counts = [base[:, resource] // amount for resource, amount in enumerate(kind) if amount > 0]
    return int(np.minimum.reduce(counts).sum()) if counts else None


def _is_counted(lease: Lease, room: ObservedRoom) -> bool:
    """It waits, or has or is promised room until a known end."""
    return bool(lease.vm_ids) and (lease.state in _WAITING or lease.id in room.stays)


def _is_odd(lease: Lease, room: ObservedRoom) -> bool:
    """What is promised to a gang of which some VMs run already would be counted for all of them."""
    stays = room.stays.get(lease.id, ())
    return len(stays) > 1 and any(stay.promise for stay in stays)
