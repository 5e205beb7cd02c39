"""Whether an order is still to be given when all that it needs is known: that may take long, and it may be dropped.

Where each host's controller is has to be asked of an oned that may not answer, and a login takes its time. Whoever
steps down meanwhile must be able to rely on it that nothing leaves this machine any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_is_wanted: ContextVar[Callable[[], bool]] = ContextVar("is_wanted", default=lambda: True)


class NotWanted(Exception):
    """What was about to be done was dropped in the meantime; nothing was done."""


@contextmanager
def while_wanted(is_wanted: Callable[[], bool]) -> Iterator[None]:
    """What this thread orders within is given out only as long as `is_wanted` says so."""
    before = _is_wanted.set(is_wanted)
    try:
        yield
    finally:
        _is_wanted.reset(before)


def demand_wanted() -> None:
    """Called right before anything is given out. Raises `NotWanted`."""
    if not _is_wanted.get()():
        raise NotWanted
