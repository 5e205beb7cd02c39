"""A request relaxed to like VMs: what makes room for the request makes room for these.

Counting how many like VMs fit is a division for each host, whichever leases leave; so a relaxation rules out sets of
leases, and bounds what a set costs, without packing anything.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from one_preempt.core.distinct import distinct
from one_preempt.core.preemption.problem import BoolArray, IntArray, PreemptionProblem

# A large VM counts as several small ones, but all together as no more than this: bounds take time with the count.
_MOST_SLOTS = 1024
_MOST_DEMANDS = 8


class SlotDemand(Struct, frozen=True, eq=False):
    """`count` VMs that each take `need`, shape (R,), on hosts `allowed`, shape (hosts,)."""

    need: IntArray
    allowed: BoolArray
    count: int
    one_per_host: bool = False

    def slots(self, room: IntArray) -> IntArray:
        """How many of them fit in each row of `room`, shape (rows, R): shape (rows,)."""
        most = 1 if self.one_per_host else self.count
        needed = self.need > 0
        slots = np.full(len(room), most, dtype=np.int64)
        if needed.any():
            slots = np.clip((room[:, needed] // self.need[needed]).min(axis=1), 0, most)
        return np.where((room < 0).any(axis=1), 0, slots)


def slot_demands(problem: PreemptionProblem) -> Iterator[SlotDemand]:
    """For distinct VMs of the request one each, in which the VMs that take several times as much count as several.

    And one of the least of all needs. A request of like VMs has one demand, and that is the request itself. Where very
    many VMs differ, some of them stand for all.
    """
    if (problem.needs == problem.needs[0]).all() and (problem.allowed == problem.allowed[0]).all():
        # So it is with most gangs.
        yield _demand(problem, problem.needs[0], problem.allowed[0])
        return
    likeness = np.concatenate([problem.needs, problem.allowed], axis=1)
    unlike = np.unique(likeness, axis=0, return_index=True)[1]
    spread = distinct(np.linspace(0, len(unlike) - 1, _MOST_DEMANDS).astype(np.intp))
    for row in unlike[spread].tolist():
        yield _demand(problem, problem.needs[row], problem.allowed[row])
    if len(unlike) > 1:
        yield _demand(problem, problem.needs.min(axis=0), np.asarray(problem.allowed.any(axis=0)))


def volume_demands(problem: PreemptionProblem) -> Iterator[SlotDemand]:
    """For each dimension one: all that is needed of it, in pieces of the greatest common size."""
    for r in np.flatnonzero(problem.needs.any(axis=0)).tolist():
        piece = np.zeros_like(problem.needs[0])
        piece[r] = np.gcd.reduce(problem.needs[:, r])
        pieces = int(problem.needs[:, r].sum() // piece[r])
        yield SlotDemand(piece, np.asarray(problem.allowed.any(axis=0)), pieces)


def _demand(problem: PreemptionProblem, need: IntArray, allowed: BoolArray) -> SlotDemand:
    """The VMs that may go nowhere but to `allowed`, each counted by how many times `need` is in it."""
    inside = (problem.allowed <= allowed).all(axis=1)
    needed = need > 0
    times = (problem.needs[:, needed] // need[needed]).min(axis=1, initial=max(1, _MOST_SLOTS // len(problem.needs)))
    demanding = np.flatnonzero(inside & (times > 0)).tolist()
    if any(set(demanding) <= set(group) for group in problem.separate):
        return SlotDemand(need, allowed, len(demanding), one_per_host=True)
    return SlotDemand(need, allowed, int(times[demanding].sum()))
