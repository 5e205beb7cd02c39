"""Time that moves only when told, and the queue of what is due."""

from __future__ import annotations

import heapq
from collections.abc import Callable


class VirtualClock:
    """A clock in whole milliseconds since the epoch, moved by hand or by the cloud; fits the scheduler's Clock port."""

    def __init__(self, start_s: float = 1_800_000_000) -> None:
        self.now_ms = round(start_s * 1000)

    def now_s(self) -> int:
        """Whole seconds since the epoch."""
        return self.now_ms // 1000


class EventQueue:
    """What happens when: earliest first, of equal instants the one planned first."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._planned = 0

    def plan(self, at_ms: int, effect: Callable[[], None]) -> None:
        """Let `effect` happen at `at_ms`."""
        self._planned += 1
        heapq.heappush(self._heap, (at_ms, self._planned, effect))

    def next_at_ms(self) -> int | None:
        """When the next effect is due."""
        return self._heap[0][0] if self._heap else None

    def take(self) -> tuple[int, Callable[[], None]]:
        """Remove and return the next effect and its instant."""
        at_ms, _, effect = heapq.heappop(self._heap)
        return at_ms, effect
