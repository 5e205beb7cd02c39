"""The calls that an endpoint was asked, as it answered them: what a test reads when all is over."""

from __future__ import annotations

from collections import deque

from msgspec import Struct

LOGGED_CALLS = 100_000


class LoggedCall(Struct, frozen=True):
    """One call as the front saw it; `code` is 0 where it was accepted."""

    at_s: int
    user: str
    method: str
    arguments: tuple[int | str | bool, ...]
    code: int
    text: str


def new_call_log() -> deque[LoggedCall]:
    """An empty log, which keeps the latest `LOGGED_CALLS`."""
    return deque(maxlen=LOGGED_CALLS)
