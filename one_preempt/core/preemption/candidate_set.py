"""All candidate sets of a problem: sets of leases that make room, minimal by inclusion (CCPE13 Figure 2).

A subset of n leases is a number of n bits; what is asked is asked of all 2^n at once. First the request is relaxed to
demands of slots, and for each demand the slots of every subset are added up, hosts that are alike at once: this settles
a request of like VMs, and rules out nearly all other subsets that make no room. Then subsets are looked at by size, and
only those that contain no candidate set already: first-fit finds most placements, the exact packing decides the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from one_preempt.core.packing.first_fit import first_fit
from one_preempt.core.packing.packing import Packing
from one_preempt.core.preemption.candidate_table import CandidateTable, table_of
from one_preempt.core.preemption.problem import (
    BoolArray,
    IntArray,
    PreemptableLease,
    PreemptionProblem,
    freed_by_host,
)
from one_preempt.core.preemption.slot_demand import SlotDemand, slot_demands, volume_demands

# How many numbers the rooms of the subsets looked at together may take.
_CHUNK = 1 << 21


def candidate_sets(problem: PreemptionProblem, packing: Packing, leases: Sequence[PreemptableLease]) -> CandidateTable:
    """Every minimal set among `leases`, which may be all that can help. Time and memory grow as 2^n.

    The rows are in the order of the sorted ids: the lease of the least id is the highest bit.
    """
    ordered = tuple(sorted(leases, key=lambda lease: lease.id))
    makes_room = _makes_room(problem, packing, ordered[::-1])
    subsets = np.flatnonzero(_minimal(makes_room, len(ordered)))[::-1]
    bits = np.arange(len(ordered) - 1, -1, -1)
    members = (subsets[:, None] >> bits & 1).astype(np.bool_)
    return table_of(ordered, members, problem.delta_ms, complete=packing.exact)


def _makes_room(problem: PreemptionProblem, packing: Packing, leases: Sequence[PreemptableLease]) -> BoolArray:
    """Shape (2^n,): the request fits once the leases of the subset have left; bit b of a subset is leases[b]."""
    if len(packing.classes) == 1:
        return _meets(problem, list(slot_demands(problem)), leases)
    may = _meets(problem, [*slot_demands(problem), *volume_demands(problem)], leases)
    return _confirmed(problem, packing, leases, may)


def _meets(problem: PreemptionProblem, demands: Sequence[SlotDemand], leases: Sequence[PreemptableLease]) -> BoolArray:
    """Shape (2^n,): every demand has its slots once the leases of the subset have left."""
    freed = freed_by_host(leases)
    slots = np.array([_slots_elsewhere(problem, demand, freed) for demand in demands])[:, None]
    by_bits: dict[tuple[int, ...], IntArray] = {}
    for kind, count in _kinds_of_hosts(problem, demands, freed).items():
        bits = tuple([bit for bit, _ in kind.freed])
        by_bits[bits] = by_bits.get(bits, 0) + count * _slots_on_host(demands, kind)
    for newest in range(len(leases)):
        slots = np.concatenate([slots, slots], axis=1)
        shape = (2,) * (newest + 1)
        for bits in sorted(bits for bits in by_bits if bits[-1] == newest):
            of_group = [2 if bit in bits else 1 for bit in reversed(range(newest + 1))]
            slots.reshape(-1, *shape)[...] += by_bits[bits].reshape(-1, *of_group)
    wanted = np.array([demand.count for demand in demands])
    return np.asarray((slots >= wanted[:, None]).all(axis=0))


class _HostKind(NamedTuple):
    """What the slots of a host follow from: hosts of which all of this is the same have the same slots.

    `freed` is what each lease with VMs there would free, by its bit, ascending; `allowed` has one entry a demand.
    """

    free: tuple[int, ...]
    freed: tuple[tuple[int, tuple[int, ...]], ...]
    allowed: tuple[bool, ...]


def _kinds_of_hosts(
    problem: PreemptionProblem, demands: Sequence[SlotDemand], freed: dict[int, dict[int, tuple[int, ...]]]
) -> Counter[_HostKind]:
    """How many hosts of each kind the leases could change: in most clouds there are few kinds."""
    free = problem.free.tolist()
    allowed = np.array([demand.allowed for demand in demands]).T.tolist()
    return Counter(
        _HostKind(tuple(free[host]), tuple(on_host.items()), tuple(allowed[host])) for host, on_host in freed.items()
    )


def _slots_elsewhere(
    problem: PreemptionProblem, demand: SlotDemand, freed: dict[int, dict[int, tuple[int, ...]]]
) -> int:
    """The slots on the hosts that no lease can change."""
    untouched = demand.allowed.copy()
    untouched[list(freed)] = False
    return int(demand.slots(problem.free[untouched]).sum())


def _slots_on_host(demands: Sequence[SlotDemand], kind: _HostKind) -> IntArray:
    """Shape (demands, 2^k): the slots on such a host for every subset of the k leases that hold VMs there."""
    rooms = np.array([kind.free], dtype=np.int64)
    for _, amounts in kind.freed:
        rooms = np.concatenate([rooms, rooms + np.array(amounts, dtype=np.int64)])
    return np.array([demand.slots(rooms) * allowed for demand, allowed in zip(demands, kind.allowed, strict=True)])


def _confirmed(
    problem: PreemptionProblem, packing: Packing, leases: Sequence[PreemptableLease], may: BoolArray
) -> BoolArray:
    """Of the subsets that `may` make room, and their supersets, those that do."""
    released = np.zeros((len(leases), *problem.free.shape))
    for bit, lease in enumerate(leases):
        np.add.at(released[bit], lease.host_index, lease.releases)
    sizes = np.zeros(1, dtype=np.int64)
    for _ in leases:
        sizes = np.concatenate([sizes, sizes + 1])
    makes_room = np.zeros_like(may)
    at_once = max(1, _CHUNK // problem.free.size)
    for size in range(len(leases) + 1):
        subsets = np.flatnonzero(may & ~makes_room & (sizes == size))
        for chunk in np.split(subsets, range(at_once, len(subsets), at_once)):
            members = (chunk[:, None] >> np.arange(len(leases)) & 1).astype(np.float64)
            # Products of doubles are exact for amounts below 2^53, and far faster than those of integers.
            freed = (members @ released.reshape(len(leases), problem.free.size)).astype(np.int64)
            makes_room[chunk] = _request_fits(packing, problem.free + freed.reshape(-1, *problem.free.shape))
        makes_room = _with_supersets(makes_room, len(leases))
    return makes_room


def _request_fits(packing: Packing, rooms: IntArray) -> BoolArray:
    """In which rows of `rooms`, shape (rows, hosts, R), the request can be placed."""
    fits = first_fit(packing.classes, rooms).fits
    for row in np.flatnonzero(~fits):
        fits[row] = packing.packs(rooms[row])
    return fits


def _with_supersets(subsets: BoolArray, lease_count: int) -> BoolArray:
    for bit in range(lease_count):
        without_and_with = subsets.reshape(-1, 2, 1 << bit)
        without_and_with[:, 1] |= without_and_with[:, 0]
    return subsets


def _minimal(makes_room: BoolArray, lease_count: int) -> BoolArray:
    """The subsets that make room, and that no longer do without any one of their leases."""
    minimal = makes_room.copy()
    for bit in range(lease_count):
        without_and_with = makes_room.reshape(-1, 2, 1 << bit)
        minimal.reshape(-1, 2, 1 << bit)[:, 1] &= ~without_and_with[:, 0]
    return minimal
