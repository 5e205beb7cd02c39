"""Candidate sets and policies by looking at every subset of the leases and every placement of the request."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from statistics import median

import numpy as np
from hypothesis import strategies as st

from one_preempt.core.preemption.problem import PreemptableLease, PreemptionProblem


@dataclass(frozen=True)
class BruteSet:
    ids: tuple[int, ...]
    overhead_ms: int
    vms: int


def is_valid(problem: PreemptionProblem, leaving: tuple[int, ...], placement: tuple[int, ...]) -> bool:
    """Counted naively: every VM where it may be, no host above its room, separate VMs apart."""
    room = [[int(amount) for amount in row] for row in problem.free]
    for lease in problem.leases:
        if lease.id in leaving:
            for host, released in zip(lease.host_index.tolist(), lease.releases.tolist(), strict=True):
                room[host] = [have + more for have, more in zip(room[host], released, strict=True)]
    for vm, host in enumerate(placement):
        if not problem.allowed[vm][host]:
            return False
        room[host] = [have - int(need) for have, need in zip(room[host], problem.needs[vm], strict=True)]
    if any(amount < 0 for host in set(placement) for amount in room[host]):
        return False
    return all(len({placement[vm] for vm in group}) == len(set(group)) for group in problem.separate)


def fits(problem: PreemptionProblem, leaving: tuple[int, ...]) -> bool:
    hosts_of_vm = [np.flatnonzero(allowed).tolist() for allowed in problem.allowed]
    return any(is_valid(problem, leaving, placement) for placement in product(*hosts_of_vm))


def minimal_sets(problem: PreemptionProblem) -> list[BruteSet]:
    """By ids; the empty set where the request fits at once."""
    leases = {lease.id: lease for lease in problem.leases}
    found: list[tuple[int, ...]] = []
    for size in range(len(leases) + 1):
        for ids in combinations(sorted(leases), size):
            if not any(set(smaller) <= set(ids) for smaller in found) and fits(problem, ids):
                found.append(ids)
    return [_brute_set(problem, [leases[i] for i in ids]) for ids in sorted(found)]


def _brute_set(problem: PreemptionProblem, leases: list[PreemptableLease]) -> BruteSet:
    overhead = sum(lease.overhead_ms for lease in leases)
    if any(lease.reschedules for lease in leases):
        overhead += problem.delta_ms
    return BruteSet(tuple(lease.id for lease in leases), overhead, sum(lease.vm_count for lease in leases))


def best(problem: PreemptionProblem, sets: list[BruteSet], policy: str) -> BruteSet:
    """What each policy must pick, with the tie rules as they are documented."""
    if policy == "MLIP":
        return min(sets, key=lambda s: (len(s.ids), -s.vms, s.ids))
    if policy == "MOML":
        threshold = median(Fraction(s.overhead_ms) for s in sets)
        affordable = [s for s in sets if s.overhead_ms <= threshold]
        return min(affordable, key=lambda s: (len(s.ids), s.overhead_ms, s.ids))
    per_vm = {lease.id: Fraction(lease.overhead_ms, lease.vm_count) for lease in problem.leases}
    return min(sets, key=lambda s: (s.overhead_ms, sorted((per_vm[i], i) for i in s.ids)))


@st.composite
def problems(draw: st.DrawFn, most_leases: int = 6) -> PreemptionProblem:
    """Small problems in which requests differ, hosts are overcommitted, leases spread, and costs tie."""
    hosts, dimensions, vms = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 4))
    like = draw(st.booleans())
    one_need = draw(_amounts(1, dimensions, 0, 2))
    needs = np.repeat(one_need, vms, axis=0) if like else draw(_amounts(vms, dimensions, 0, 2))
    one_row = st.lists(st.sampled_from([True] * 5 + [False]), min_size=hosts, max_size=hosts)
    allowed = [draw(one_row)] * vms if like else [draw(one_row) for _ in range(vms)]
    ids = draw(st.lists(st.integers(0, 99), min_size=1, max_size=most_leases, unique=True))
    group = st.lists(st.integers(0, vms - 1), max_size=vms, unique=True).map(tuple)
    return PreemptionProblem(
        free=draw(_amounts(hosts, dimensions, -1, 1)),
        needs=needs,
        allowed=np.array(allowed, dtype=np.bool_),
        leases=tuple(draw(_lease(lease_id, hosts, dimensions)) for lease_id in ids),
        delta_ms=draw(st.integers(0, 3)),
        separate=tuple(draw(st.lists(group, max_size=2))) if draw(st.booleans()) else (),
    )


def _amounts(rows: int, columns: int, least: int, most: int) -> st.SearchStrategy[np.ndarray]:
    row = st.lists(st.integers(least, most), min_size=columns, max_size=columns)
    table = st.lists(row, min_size=rows, max_size=rows)
    return table.map(lambda rows_of_amounts: np.array(rows_of_amounts, dtype=np.int64).reshape(rows, columns))


@st.composite
def _lease(draw: st.DrawFn, lease_id: int, hosts: int, dimensions: int) -> PreemptableLease:
    host_index = draw(st.lists(st.integers(0, hosts - 1), min_size=1, max_size=3))
    return PreemptableLease(
        id=lease_id,
        overhead_ms=draw(st.integers(0, 6)),
        vm_count=len(host_index),
        host_index=np.array(host_index, dtype=np.int64),
        releases=draw(_amounts(len(host_index), dimensions, 0, 3).map(lambda released: released + (released > 1))),
        reschedules=draw(st.sampled_from([True, True, False])),
    )
