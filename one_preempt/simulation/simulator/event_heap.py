"""What is due when, with a fixed order of what falls on one instant.

At one instant the cloud's own transitions come first, then what is due here in the order of `EventKind`: what goes
wrong, VMs that have run their time, new requests; of one kind the lower number first. What these set off at once in
the cloud follows, and so on until nothing is due; only then the scheduler looks, so that it sees the room of whoever
leaves and all who arrive at that instant together.
"""

from __future__ import annotations

import heapq
from enum import IntEnum

from msgspec import Struct, field


class EventKind(IntEnum):
    """What happens, in the order of one instant."""

    FAULT = 0
    END = 1
    SUBMISSION = 2


Event = tuple[int, EventKind, int, int]


class EventHeap(Struct):
    """Events as (instant in ms, kind, number, mark); the mark tells whether an event still counts."""

    _heap: list[Event] = field(default_factory=list)

    def push(self, at_ms: int, kind: EventKind, number: int, mark: int = 0) -> None:
        """Let something happen."""
        heapq.heappush(self._heap, (at_ms, kind, number, mark))

    def next_at_ms(self) -> int | None:
        """When the next event is due."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, at_ms: int) -> Event | None:
        """The next event that is due by `at_ms`, or None."""
        return heapq.heappop(self._heap) if self._heap and self._heap[0][0] <= at_ms else None
