"""Can the VMs of a request be placed on the hosts, and where: exact packing in several dimensions.

The VMs fall into classes of like VMs (`request_classes`), so what has been placed so far is a vector of counts, one
count a class. A set of such vectors is one Python integer, a bit a vector. For each host the *filling* is the list
of the largest vectors that fit there; going through the hosts, each adds its filling to the vectors that can be
reached. The request fits when the vector of all VMs is reached. Sets are kept closed downwards (a VM less fits
too), which is why the largest vectors of a host are enough.

Room that allows the same fillings is the same: rooms are first rounded down to sums of needs that exist, and equal
fillings share one number. 0 is the filling of a host that takes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod

import numpy as np
from msgspec import Struct

from one_preempt.core.distinct import distinct
from one_preempt.core.model.cluster_state import IntArray
from one_preempt.core.packing.first_fit import first_fit
from one_preempt.core.packing.request_classes import BoolArray, RequestClass, combinations, merged_to, request_classes

Counts = tuple[int, ...]

# The set of vectors reached before any host: the one of no VM.
_NOTHING = 1


class PackingLimits(Struct, frozen=True):
    """How far a packing looks before it is first-fit, and no more exact.

    Attributes:
        combinations: How many combinations of "which VMs are placed by now" it may tell apart; it bounds requests of
            many VMs that differ.
        host_packings: How many ways of filling one host are looked at.
    """

    combinations: int = 1 << 14
    host_packings: int = 2_000


DEFAULT_LIMITS = PackingLimits()


class _Step(Struct, frozen=True):
    """Adding `counts` to every vector that has room for them: keep those in `mask`, shift by `shift`."""

    counts: Counts
    shift: int
    mask: int


class Packing:
    """The packings of one request of N VMs. Pure; it only remembers what it has worked out.

    Args:
        needs: Shape (N, R): what each VM takes.
        allowed: Shape (N, hosts): where each VM may go at all.
        separate: Anti-affinity: groups of VMs (by row of `needs`) that must be on different hosts.
        limits: How far it looks.

    Attributes:
        exact: False once a limit made it overlook placements; what it finds is a placement even then.
        classes: The request's VMs by likeness, merged where they would be too many.
    """

    def __init__(
        self,
        needs: IntArray,
        allowed: BoolArray,
        separate: tuple[tuple[int, ...], ...],
        limits: PackingLimits = DEFAULT_LIMITS,
    ) -> None:
        self._natural_classes = request_classes(needs, allowed, separate)
        self.classes = merged_to(self._natural_classes, limits.combinations)
        self.exact = len(self.classes) == len(self._natural_classes)
        self._limits = limits
        self._sizes = tuple(request_class.size for request_class in self.classes)
        self._vms = sum(self._sizes)
        self._strides = tuple(prod(size + 1 for size in self._sizes[:k]) for k in range(len(self._sizes)))
        self._states = combinations(self.classes)
        self._allowed = np.array([request_class.allowed for request_class in self.classes], dtype=np.bool_)
        self._known_masks: dict[tuple[int, int], int] = {}
        self._below = [
            (self._at_least(k, 1 << power), self._strides[k] << power)
            for k, size in enumerate(self._sizes)
            for power in range(size.bit_length())
        ]
        patterns, self._pattern_of_host = _distinct_columns(self._allowed)
        self._patterns = [tuple(int(k) for k in np.flatnonzero(column)) for column in patterns]
        self._sums = [self._sums_of_needs(pattern, needs.shape[1]) for pattern in self._patterns]
        self._steps: list[tuple[_Step, ...]] = [()]
        self._filling_by_counts: dict[tuple[Counts, ...], int] = {(): 0}
        self._filling_by_room: dict[tuple[int, Counts], int] = {}
        self._fits: dict[tuple[tuple[int, int], ...], bool] = {}

    def fillings_of_hosts(self, room: IntArray) -> IntArray:
        """The filling of every host, given the room of all, shape (hosts, R)."""
        return self.fillings_of_some(np.arange(len(room)), room)

    def fillings_of_some(self, hosts: IntArray, room: IntArray) -> IntArray:
        """The filling of each of these hosts, given the room of all, shape (hosts, R)."""
        if len(self._patterns) == 1:
            return self._fillings_of_pattern(0, room[hosts])
        fillings, patterns = np.zeros(len(hosts), dtype=np.int64), self._pattern_of_host[hosts]
        for pattern in range(len(self._patterns)):
            alike = np.flatnonzero(patterns == pattern)
            if len(alike):
                fillings[alike] = self._fillings_of_pattern(pattern, room[hosts[alike]])
        return fillings

    @property
    def saturations(self) -> IntArray:
        """Shape (hosts, R): more room than this in a dimension makes no difference on the host."""
        most = [[int(sums[-1]) for sums in of_pattern] for of_pattern in self._sums]
        return np.array(most, dtype=np.int64)[self._pattern_of_host]

    def packs(self, room: IntArray) -> bool:
        """The request fits in the room of all hosts, shape (hosts, R)."""
        return self.fits(sorted(Counter(self.fillings_of_hosts(room).tolist()).items()))

    def fits(self, hosts_by_filling: Sequence[tuple[int, int]]) -> bool:
        """The request fits on hosts given as pairs (filling, number of hosts), ascending."""
        # More hosts of one filling than there are VMs make no difference.
        hosts = tuple((filling, min(count, self._vms)) for filling, count in hosts_by_filling if filling and count)
        if hosts not in self._fits:
            self._fits[hosts] = self._is_whole(self._reached(hosts))
        return self._fits[hosts]

    def _reached(self, hosts_by_filling: Sequence[tuple[int, int]]) -> int:
        reached = _NOTHING
        for filling, count in hosts_by_filling:
            for _ in range(count):
                before = reached
                reached = self._advance(reached, filling)
                if reached == before:
                    break
        return reached

    def _advance(self, reached: int, filling: int) -> int:
        """The vectors that can be reached with one more host."""
        grown = 0
        for step in self._steps[filling]:
            grown |= (reached & step.mask) << step.shift
        return self._closed_downwards(grown)

    def _is_whole(self, reached: int) -> bool:
        """All VMs of the request are placed."""
        return bool(reached >> (self._states - 1) & 1)

    def placement(self, room: IntArray) -> tuple[int, ...] | None:
        """A host for each VM of the request, earlier hosts filled first, or None where it does not fit."""
        packed = self._packed(room)
        if packed is not None or self.exact:
            return packed
        # What a limit made the packing overlook.
        found = first_fit(self._natural_classes, room[None])
        return _assigned(self._natural_classes, found.counts[0].T.tolist()) if found.fits[0] else None

    def _packed(self, room: IntArray) -> tuple[int, ...] | None:
        fillings = self.fillings_of_hosts(room).tolist()
        reached_from = [_NOTHING]
        for filling in reversed(fillings):
            reached = reached_from[-1]
            # Where all VMs are placed every vector is reached, and no further host adds any.
            adds = filling and not self._is_whole(reached)
            reached_from.append(self._advance(reached, filling) if adds else reached)
        if not self._is_whole(reached_from.pop()):
            return None
        waiting = list(self._sizes)
        counts_of_host = []
        for filling in fillings:
            taken = self._taken(filling, waiting, reached_from.pop())
            waiting = [have - take for have, take in zip(waiting, taken, strict=True)]
            counts_of_host.append(taken)
        return _assigned(self.classes, counts_of_host)

    def _taken(self, filling: int, waiting: list[int], reached_later: int) -> Counts:
        """As many VMs as the host can take while the later hosts can still take the others."""
        best: Counts = (0,) * len(waiting)
        if not any(waiting):
            return best
        most = 0
        for step in self._steps[filling]:
            counts = tuple(map(min, step.counts, waiting))
            if (count := sum(counts)) <= most:
                continue
            left = [have - take for have, take in zip(waiting, counts, strict=True)]
            if reached_later >> self._index(left) & 1:
                best, most = counts, count
        return best

    def _index(self, counts: list[int] | Counts) -> int:
        return sum(count * stride for count, stride in zip(counts, self._strides, strict=True))

    def _fillings_of_pattern(self, pattern: int, rooms: IntArray) -> IntArray:
        """Round rooms to sums of needs, work out each distinct one once."""
        sums = self._sums[pattern]
        ranks = [np.searchsorted(sums[r], rooms[:, r], side="right") for r in range(rooms.shape[1])]
        codes = np.zeros(len(rooms), dtype=np.int64)
        distinct = 1
        for r, rank in enumerate(ranks):
            values, codes = number_distinct(codes * (len(sums[r]) + 1) + rank, distinct * (len(sums[r]) + 1))
            distinct = len(values)
        example = np.zeros(distinct, dtype=np.int64)
        example[codes] = np.arange(len(rooms))
        numbers = [self._filling(pattern, tuple(int(rank[row]) for rank in ranks)) for row in example]
        return np.array(numbers, dtype=np.int64)[codes]

    def _filling(self, pattern: int, ranks: Counts) -> int:
        """The number of the filling for a room given by its ranks among the sums of needs (0: below nothing)."""
        known = self._filling_by_room.get((pattern, ranks))
        if known is not None:
            return known
        largest: tuple[Counts, ...] = ()
        if min(ranks) > 0:
            room = tuple(int(sums[rank - 1]) for sums, rank in zip(self._sums[pattern], ranks, strict=True))
            largest = self._largest_fillings(self._patterns[pattern], room)
        number = self._filling_by_counts.setdefault(largest, len(self._steps))
        if number == len(self._steps):
            self._steps.append(tuple(self._step(counts) for counts in largest))
        self._filling_by_room[pattern, ranks] = number
        return number

    def _largest_fillings(self, pattern: tuple[int, ...], room: Counts) -> tuple[Counts, ...]:
        """All vectors of counts that fit in `room` and are not below another one."""
        found: list[Counts] = []
        covered = _NOTHING
        # What has been counted of some classes, with the bit that it has in a set, and the room that it leaves.
        branches: list[tuple[int, Counts, int, Counts, frozenset[int]]] = [
            (0, (0,) * len(self._sizes), 0, room, frozenset())
        ]
        looked_at = 0
        while branches:
            position, counts, index, left, taken_groups = branches.pop()
            most = [self._how_many(k, left, taken_groups) for k in pattern[position:]]
            # With the classes that are still open at the most that each alone could have.
            raised = index + sum([count * self._strides[k] for k, count in zip(pattern[position:], most, strict=True)])
            if covered >> raised & 1:
                continue
            looked_at += 1
            if looked_at > self._limits.host_packings:
                self.exact = False
                break
            if position == len(pattern):
                found.append(counts)
                covered = self._closed_downwards(covered | 1 << index)
                continue
            k = pattern[position]
            one = self.classes[k]
            # The last class takes all it can; the largest count is looked at first (the end of the list).
            for count in range(most[0] if position == len(pattern) - 1 else 0, most[0] + 1):
                room_left = tuple([have - count * need for have, need in zip(left, one.need, strict=True)])
                groups = taken_groups | one.groups if count else taken_groups
                with_it = (*counts[:k], count, *counts[k + 1 :])
                branches.append((position + 1, with_it, index + count * self._strides[k], room_left, groups))
        return tuple(found)

    def _how_many(self, k: int, room: Counts, taken_groups: frozenset[int]) -> int:
        """How many VMs of a class have room where some of these groups have one already."""
        one, most = self.classes[k], self._sizes[k]
        if one.groups:
            most = 0 if one.groups & taken_groups else min(most, 1)
        for have, need in zip(room, one.need, strict=True):
            if need * most > have:
                most = have // need
        return most

    def _step(self, counts: Counts) -> _Step:
        mask = (1 << self._states) - 1
        for k, count in enumerate(counts):
            if count:
                mask &= ~self._at_least(k, self._sizes[k] - count + 1)
        return _Step(counts, self._index(counts), mask)

    def _at_least(self, k: int, count: int) -> int:
        """All vectors whose count of class `k` is at least `count`."""
        if (k, count) not in self._known_masks:
            self._known_masks[k, count] = self._mask_at_least(k, count)
        return self._known_masks[k, count]

    def _mask_at_least(self, k: int, count: int) -> int:
        period = self._strides[k] * (self._sizes[k] + 1)
        one_period = (1 << period) - (1 << self._strides[k] * count)
        return one_period * (((1 << self._states) - 1) // ((1 << period) - 1))

    def _closed_downwards(self, vectors: int) -> int:
        for at_least, shift in self._below:
            vectors |= (vectors & at_least) >> shift
        return vectors

    def _sums_of_needs(self, pattern: tuple[int, ...], dimensions: int) -> list[IntArray]:
        """Per dimension: every sum of needs that VMs of these classes can add up to, ascending, from 0."""
        sums = []
        for r in range(dimensions):
            reachable = np.zeros(1, dtype=np.int64)
            for k in pattern:
                multiples = np.arange(self._sizes[k] + 1, dtype=np.int64) * self.classes[k].need[r]
                reachable = distinct(reachable[:, None] + multiples)
            sums.append(reachable)
        return sums


def number_distinct(codes: IntArray, bound: int) -> tuple[IntArray, IntArray]:
    """The distinct values of `codes` (each in 0..bound-1), ascending, and for each code its number among them."""
    if bound > max(4096, 8 * len(codes)):
        values, numbers = np.unique(codes, return_inverse=True)
        return values, numbers.reshape(-1).astype(np.int64)
    present = np.zeros(bound, dtype=np.bool_)
    present[codes] = True
    number = np.cumsum(present) - 1
    return np.flatnonzero(present), number[codes]


def _assigned(classes: Sequence[RequestClass], counts_of_host: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The host of each VM of the request, given how many of each class go to each host."""
    waiting = [list(one.members) for one in classes]
    host_of_request = [0] * sum(one.size for one in classes)
    for host, counts in enumerate(counts_of_host):
        for members, count in zip(waiting, counts, strict=True):
            for _ in range(count):
                host_of_request[members.pop(0)] = host
    return tuple(host_of_request)


def _distinct_columns(matrix: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> tuple[IntArray, IntArray]:
    """The distinct columns, as rows, and for each column its number among them."""
    if matrix.shape[1] and (matrix == matrix[:, :1]).all():
        return matrix[:, :1].T.astype(np.int64), np.zeros(matrix.shape[1], dtype=np.int64)
    columns, numbers = np.unique(matrix.T, axis=0, return_inverse=True)
    return columns.astype(np.int64), numbers.reshape(-1).astype(np.int64)
