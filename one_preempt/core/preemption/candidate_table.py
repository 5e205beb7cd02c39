"""Candidate sets as columns, so that a policy looks at tens of thousands of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from one_preempt.core.model.plan import CandidateSet
from one_preempt.core.preemption.problem import BoolArray, IntArray, PreemptableLease


class CandidateTable(Struct, frozen=True, eq=False):
    """Candidate sets, none inside another, in the order of their sorted lease ids.

    Attributes:
        leases: The leases in ascending id; the columns of `members`.
        members: Shape (sets, leases): who is in which set.
        overhead_ms: Shape (sets,): sum of `h - delta` plus `delta` once (decision 0004).
        lease_count: Shape (sets,): leases in the set.
        frees_vms: Shape (sets,): VMs that leave.
        complete: These are all the candidate sets there are.
    """

    leases: tuple[PreemptableLease, ...]
    members: BoolArray
    overhead_ms: IntArray
    lease_count: IntArray
    frees_vms: IntArray
    complete: bool

    @property
    def median_overhead_ms(self) -> int:
        """Median over all sets, rounded down, so that "at most the median" is the same comparison of integers."""
        ordered = np.sort(self.overhead_ms)
        return int(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) // 2

    def lease_ids(self, row: int) -> tuple[int, ...]:
        """The leases of one set, ascending."""
        return tuple(self.leases[column].id for column in np.flatnonzero(self.members[row]))

    def candidate_set(self, row: int) -> CandidateSet:
        """One set as the plan shows it."""
        return CandidateSet(self.lease_ids(row), int(self.overhead_ms[row]), int(self.frees_vms[row]))

    def cheapest(self, count: int, chosen: int) -> tuple[CandidateSet, ...]:
        """At most `count` sets, cheapest first, `chosen` always among them."""
        rows = [int(row) for row in np.argsort(self.overhead_ms, kind="stable")[:count]]
        if chosen not in rows:
            rows = [*rows[: count - 1], chosen]
        return tuple(self.candidate_set(row) for row in rows)

    def columns_by_overhead_per_vm(self) -> list[int]:
        """Columns of the leases in the order (overhead per VM, id)."""
        return sorted(
            range(len(self.leases)),
            key=lambda column: (Fraction(self.leases[column].overhead_ms, self.leases[column].vm_count), column),
        )

    def first_in_order(self, rows: npt.NDArray[np.intp], columns: Sequence[int]) -> int:
        """The row whose leases, written in the order of `columns`, come first lexicographically.

        No set is inside another, so the comparison is settled at the first lease that only one of two has.
        """
        for column in columns:
            if len(rows) == 1:
                break
            having = rows[self.members[rows, column]]
            rows = having if len(having) else rows
        return int(rows[0])


def table_of(
    leases: tuple[PreemptableLease, ...], members: BoolArray, delta_ms: int, *, complete: bool
) -> CandidateTable:
    """Columns for `members`, shape (sets, leases in ascending id), rows in the order of their sorted ids."""
    overhead = np.array([lease.overhead_ms for lease in leases], dtype=np.int64)
    vm_count = np.array([lease.vm_count for lease in leases], dtype=np.int64)
    reschedules = np.array([lease.reschedules for lease in leases], dtype=np.bool_)
    return CandidateTable(
        leases=leases,
        members=members,
        overhead_ms=members @ overhead + delta_ms * (members & reschedules).any(axis=1),
        lease_count=members.sum(axis=1, dtype=np.int64),
        frees_vms=members @ vm_count,
        complete=complete,
    )
