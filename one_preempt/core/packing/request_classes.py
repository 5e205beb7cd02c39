"""Request VMs that are alike, so that a packing counts them instead of telling them apart."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from one_preempt.core.model.cluster_state import IntArray

BoolArray = npt.NDArray[np.bool_]


class RequestClass(Struct, frozen=True):
    """VMs of one request with equal needs, equal allowed hosts and equal anti-affinity.

    `members` are rows of the request's needs; `groups` are the anti-affinity groups they belong to: at
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


def request_classes(
    needs: IntArray, allowed: BoolArray, separate: tuple[tuple[int, ...], ...]
) -> tuple[RequestClass, ...]:
    """The classes of a request, in the order of their first members; see `Packing`."""
    apart = [(number, set(group)) for number, group in enumerate(separate) if len(set(group)) > 1]
    members_by_likeness: dict[tuple[tuple[int, ...], bytes, frozenset[int]], list[int]] = {}
    for row, (need, where) in enumerate(zip(needs.tolist(), allowed, strict=True)):
        groups = frozenset([number for number, group in apart if row in group])
        members_by_likeness.setdefault((tuple(need), where.tobytes(), groups), []).append(row)
    return tuple(
        RequestClass(tuple(rows), need, tuple(allowed[rows[0]].tolist()), groups)
        for (need, _, groups), rows in members_by_likeness.items()
    )


def merged_to(classes: tuple[RequestClass, ...], state_limit: int) -> tuple[RequestClass, ...]:
    """Classes merged until at most `state_limit` combinations of counts are left.

    A merged class needs the larger of each need and may go only where both could: whatever can be packed so can be
    packed in truth, but not the other way round. In the order of likeness, the neighbours with least waste are merged.
    """
    if combinations(classes) <= state_limit:
        return classes
    merged = sorted(classes, key=lambda one: (one.allowed, sorted(one.groups), one.need, one.members))
    while combinations(merged) > state_limit and len(merged) > 1:
        first = min(range(len(merged) - 1), key=lambda i: (_unlikeness(merged[i], merged[i + 1]), i))
        merged[first : first + 2] = [_merge(merged[first], merged[first + 1])]
    return tuple(merged)


def combinations(classes: Sequence[RequestClass]) -> int:
    """In how many ways some of the VMs can be placed already, counting like VMs once."""
    return prod(request_class.size + 1 for request_class in classes)


def _merge(a: RequestClass, b: RequestClass) -> RequestClass:
    return RequestClass(
        members=tuple(sorted(a.members + b.members)),
        need=_larger(a.need, b.need),
        allowed=tuple(x and y for x, y in zip(a.allowed, b.allowed, strict=True)),
        groups=a.groups | b.groups,
    )


def _larger(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(max, a, b))


def _unlikeness(a: RequestClass, b: RequestClass) -> tuple[bool, int]:
    """Other hosts or other neighbours weigh more than the room that is wasted."""
    waste = sum(_larger(a.need, b.need)) * (a.size + b.size) - sum(a.need) * a.size - sum(b.need) * b.size
    return a.allowed != b.allowed or a.groups != b.groups, waste
