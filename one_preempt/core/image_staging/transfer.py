"""Transfers of images as values: what is to be brought where until when, and when it has the link.

Instants and durations are whole milliseconds.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct


class Span(NamedTuple):
    """From an instant on, until just before another one."""

    begin_ms: int
    end_ms: int


class Transfer(Struct, frozen=True):
    """One image that is to be brought to one node, or at once to several.

    Attributes:
        id: Its own; ties end in it.
        image: Which image.
        nodes: Where to.
        duration_ms: What it takes when it has the link alone; at least 1.
        ready_ms: It cannot begin before.
        deadline_ms: When the reservation starts for which it is; None for best effort, which takes it when it comes.
        owner: The lease for which it is.
    """

    id: int
    image: str
    nodes: tuple[int, ...]
    duration_ms: int
    ready_ms: int
    deadline_ms: int | None
    owner: int

    @property
    def is_reserved(self) -> bool:
        """It is for a reservation, and not for a best-effort request."""
        return self.deadline_ms is not None


class StagedTransfer(Struct, frozen=True):
    """A transfer and the spans in which it has the link, or a share of it; at least one, in their order."""

    transfer: Transfer
    spans: tuple[Span, ...]

    @property
    def begin_ms(self) -> int:
        """When it begins."""
        return self.spans[0].begin_ms

    @property
    def end_ms(self) -> int:
        """From when on the image is there."""
        return self.spans[-1].end_ms

    @property
    def late_ms(self) -> int:
        """How long after its deadline it ends; 0 where it is in time, or has no deadline."""
        deadline_ms = self.transfer.deadline_ms
        return 0 if deadline_ms is None else max(0, self.end_ms - deadline_ms)


def transfer_ms(size_mb: int, megabit_per_s: int) -> int:
    """How long an image of so many megabytes (10^6) takes on a whole link: 48 s for 600 MB at 100 Mbit/s."""
    return -(-size_mb * 8 * 1000 // megabit_per_s)
