"""What preempting for a request costs at least, without looking at candidate sets.

The request is relaxed to demands of slots (`slot_demand`). Whatever makes room for the request meets all of them, so
the largest of their bounds (`slot_cover`) holds.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from one_preempt.core.preemption.problem import PreemptableLease, PreemptionProblem
from one_preempt.core.preemption.slot_cover import Cover, SlotCover
from one_preempt.core.preemption.slot_demand import slot_demands

# One lease as a cost: far above all overheads together, which then only tell sets of equally many leases apart.
_ONE_LEASE = 1 << 48


class LowerBounds(Struct, frozen=True):
    """No set that makes room costs less or has fewer leases. `picks`: sets of leases (by position) worth trying."""

    overhead_ms: int
    lease_count: int
    picks: tuple[tuple[int, ...], ...]


def lower_bounds(problem: PreemptionProblem, leases: Sequence[PreemptableLease], *, delta_is_due: bool) -> LowerBounds:
    """Bounds for all sets among `leases`; `delta_is_due` says that every set that makes room asks for `delta`."""
    overheads = [lease.overhead_ms for lease in leases]
    ones = [_ONE_LEASE + overhead for overhead in overheads]
    demands = [SlotCover(problem, demand, leases) for demand in slot_demands(problem)]
    by_overhead = [demand.cheapest(overheads) for demand in demands]
    by_count = [demand.cheapest(ones) for demand in demands]
    return LowerBounds(
        overhead_ms=max(cover.cost for cover in by_overhead) + problem.delta_ms * delta_is_due,
        lease_count=max(0, -((sum(overheads) - max(cover.cost for cover in by_count)) // _ONE_LEASE)),
        picks=_distinct_picks([*by_overhead, *by_count]),
    )


def _distinct_picks(covers: list[Cover]) -> tuple[tuple[int, ...], ...]:
    return tuple(dict.fromkeys(pick for cover in covers for pick in cover.picks))
