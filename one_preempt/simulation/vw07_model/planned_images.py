"""Which planned transfer brings an image for which VMs, and what that takes on the nodes' disks over time.

For reservations that are known ahead: here nothing has happened yet, and where the transfers lie may still change.
Redundant transfers are avoided (VW07 6.3.1): a VM uses what is to arrive on its node by its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from one_preempt.core.image_staging.pool_room import peak
from one_preempt.core.image_staging.transfer import StagedTransfer


class ImageUse(Struct, frozen=True):
    """A VM that needs an image on its node from `start_ms` to `end_ms`; size in megabytes."""

    vm: int
    node: int
    image: str
    size_mb: int
    start_ms: int
    end_ms: int


class PlannedImage(Struct, frozen=True):
    """What a transfer leaves on one node: for the VMs in `uses`, one at least, by `deadline_ms`."""

    transfer_id: int
    node: int
    deadline_ms: int
    uses: tuple[ImageUse, ...]

    @property
    def image(self) -> str:
        """Which image."""
        return self.uses[0].image

    @property
    def size_mb(self) -> int:
        """How large it is."""
        return self.uses[0].size_mb

    @property
    def expires_ms(self) -> int:
        """The end of the last VM that uses it."""
        return max(use.end_ms for use in self.uses)


def shared_image(use: ImageUse, planned: Iterable[PlannedImage], arrived: Mapping[int, int]) -> PlannedImage | None:
    """What a further VM can use, so that it needs no transfer of its own.

    Args:
        use: What it needs.
        planned: What is planned.
        arrived: Transfers that have ended, by their ids, and when.

    Returns:
        Of what is to arrive on its node by its start, and of what has arrived and is still there then, the one that is
        there longest; ties: the least id. None where there is none.
    """
    found = [
        one
        for one in planned
        if one.node == use.node
        and one.image == use.image
        and (
            arrived[one.transfer_id] <= use.start_ms <= one.expires_ms
            if one.transfer_id in arrived
            else one.deadline_ms <= use.start_ms
        )
    ]
    return max(found, key=lambda one: (one.expires_ms, -one.transfer_id), default=None)


def peak_disk_mb(planned: Iterable[PlannedImage], staged: Mapping[int, StagedTransfer], copies: bool) -> dict[int, int]:
    """The most that images take at one time, by node.

    An image takes its room from the beginning of its transfer, in `staged` by its id, to the end of the last VM that
    uses it; with `copies` each of these VMs takes as much again while it runs.
    """
    changes: dict[int, list[tuple[int, int]]] = {}
    for one in planned:
        of_node = changes.setdefault(one.node, [])
        of_node += [(staged[one.transfer_id].begin_ms, one.size_mb), (one.expires_ms, -one.size_mb)]
        if copies:
            of_node += [
                change for use in one.uses for change in ((use.start_ms, use.size_mb), (use.end_ms, -use.size_mb))
            ]
    return {node: peak(of_node) for node, of_node in sorted(changes.items())}
