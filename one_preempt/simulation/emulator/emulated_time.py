"""Where the emulated cloud's time comes from: the wall clock, faster or slower, or a caller who moves it."""

from __future__ import annotations

import time
from typing import Protocol

from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud


class EmulatedTime(Protocol):
    """Moves the cloud's time on before each call."""

    def catch_up(self, cloud: SimulatedCloud) -> None:
        """Let everything happen that is due by now."""


class VirtualTime:
    """Stands still until somebody calls `SimulatedCloud.advance`, by hand or by the control method."""

    def catch_up(self, cloud: SimulatedCloud) -> None:
        """Nothing is due."""


class WallTime:
    """Follows the wall clock from the first call on, `speed` seconds of the cloud a second."""

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._origin: tuple[float, float] | None = None

    def catch_up(self, cloud: SimulatedCloud) -> None:
        """Run the cloud up to the wall clock; it may have been advanced further by hand."""
        elapsed_s = time.monotonic()
        if self._origin is None:
            self._origin = (elapsed_s, cloud.now_s)
        started_s, began_at_s = self._origin
        due_at_s = began_at_s + (elapsed_s - started_s) * self._speed
        if due_at_s > cloud.now_s:
            cloud.run_until(due_at_s)
