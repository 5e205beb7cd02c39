"""The question "who leaves so that this request can start?" and its answer, as values.

A host's room is a row of integers: CPU in hundredths, MiB, and any further dimensions in which a sum is compared
with an amount (PCI devices: see `device_dimensions`). Everything here is counted per host in the order of
`PreemptionProblem.free`; earlier hosts are preferred when the request is placed.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import add

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from one_preempt.core.model.plan import CandidateSet, Reason
from one_preempt.core.packing.packing import PackingLimits

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


class PreemptableLease(Struct, frozen=True, eq=False):
    """One running lease that may be preempted, all its VMs at once (a lease is a gang, CCPE13 section 2).

    Attributes:
        id: The lease.
        overhead_ms: What its preemption costs without the re-scheduling, `h - delta` of CCPE13's Equations 7 and 8.
        vm_count: Its VMs, at least 1.
        host_index: Shape (k,): the host of each VM that frees room, by index.
        releases: Shape (k, R): what each of them frees there, never negative.
        reschedules: False where the lease is terminated for good: then it asks for no re-scheduling `delta`.
        worth: Of leases of more worth nobody leaves as long as all those of less are enough.
    """

    id: int
    overhead_ms: int
    vm_count: int
    host_index: IntArray
    releases: IntArray
    reschedules: bool = True
    worth: int = 0


def freed_by_host(leases: Sequence[PreemptableLease]) -> dict[int, dict[int, tuple[int, ...]]]:
    """For each host with VMs of `leases`: what each of them would free there, by their positions, ascending."""
    freed: dict[int, dict[int, tuple[int, ...]]] = {}
    for position, lease in enumerate(leases):
        for host, amounts in zip(lease.host_index.tolist(), lease.releases.tolist(), strict=True):
            on_host = freed.setdefault(host, {})
            before = on_host.get(position)
            on_host[position] = tuple(amounts) if before is None else tuple(map(add, before, amounts))
    return freed


class PreemptionProblem(Struct, frozen=True, eq=False):
    """A request of N VMs, the room left on the hosts, and the leases that may be asked to leave.

    Attributes:
        free: Shape (hosts, R): room left; negative where a host is overcommitted.
        needs: Shape (N, R): what each VM of the request takes.
        allowed: Shape (N, hosts): where each VM of the request may go at all.
        leases: Who may leave; ids are unique.
        delta_ms: Re-scheduling, paid once for a candidate set (decision 0004).
        separate: Anti-affinity: groups of request VMs (by row of `needs`) that must be on different hosts.

    Raises:
        ValueError: Shapes do not agree, an amount that must not be negative is, or an index is out of range.
    """

    free: IntArray
    needs: IntArray
    allowed: BoolArray
    leases: tuple[PreemptableLease, ...]
    delta_ms: int
    separate: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        hosts, dimensions = self.free.shape
        if self.needs.ndim != 2 or self.needs.shape[1] != dimensions:
            raise ValueError(f"needs has shape {self.needs.shape}, free has {dimensions} dimensions: they must agree")
        if self.allowed.shape != (len(self.needs), hosts):
            raise ValueError(f"allowed has shape {self.allowed.shape}, expected {(len(self.needs), hosts)}")
        if (self.needs < 0).any() or self.delta_ms < 0:
            raise ValueError("needs and delta_ms must not be negative")
        if len({lease.id for lease in self.leases}) != len(self.leases):
            raise ValueError("two preemptable leases have the same id")
        if any(not 0 <= member < len(self.needs) for group in self.separate for member in group):
            raise ValueError("separate names a request VM that does not exist")
        for lease in self.leases:
            _check_lease(lease, hosts, dimensions)


def _check_lease(lease: PreemptableLease, hosts: int, dimensions: int) -> None:
    if lease.releases.shape != (len(lease.host_index), dimensions):
        expected = (len(lease.host_index), dimensions)
        raise ValueError(f"lease {lease.id}: releases has shape {lease.releases.shape}, expected {expected}")
    if len(lease.host_index) and not (lease.host_index.min() >= 0 and lease.host_index.max() < hosts):
        raise ValueError(f"lease {lease.id}: host_index names a host that does not exist")
    if (lease.releases < 0).any() or lease.overhead_ms < 0 or lease.vm_count < 1:
        raise ValueError(f"lease {lease.id}: releases and overhead_ms must not be negative, vm_count at least 1")


class SearchLimits(Struct, frozen=True):
    """How far the search goes before it settles for good instead of best.

    Attributes:
        enumerated_leases: Up to so many leases that can help, all minimal candidate sets are listed; each further
            one doubles time and memory (18 take a fraction of a second, see benchmarks/candidate_sets.py).
        packing: How far it is looked whether the request fits; beyond, no answer is called optimal.
        reported_sets: How many candidate sets an answer shows.
    """

    enumerated_leases: int = 18
    packing: PackingLimits = PackingLimits()
    reported_sets: int = 20


DEFAULT_LIMITS = SearchLimits()


class Choice(Struct, frozen=True):
    """Who leaves and where the request goes.

    Attributes:
        lease_ids: The victims, ascending; empty where the request fits without preemption.
        host_of_request: Index of the host of each VM of the request.
        overhead_ms: What the set costs.
        optimal: The set is proven best for the policy (ties apart where not all sets were listed).
        bound_ms: Proven: no set that makes room costs less.
        candidate_count: How many candidate sets the policy chose among.
        considered: Some of them, cheapest first, the chosen one always among them.
        median_overhead_ms: Their median overhead, rounded down (the threshold of MOML); None without sets.
    """

    lease_ids: tuple[int, ...]
    host_of_request: tuple[int, ...]
    overhead_ms: int
    optimal: bool
    bound_ms: int
    candidate_count: int = 0
    considered: tuple[CandidateSet, ...] = ()
    median_overhead_ms: int | None = None


class NoChoice(Struct, frozen=True):
    """Nobody is preempted, and why: `not-enough-room`, `policy-preempts-nobody`, or `not-found` (not exact)."""

    reason: Reason
