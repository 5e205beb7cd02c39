"""What preempting for a request costs at least, without looking at candidate sets.

The request is relaxed: only VMs of one class count, or every VM shrinks to the least of all needs. Each relaxation
is a demand for slots (`slot_cover`); whatever makes room for the request meets all of them, so the largest of their
bounds holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from one_preempt.core.preemption.problem import BoolArray, PreemptableLease, PreemptionProblem
from one_preempt.core.preemption.slot_cover import Cover, SlotDemand, cheapest_cover

# One lease as a cost: far above all overheads together, which then only tell sets of equally many leases apart.
_ONE_LEASE = 1 << 48


@dataclass(frozen=True, slots=True)
class LowerBounds:
    """No set that makes room costs less or has fewer leases. `picks`: sets of leases (by position) worth trying."""

    overhead_ms: int
    lease_count: int
    picks: tuple[tuple[int, ...], ...]


def lower_bounds(problem: PreemptionProblem, leases: Sequence[PreemptableLease], *, delta_is_due: bool) -> LowerBounds:
    """Bounds for all sets among `leases`; `delta_is_due` says that every set that makes room asks for `delta`."""
    overheads = [lease.overhead_ms for lease in leases]
    ones = [_ONE_LEASE + overhead for overhead in overheads]
    demands = list(_relaxations(problem))
    by_overhead = [cheapest_cover(problem, demand, leases, overheads) for demand in demands]
    by_count = [cheapest_cover(problem, demand, leases, ones) for demand in demands]
    return LowerBounds(
        overhead_ms=max(cover.cost for cover in by_overhead) + problem.delta_ms * delta_is_due,
        lease_count=max(0, -((sum(overheads) - max(cover.cost for cover in by_count)) // _ONE_LEASE)),
        picks=_distinct_picks([*by_overhead, *by_count]),
    )


def _distinct_picks(covers: list[Cover]) -> tuple[tuple[int, ...], ...]:
    return tuple(dict.fromkeys(pick for cover in covers for pick in cover.picks))


def _relaxations(problem: PreemptionProblem) -> Iterator[SlotDemand]:
    """For each distinct VM: all VMs that need at least as much and may go nowhere else. And all VMs, shrunk."""
    likeness = np.concatenate([problem.needs, problem.allowed], axis=1)
    distinct = np.sort(np.unique(likeness, axis=0, return_index=True)[1])
    for row in distinct:
        demanding = (problem.needs >= problem.needs[row]).all(axis=1)
        allowed: BoolArray = problem.allowed[row]
        demanding &= (problem.allowed <= allowed).all(axis=1)
        yield SlotDemand(
            need=problem.needs[row],
            allowed=allowed,
            count=int(demanding.sum()),
            one_per_host=_are_separate(problem, demanding.nonzero()[0].tolist()),
        )
    if len(distinct) == 1:
        return
    yield SlotDemand(
        need=problem.needs.min(axis=0),
        allowed=np.asarray(problem.allowed.any(axis=0)),
        count=len(problem.needs),
        one_per_host=_are_separate(problem, range(len(problem.needs))),
    )


def _are_separate(problem: PreemptionProblem, members: Sequence[int]) -> bool:
    return any(set(members) <= set(group) for group in problem.separate)
