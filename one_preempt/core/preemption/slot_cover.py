"""Like VMs need slots: which leases free enough of them at least cost, bounded from below, for thousands of leases.

A request is relaxed to `SlotDemand`: `count` VMs of one need. A set of leases that makes room for the request frees
at least the slots that are missing. Two bounds on the cost of doing so, both sound:

- by lease: lease l frees at most `w_l` slots, whatever else leaves, so a set must reach the missing slots with the
  sum of its w: a knapsack cover. Tight where each VM is a slot (the papers' case).
- by host: each lease's cost is split over its hosts; on each host the least cost of freeing j slots is worked out,
  and the hosts are combined. Tight where the VMs of a lease are on one host.

The sets that attain the bounds are returned as well: they are where a greedy search begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from msgspec import Struct

from one_preempt.core.preemption.problem import IntArray, PreemptableLease, PreemptionProblem, freed_by_host
from one_preempt.core.preemption.slot_demand import SlotDemand

ENUMERATED_LEASES_PER_HOST = 10
_UNREACHABLE = np.iinfo(np.int64).max // 4


class Cover(Struct, frozen=True):
    """`cost`: no set of leases that meets the demand costs less. `picks`: the sets (positions) that gave it."""

    cost: int
    picks: tuple[tuple[int, ...], ...]


class _HostShare(Struct, frozen=True, eq=False):
    """What the leases at `positions` can do on one host; hosts that are alike have the very same.

    Attributes:
        positions: The m leases with VMs there.
        released: Shape (m, R): what each frees.
        free: Shape (R,): what is free already.
        idle: The slots that are.
        gain: The slots that all of them free together, at least 1.
        freed: Shape (2^m,): the slots that each subset frees; None where they are too many to list.
        most_freed: Shape (m,): at most so many slots does each add, whatever else leaves.
    """

    positions: tuple[int, ...]
    released: IntArray
    free: IntArray
    idle: int
    gain: int
    freed: IntArray | None
    most_freed: IntArray


class SlotCover:
    """Which of `leases` meet one demand, for any costs."""

    def __init__(self, problem: PreemptionProblem, demand: SlotDemand, leases: Sequence[PreemptableLease]) -> None:
        idle = np.where(demand.allowed, demand.slots(problem.free), 0)
        self._demand = demand
        self._missing = demand.count - int(idle.sum())
        self._shares = _host_shares(problem, demand, leases, idle) if self._missing > 0 else []
        self._most_freed = np.zeros(len(leases), dtype=np.int64)
        for share in self._shares:
            self._most_freed[list(share.positions)] += share.most_freed

    def cheapest(self, costs: Sequence[int]) -> Cover:
        """The lower bound on the cost of meeting the demand, given the cost of each lease; 0 if nothing is missing."""
        if self._missing <= 0:
            return Cover(0, ())
        by_lease = _by_lease(self._most_freed, costs, self._missing)
        by_host = _by_host(self._demand, self._shares, costs, self._missing)
        return Cover(max(by_lease.cost, by_host.cost), tuple(dict.fromkeys((*by_lease.picks, *by_host.picks))))


def _host_shares(
    problem: PreemptionProblem, demand: SlotDemand, leases: Sequence[PreemptableLease], idle: IntArray
) -> list[_HostShare]:
    """The hosts on which some leases together free a slot."""
    freed, free = freed_by_host(leases), problem.free.tolist()
    # In most clouds there are few kinds of hosts.
    known: dict[tuple[object, ...], _HostShare | None] = {}
    shares = []
    for host in sorted(host for host in freed if demand.allowed[host]):
        kind = tuple(free[host]), tuple(freed[host].items())
        if kind not in known:
            known[kind] = _host_share(demand, problem.free[host], freed[host], int(idle[host]))
        share = known[kind]
        if share is not None:
            shares.append(share)
    return shares


def _host_share(
    demand: SlotDemand, free: IntArray, freed: Mapping[int, tuple[int, ...]], idle: int
) -> _HostShare | None:
    """The same of one host; None where they free none."""
    released = np.array(list(freed.values()), dtype=np.int64)
    gain = int(demand.slots((free + released.sum(axis=0))[None])[0]) - idle
    if not gain:
        return None
    by_subset = None
    if len(released) <= ENUMERATED_LEASES_PER_HOST:
        by_subset = demand.slots(free + _of_subsets(released)) - idle
    most_freed = _most_freed(demand, released, free, idle, gain)
    return _HostShare(tuple(freed), released, free, idle, gain, by_subset, most_freed)


def _of_subsets(amounts: IntArray) -> IntArray:
    """The sum of each subset of the rows: shape (2^rows, ...), bit b of a subset is row b."""
    sums = np.zeros_like(amounts[:1])
    for row in amounts:
        sums = np.concatenate([sums, sums + row])
    return sums


def _most_freed(demand: SlotDemand, released: IntArray, free: IntArray, idle: int, gain: int) -> IntArray:
    """For each lease, shape (m,): at most so many slots does it add on the host, whatever else leaves.

    In one dimension floor((a + x + y)/d) <= floor(a/d) + ceil(x/d) + ceil(y/d), and the others only lessen it; the
    dimension that says least is taken. `surplus` is what that dimension would offer already.
    """
    least = np.full(len(released), gain, dtype=np.int64)
    for r in np.flatnonzero(demand.need):
        surplus = max(0, int(free[r] // demand.need[r]) - idle)
        most = np.minimum(-(-released[:, r] // demand.need[r]) + surplus, gain)
        least = most if most.sum() < least.sum() else least
    return least


def _by_lease(most_freed: IntArray, costs: Sequence[int], missing: int) -> Cover:
    """Whole leases with the slots that each frees at most, on all hosts together."""
    table = _Knapsack(most_freed, costs, missing)
    return _cover(int(table.cost[missing]), table.taken(missing))


def _by_host(demand: SlotDemand, shares: list[_HostShare], costs: Sequence[int], missing: int) -> Cover:
    """Each host on its own with its part of the leases' costs, and the hosts combined."""
    tables, known = [], dict[tuple[int, tuple[int, ...]], _Subsets | _Fractions]()
    for share, part in zip(shares, _parts_of_costs(shares, costs), strict=True):
        # Hosts that are alike mostly have the same part of the costs, too.
        alike = (id(share), tuple(part))
        if alike not in known:
            known[alike] = _host_table(demand, share, np.array(part, dtype=np.int64), min(share.gain, missing))
        tables.append(known[alike])
    least = np.full(missing + 1, _UNREACHABLE, dtype=np.int64)
    least[0] = 0
    wanted = np.arange(missing + 1)
    freed = np.zeros((len(shares), missing + 1), dtype=np.int64)
    for number, table in enumerate(tables):
        before = least.copy()
        for slots in range(1, len(table.cost)):
            cost = before[np.maximum(wanted - slots, 0)] + table.cost[slots]
            freed[number, cost < least] = slots
            least = np.minimum(least, cost)
    left = missing
    taken: set[int] = set()
    for number in reversed(range(len(shares))):
        slots = int(freed[number, left])
        taken.update(shares[number].positions[item] for item in tables[number].taken(slots))
        left = max(0, left - slots)
    return _cover(int(least[missing]), tuple(sorted(taken)))


def _cover(cost: int, taken: tuple[int, ...]) -> Cover:
    return Cover(cost, (taken,)) if cost < _UNREACHABLE else Cover(0, ())


def _parts_of_costs(shares: list[_HostShare], costs: Sequence[int]) -> list[list[int]]:
    """Every lease's cost split over its hosts: the parts add up to the cost, in whole numbers."""
    hosts_of_lease: dict[int, int] = {}
    for share in shares:
        for position in share.positions:
            hosts_of_lease[position] = hosts_of_lease.get(position, 0) + 1
    seen: dict[int, int] = {}
    parts = []
    for share in shares:
        part = []
        for position in share.positions:
            number, hosts = seen.get(position, 0), hosts_of_lease[position]
            part.append(costs[position] * (number + 1) // hosts - costs[position] * number // hosts)
            seen[position] = number + 1
        parts.append(part)
    return parts


class _Knapsack:
    """Least cost of items whose weights add up to at least j, for every j; remembers which items."""

    def __init__(self, weights: IntArray, costs: Sequence[int], most: int) -> None:
        self.cost = np.full(most + 1, _UNREACHABLE, dtype=np.int64)
        self.cost[0] = 0
        self._weights = weights
        self._better = np.zeros((len(weights), most + 1), dtype=np.bool_)
        wanted = np.arange(most + 1)
        for item in np.flatnonzero(weights).tolist():
            with_item = self.cost[np.maximum(wanted - weights[item], 0)] + costs[item]
            self._better[item] = with_item < self.cost
            self.cost = np.minimum(self.cost, with_item)

    def taken(self, wanted: int) -> tuple[int, ...]:
        """The items of the cheapest way to reach `wanted`, ascending."""
        items = []
        for item in reversed(range(len(self._weights))):
            if self._better[item, wanted]:
                items.append(item)
                wanted = max(0, wanted - int(self._weights[item]))
        return tuple(reversed(items))


class _Subsets:
    """The same for few items, from all their subsets, with the slots that each subset really frees."""

    def __init__(self, freed: IntArray, costs: IntArray, most: int) -> None:
        order = np.argsort(costs, kind="stable")
        # The cheapest subset that frees j slots is the first, in order of cost, with at least j freed so far.
        freed_so_far = np.maximum.accumulate(freed[order])
        self._subset = order[np.searchsorted(freed_so_far, np.arange(most + 1))]
        self.cost = costs[self._subset]

    def taken(self, wanted: int) -> tuple[int, ...]:
        """The items of the cheapest subset that frees `wanted` slots."""
        subset = int(self._subset[wanted])
        return tuple(item for item in range(subset.bit_length()) if subset >> item & 1)


class _Fractions:
    """The same for many items: bounded by taking parts of them, one dimension at a time; sets that really do it."""

    def __init__(self, demand: SlotDemand, share: _HostShare, costs: IntArray, most: int) -> None:
        lacking = (share.idle + np.arange(most + 1))[:, None] * demand.need - share.free
        lacking[0] = 0
        self.cost = np.zeros(most + 1, dtype=np.int64)
        self._prefixes: list[tuple[IntArray, IntArray]] = []
        for r in np.flatnonzero((lacking > 0).any(axis=0)).tolist():
            order = _cheapest_for(share.released[:, r], costs)
            self.cost = np.maximum(self.cost, _cost_of_parts(share.released[order, r], costs[order], lacking[:, r]))
            released_before = np.concatenate([np.zeros_like(share.free)[None], share.released[order].cumsum(axis=0)])
            self._prefixes.append((order, demand.slots(share.free + released_before) - share.idle))

    def taken(self, wanted: int) -> tuple[int, ...]:
        """Items that free `wanted` slots, cheapest first for one dimension; none where no dimension's order does."""
        for order, freed in self._prefixes:
            if freed[-1] >= wanted:
                return tuple(sorted(order[: int(np.searchsorted(freed, wanted))].tolist()))
        return ()


def _cheapest_for(released: IntArray, costs: IntArray) -> IntArray:
    """The items that release something, by cost for what they release. Exact: a bound rests on the order."""
    items = np.flatnonzero(released).tolist()
    items.sort(key=lambda item: (Fraction(int(costs[item]), int(released[item])), item))
    return np.array(items, dtype=np.int64)


def _cost_of_parts(released: IntArray, costs: IntArray, lacking: IntArray) -> IntArray:
    """The least cost of releasing each amount in `lacking` when parts of items may be taken, cheapest first."""
    released_before = np.concatenate([[0], released.cumsum()])
    cost_before = np.concatenate([[0], costs.cumsum()])
    whole = np.clip(np.searchsorted(released_before, lacking, side="right") - 1, 0, len(released) - 1)
    rest = np.maximum(0, lacking - released_before[whole])
    # Python's integers: the product of a cost and an amount may be beyond 64 bits.
    item_rests = zip(costs[whole].tolist(), rest.tolist(), released[whole].tolist(), strict=True)
    part = [-(-cost * amount // of) for cost, amount, of in item_rests]
    return cost_before[whole] + np.array(part, dtype=np.int64)


def _host_table(demand: SlotDemand, share: _HostShare, costs: IntArray, most: int) -> _Subsets | _Fractions:
    if share.freed is None:
        return _Fractions(demand, share, costs, most)
    return _Subsets(share.freed, _of_subsets(costs), most)
