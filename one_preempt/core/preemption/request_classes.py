"""Request VMs that are alike, so that a packing counts them instead of telling them apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from one_preempt.core.preemption.problem import PreemptionProblem


@dataclass(frozen=True, slots=True)
class RequestClass:
    """VMs of one request with equal needs, equal allowed hosts and equal anti-affinity.

    `members` are rows of `PreemptionProblem.needs`; `groups` are the anti-affinity groups they belong to: at
    most one VM of a group goes to a host. `allowed` holds one truth value a host.
    """

    members: tuple[int, ...]
    need: tuple[int, ...]
    allowed: tuple[bool, ...]
    groups: frozenset[int]

    @property
    def size(self) -> int:
        """VMs in the class."""
        return len(self.members)


def request_classes(problem: PreemptionProblem) -> tuple[RequestClass, ...]:
    """The classes of a request, in the order of their first members."""
    members_by_likeness: dict[tuple[tuple[int, ...], tuple[bool, ...], frozenset[int]], list[int]] = {}
    for row, (need, allowed) in enumerate(zip(problem.needs.tolist(), problem.allowed.tolist(), strict=True)):
        groups = frozenset(
            number for number, group in enumerate(problem.separate) if row in group and len(set(group)) > 1
        )
        members_by_likeness.setdefault((tuple(need), tuple(allowed), groups), []).append(row)
    return tuple(RequestClass(tuple(rows), *likeness) for likeness, rows in members_by_likeness.items())


def merged_to(classes: tuple[RequestClass, ...], state_limit: int) -> tuple[RequestClass, ...]:
    """Classes merged, most alike first, until at most `state_limit` combinations of counts are left.

    A merged class needs the larger of each need and may go only where both could: whatever can be packed so can be
    packed in truth, but not the other way round.
    """
    merged = list(classes)
    while combinations(tuple(merged)) > state_limit and len(merged) > 1:
        pairs = [(i, j) for i in range(len(merged)) for j in range(i + 1, len(merged))]
        first, second = min(pairs, key=lambda pair: _unlikeness(merged[pair[0]], merged[pair[1]]))
        merged[first] = _merge(merged[first], merged[second])
        del merged[second]
    return tuple(merged)


def combinations(classes: tuple[RequestClass, ...]) -> int:
    """In how many ways some of the VMs can be placed already, counting like VMs once."""
    return int(np.prod([request_class.size + 1 for request_class in classes], dtype=object))


def _merge(a: RequestClass, b: RequestClass) -> RequestClass:
    return RequestClass(
        members=tuple(sorted(a.members + b.members)),
        need=tuple(max(pair) for pair in zip(a.need, b.need, strict=True)),
        allowed=tuple(both for both in (x and y for x, y in zip(a.allowed, b.allowed, strict=True))),
        groups=a.groups | b.groups,
    )


def _unlikeness(a: RequestClass, b: RequestClass) -> tuple[bool, int, tuple[int, ...]]:
    merged = _merge(a, b)
    waste = sum(merged.need) * merged.size - sum(a.need) * a.size - sum(b.need) * b.size
    same_hosts = a.allowed == b.allowed and a.groups == b.groups
    return not same_hosts, waste, merged.members
