"""On which nodes the VMs of a reservation go (VW07 Algorithm 1)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from one_preempt.core.image_staging.pool_room import peak


class Booking(NamedTuple):
    """A VM that has a place on a node from an instant on until another one."""

    node: int
    begin_ms: int
    end_ms: int


def rooms_between(bookings: Iterable[Booking], places: Mapping[int, int], begin_ms: int, end_ms: int) -> dict[int, int]:
    """How many VMs each node can take for all of that time; `places` is how many it can take at all."""
    changes: dict[int, list[tuple[int, int]]] = {node: [] for node in places}
    for one in bookings:
        if one.begin_ms < end_ms and begin_ms < one.end_ms:
            changes[one.node] += [(max(one.begin_ms, begin_ms), 1), (one.end_ms, -1)]
    return {node: places[node] - peak(of_node) for node, of_node in changes.items()}


def candidate_nodes(rooms: Mapping[int, int], with_image: Collection[int]) -> list[int]:
    """The nodes with room for a VM at least: first those where the image is or is to arrive, then those with more room.

    Ties: the least id.
    """
    able = [node for node, room in rooms.items() if room > 0]
    return sorted(able, key=lambda node: (node not in with_image, -rooms[node], node))


def fitted(vms: int, rooms: Mapping[int, int], with_image: Collection[int]) -> tuple[int, ...] | None:
    """The node of each VM, filled in the order of `candidate_nodes`; None where not all fit."""
    nodes: list[int] = []
    for node in candidate_nodes(rooms, with_image):
        nodes += [node] * min(rooms[node], vms - len(nodes))
    return tuple(nodes) if len(nodes) == vms else None
