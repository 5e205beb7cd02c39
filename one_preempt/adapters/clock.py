"""Where "now" comes from: the system, or whoever steps the time."""

from __future__ import annotations

import time


class SystemClock:
    """The machine's wall clock."""

    def now_s(self) -> int:
        """Seconds since the epoch."""
        return int(time.time())


class FixedClock:
    """An instant that is set from outside: a recording's, or a rehearsal's."""

    def __init__(self, now_s: int) -> None:
        self._now_s = now_s

    def now_s(self) -> int:
        """The instant last set, in seconds since the epoch."""
        return self._now_s

    def set(self, now_s: int) -> None:
        """Move to another instant."""
        self._now_s = now_s
