"""A process that dies once, between two of its steps: what crash tests within one process have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

NEVER = 1 << 30
# Every second boundary is one after a call. Where all that lasts is mortal, the one before a call shows nothing that
# the one after the last did not.
AFTER = 2


class Killed(BaseException):
    """The process is gone; nothing of it catches this."""


class Mortal:
    """Dies once, at the boundary of that number before or after a call that is mortal."""

    def __init__(self, dies_at: int) -> None:
        self.dies_at, self.passed, self.has_died = dies_at, 0, False

    def mortal(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, with a boundary before it and one after it."""

        def between(*given: Any, **named: Any) -> Any:
            self._boundary()
            answer = call(*given, **named)
            self._boundary()
            return answer

        return between

    def make_mortal(self, part: object, names: Iterable[str]) -> None:
        """So are these methods of `part` from now on."""
        for name in names:
            setattr(part, name, self.mortal(getattr(part, name)))

    def _boundary(self) -> None:
        self.passed += 1
        if self.passed == self.dies_at:
            self.has_died = True
            raise Killed
