"""Candidate sets when there are too many leases to list all: a few good ones, each minimal by inclusion.

Every search takes leases in some order until the request fits, then gives back whoever is not needed, in another
order (as the cluster schedulers do it: remove, then reprieve). The orders: the sets that attain the lower bounds,
cheapest for what they free, cheapest, and those that free most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from one_preempt.core.distinct import distinct
from one_preempt.core.packing.packing import Packing
from one_preempt.core.preemption.candidate_table import CandidateTable, table_of
from one_preempt.core.preemption.problem import PreemptableLease, PreemptionProblem


class _Leaving:
    """The hosts with some leases gone; changes with one lease at a time and knows whether the request fits."""

    def __init__(self, problem: PreemptionProblem, packing: Packing) -> None:
        self._packing = packing
        self._room = problem.free.copy()
        self._fillings = packing.fillings_of_hosts(self._room)
        self._hosts_by_filling = Counter(self._fillings.tolist())

    def leave(self, lease: PreemptableLease) -> None:
        """Count the room of the lease's VMs as free."""
        np.add.at(self._room, lease.host_index, lease.releases)
        self._refresh(lease)

    def stay(self, lease: PreemptableLease) -> None:
        """Take back what `leave` did for the lease."""
        np.subtract.at(self._room, lease.host_index, lease.releases)
        self._refresh(lease)

    def _refresh(self, lease: PreemptableLease) -> None:
        hosts = distinct(lease.host_index)
        fillings = self._packing.fillings_of_some(hosts, self._room)
        self._hosts_by_filling.subtract(self._fillings[hosts].tolist())
        self._hosts_by_filling.update(fillings.tolist())
        self._fillings[hosts] = fillings

    def request_fits(self) -> bool:
        """Is there room for all VMs of the request, without the leases that have left?"""
        return self._packing.fits(sorted(self._hosts_by_filling.items()))


def irreducible_sets(
    problem: PreemptionProblem,
    packing: Packing,
    leases: tuple[PreemptableLease, ...],
    seeds: Sequence[tuple[int, ...]],
) -> CandidateTable:
    """Some candidate sets among `leases` (by id), which make room if all of them leave.

    `seeds` are sets of positions that are tried first.
    """
    found: set[tuple[int, ...]] = set()
    freed = _freed_share(problem, leases)
    for order in _orders(leases, freed, seeds):
        found.update(_irreducible(problem, packing, leases, order, freed))
    members = np.zeros((len(found), len(leases)), dtype=np.bool_)
    for row, positions in enumerate(sorted(found)):
        members[row, list(positions)] = True
    return table_of(leases, members, problem.delta_ms, complete=False)


def _freed_share(problem: PreemptionProblem, leases: Sequence[PreemptableLease]) -> list[int]:
    """How much of an average request VM each lease frees, in thousandths, at the resource it frees least of."""
    average = np.maximum(1, problem.needs.sum(axis=0) // len(problem.needs))
    asked_for = problem.needs.any(axis=0)
    return [
        int((lease.releases[:, asked_for] * 1000 // average[asked_for]).min(axis=1, initial=1 << 40).sum())
        for lease in leases
    ]


def _orders(
    leases: Sequence[PreemptableLease], freed: list[int], seeds: Sequence[tuple[int, ...]]
) -> Iterator[list[int]]:
    """In which orders leases are taken, as positions; each ends in the ids, for positions ascend with them."""
    everyone = range(len(leases))
    by_value = sorted(everyone, key=lambda i: (Fraction(leases[i].overhead_ms, freed[i] + 1), i))
    for seed in seeds:
        in_seed = set(seed)
        yield [*seed, *(position for position in by_value if position not in in_seed)]
    yield by_value
    yield sorted(everyone, key=lambda i: (leases[i].overhead_ms, i))
    yield sorted(everyone, key=lambda i: (-freed[i], leases[i].overhead_ms, i))


def _irreducible(
    problem: PreemptionProblem,
    packing: Packing,
    leases: Sequence[PreemptableLease],
    order: list[int],
    freed: list[int],
) -> Iterator[tuple[int, ...]]:
    """Take leases in `order` until the request fits; give back, dearest first, and again, smallest first."""
    leaving = _Leaving(problem, packing)
    taken = []
    for position in order:
        if leaving.request_fits():
            break
        leaving.leave(leases[position])
        taken.append(position)
    give_back_orders = (
        sorted(taken, key=lambda i: (-leases[i].overhead_ms, i)),
        sorted(taken, key=lambda i: (freed[i], -leases[i].overhead_ms, i)),
    )
    for give_back in give_back_orders:
        kept = []
        for position in give_back:
            leaving.stay(leases[position])
            if not leaving.request_fits():
                leaving.leave(leases[position])
                kept.append(position)
        yield tuple(sorted(kept))
        for position in set(taken) - set(kept):
            leaving.leave(leases[position])
