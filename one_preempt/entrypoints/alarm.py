"""Sleep until something happens: the pause between two cycles of the daemon, or two rounds of the gateway."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType


class Alarm:
    """A sleep that threads can cut short and signal handlers can end for good. Nothing in it takes a lock."""

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.stopped = False
        self._hung_up = False

    def ring(self) -> None:
        """Something happened: end the sleep, or the next one."""
        os.eventfd_write(self._descriptor, 1)

    def stop(self) -> None:
        """End this sleep and all to come."""
        self.stopped = True
        self.ring()

    def hang_up(self) -> None:
        """Somebody sent SIGHUP: end the sleep, so that it is answered."""
        self._hung_up = True
        self.ring()

    def take_hang_up(self) -> bool:
        """Whether somebody hung up since the last call."""
        taken, self._hung_up = self._hung_up, False
        return taken

    def sleep(self, longest_s: float, shortest_s: float = 0.0) -> bool:
        """Sleep for `longest_s`, or until rung but for `shortest_s` at least; whether it was cut short.

        All that rang until then counts as heard.
        """
        began_s = time.monotonic()
        rung = self._wait(longest_s)
        while not self.stopped and rung and (left_s := began_s + shortest_s - time.monotonic()) > 0:
            self._wait(left_s)
        return rung

    def _wait(self, duration_s: float) -> bool:
        """Whether the alarm rang within `duration_s`."""
        if self.stopped or not select.select([self._descriptor], [], [], max(0.0, duration_s))[0]:
            return False
        os.eventfd_read(self._descriptor)
        return True

    @contextmanager
    def heeding_signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT stop it meanwhile, SIGHUP hangs up; for the main thread."""
        heard = {signal.SIGTERM: self.stop, signal.SIGINT: self.stop, signal.SIGHUP: self.hang_up}
        before = {number: signal.signal(number, lambda at, _frame: heard[signal.Signals(at)]()) for number in heard}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def __enter__(self) -> Alarm:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)
