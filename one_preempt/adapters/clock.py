"""Where "now" comes from: the system, or whoever steps the time."""

from __future__ import annotations

import time


class SystemClock:
    """The machine's wall clock, which somebody may set."""

    def __init__(self) -> None:
        self._asked: tuple[int, float] | None = None

    def now_s(self) -> int:
        """Seconds since the epoch."""
        return int(time.time())

    def gained_s(self) -> int:
        """How much farther it has gone than time, in seconds, since this was asked last; 0 when asked first."""
        now_s, passed_s = self.now_s(), self.passed_s()
        asked, self._asked = self._asked, (now_s, passed_s)
        return 0 if asked is None else round(now_s - asked[0] - (passed_s - asked[1]))

    def passed_s(self) -> float:
        """Seconds that have passed, from whatever beginning; those too in which the machine slept."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)


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
