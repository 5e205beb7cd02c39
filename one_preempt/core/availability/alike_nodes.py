"""Nodes that are all alike, each for one VM: they are counted, and which ones they are is decided at the start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import chain

from msgspec import Struct

from one_preempt.core.availability.profile import AvailabilityProfile
from one_preempt.core.availability.stay_windows import StayWindow
from one_preempt.core.availability.timed_request import TimedRequest

# Before anything came free: a search is due.
NEVER = -1


class HeldNodes(Struct, frozen=True):
    """Nodes that a lease has or is promised; `end_s` None = nobody knows the end."""

    nodes: int
    start_s: int
    end_s: int | None


class AlikeNodes:
    """An `Availability` of nodes that nothing tells apart; a demand is a number of nodes.

    A lease has at most one stay that may be brought forward or withdrawn. Others, in which it runs or for which its
    hosts are picked already, are `taken` beside that one: the policies must not touch them.
    """

    def __init__(self, nodes: int, since_s: int = 0) -> None:
        self.profile = AvailabilityProfile(nodes, since_s)
        self._nodes = nodes
        self._held: dict[int, HeldNodes] = {}
        self._taken: dict[int, tuple[HeldNodes, ...]] = {}
        self._times_freed = 0
        self._freed_when_placed: dict[int, int] = {}
        self._given_anew: set[int] = set()
        self._shields: list[HeldNodes] = []
        self._without: tuple[int, tuple[int, ...], AvailabilityProfile] | None = None

    def held(self) -> Mapping[int, HeldNodes]:
        """Who has or is promised nodes that were not `taken`, by lease; not to be changed."""
        return self._held

    def given_anew(self) -> Set[int]:
        """Who of them was given nodes since it was said of him that all know what he has; not to be changed."""
        return self._given_anew

    def all_know(self, lease_ids: Iterable[int]) -> None:
        """Everybody who has to knows what is held for these leases."""
        self._given_anew.difference_update(lease_ids)

    def fits_without(self, lease_ids: tuple[int, ...], nodes: int, start_s: int, end_s: int | None) -> bool:
        """Would so many be free all the time between two instants if nothing were held for these leases?

        What is free then is remembered while nothing changes: all that wait ask of the same leases.
        """
        known = self._without
        if known is None or known[0] != self.profile.number or known[1] != lease_ids:
            beside = self.profile.copy()
            for lease_id in lease_ids:
                held = self._held.get(lease_id)
                for one in (*self._taken.get(lease_id, ()), *(() if held is None else (held,))):
                    beside.release(one.start_s, one.end_s, one.nodes)
            known = self._without = (self.profile.number, lease_ids, beside)
        return known[2].fits(nodes, start_s, end_s)

    # -- what a plan in pieces asks ---------------------------------------------------------------------------

    def stay_windows(self, demand: int, shortest_s: int, not_before_s: int, before_s: int) -> list[StayWindow]:
        """Where so many nodes are free for at least `shortest_s` between two instants, as long as they are free."""
        return self.profile.stay_windows(demand, shortest_s, not_before_s, before_s)

    def fit_at(self, demand: int, start_s: int, end_s: int | None) -> tuple[int, ...] | None:
        """No host rows, because the nodes are picked late; None where they are not free between two instants."""
        return () if self.profile.fits(demand, start_s, end_s) else None

    # -- what a backfilling policy asks ----------------------------------------------------------------------

    def start_of(self, lease_id: int) -> int | None:
        """When the lease starts or has started; None where nothing is held for it."""
        held = self._held.get(lease_id)
        return None if held is None else held.start_s

    def starts_of(self, lease_ids: Iterable[int]) -> dict[int, int]:
        """When these leases start or have started, without those for which nothing is held."""
        held = self._held
        return {lease_id: held[lease_id].start_s for lease_id in lease_ids if lease_id in held}

    def place(self, request: TimedRequest[int], not_before_s: int) -> int | None:
        """Hold the nodes from the first instant at which they are free for the duration; None where there is none."""
        start_s = self.profile.earliest_fit(request.demand, request.duration_s, not_before_s)
        if start_s is not None:
            self.hold(request, start_s)
        return start_s

    def place_at(self, request: TimedRequest[int], start_s: int) -> bool:
        """Hold the nodes from exactly then on, if they are free for the duration."""
        if request.demand > self.profile.free_at(start_s):
            return False
        if not self.profile.fits(request.demand, start_s, request.end_s(start_s)):
            return False
        self.hold(request, start_s)
        return True

    def worth_trying(self, requests: Sequence[TimedRequest[int]], start_s: int) -> list[TimedRequest[int]]:
        """Those that ask for no more nodes than are free then."""
        free = self.profile.free_at(start_s)
        return [request for request in requests if request.demand <= free]

    def is_hopeless(self, request: TimedRequest[int]) -> bool:
        """It asks for more nodes than there are."""
        return request.demand > self._nodes

    def bring_forward(self, request: TimedRequest[int], not_before_s: int) -> int:
        """Let a lease that is promised nodes start earlier, if that has become possible; returns its start."""
        held = self._held[request.lease_id]
        if not self.is_search_due(request.lease_id):
            return held.start_s
        self._freed_when_placed[request.lease_id] = self._times_freed
        start_s = self.profile.earlier_fit(request.demand, request.duration_s, not_before_s, held.start_s)
        if start_s is None:
            return held.start_s
        self.withdraw(request.lease_id)
        self.hold(request, start_s)
        return start_s

    def withdraw(self, lease_id: int) -> None:
        """Give back all that is held for the lease, because it has ended or is to have no promise any more."""
        self.take_out(lease_id)
        self.room_freed()

    def take_out(self, lease_id: int) -> HeldNodes:
        """Give back what is held for the lease although nobody is to have it: it is held otherwise from now on."""
        held = self._held.pop(lease_id)
        self._given_anew.discard(lease_id)
        self.profile.release(held.start_s, held.end_s, held.nodes)
        return held

    def room_freed(self) -> None:
        """Nodes came free before their time: promises may be brought forward."""
        self._times_freed += 1

    def is_search_due(self, lease_id: int) -> bool:
        """Has anything come free since the lease was placed or last looked for an earlier start?"""
        return self._freed_when_placed[lease_id] != self._times_freed

    def may_come_forward(self, lease_id: int, not_before_s: int) -> bool:
        """Would a lease that is promised nodes be given an earlier start by now, as `bring_forward` looks for one?"""
        if not self.is_search_due(lease_id):
            return False
        held = self._held[lease_id]
        duration_s = None if held.end_s is None else held.end_s - held.start_s
        return self.profile.earlier_fit(held.nodes, duration_s, not_before_s, held.start_s) is not None

    def search_again(self, lease_id: int) -> None:
        """Look for an earlier start for a promised lease whatever came free since: not all that was found was taken."""
        self._freed_when_placed[lease_id] = NEVER

    def keeps(self, lease_ids: Iterable[int]) -> bool:
        """Is there still room for what these leases are promised?"""
        if self.profile.lowest(self.profile.since_s) >= 0:
            return True
        promised = (self._held[lease_id] for lease_id in lease_ids)
        return all(self.profile.fits(0, max(one.start_s, self.profile.since_s), one.end_s) for one in promised)

    def shield(self, lease_id: int) -> None:
        """Keep others off what comes free in the second in which the lease starts, beyond what it waits for.

        The extra nodes of EASY are those that are left over when enough have come free, one lease after another;
        a lease whose end is expected in the same second, but is not waited for, adds none.
        """
        held = self._held[lease_id]
        missing = held.nodes - self.profile.free_at(held.start_s - 1)
        if missing <= 0:
            return
        left_over = -missing
        for _, nodes in self._ending_at(held.start_s):
            if left_over >= 0:
                break
            left_over += nodes
        surplus = self.profile.free_at(held.start_s) - left_over
        if left_over >= 0 and surplus > 0:
            self._shields.append(HeldNodes(surplus, held.start_s, held.start_s + 1))
            self.profile.reserve(held.start_s, held.start_s + 1, surplus)

    def _ending_at(self, end_s: int) -> list[tuple[int, int]]:
        """The lease and the nodes of each stay that ends then, by lease."""
        taken = ((lease_id, one) for lease_id, stays in self._taken.items() for one in stays)
        both = chain(self._held.items(), taken)
        return sorted((lease_id, one.nodes) for lease_id, one in both if one.end_s == end_s)

    def unshield(self) -> None:
        """Give back what `shield` kept."""
        for shielded in self._shields:
            self.profile.release(shielded.start_s, shielded.end_s, shielded.nodes)
        self._shields.clear()

    # -- what happens ----------------------------------------------------------------------------------------

    def hold(self, request: TimedRequest[int], start_s: int) -> None:
        """Hold nodes from then on, free or not: for a lease that was seen running, or an advance reservation.

        Raises ValueError where the lease holds nodes already.
        """
        if request.lease_id in self._held:
            raise ValueError(f"lease {request.lease_id} holds nodes already")
        held = HeldNodes(request.demand, start_s, request.end_s(start_s))
        self.profile.reserve(held.start_s, held.end_s, held.nodes)
        self._held[request.lease_id] = held
        self._given_anew.add(request.lease_id)
        self._freed_when_placed[request.lease_id] = self._times_freed

    def take(self, lease_id: int, stays: Iterable[HeldNodes]) -> None:
        """Hold nodes for a lease in all these stays, free or not, beside any that were taken for it before."""
        taken = tuple(stays)
        for one in taken:
            self.profile.reserve(one.start_s, one.end_s, one.nodes)
        self._taken[lease_id] = (*self._taken.get(lease_id, ()), *taken)

    def give_back(self, lease_id: int) -> None:
        """Hold nothing more of what was taken for the lease; nobody is to have it by that."""
        for one in self._taken.pop(lease_id, ()):
            self.profile.release(one.start_s, one.end_s, one.nodes)

    def forget_before(self, now_s: int) -> None:
        """Drop the time before an instant; a lease that should have ended by then is known until it is withdrawn."""
        self.profile.forget_before(now_s)
