"""Which nodes are emptied: those with the fewest leases (PEMP12 section III-B)."""

from __future__ import annotations

from collections.abc import Iterable


def can_spare(nodes_on: int, required: int, count: int) -> bool:
    """Do the nodes that are left cover what is scheduled for reservations? (Algorithm 1, line 15.)"""
    return required <= nodes_on - count


def nodes_to_empty(leases_by_node: Iterable[tuple[int, int]], count: int) -> tuple[int, ...]:
    """The ids of `count` nodes out of (node id, number of leases on it): the fewest leases first, then the id."""
    fewest = sorted((leases, node) for node, leases in leases_by_node)
    return tuple(node for _leases, node in fewest[:count])
