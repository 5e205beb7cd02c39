"""What was found by expressions, of so many questions and no more: users write these, and new ones for ever."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Found = TypeVar("Found")


class KnownAnswers(Generic[Found]):
    """Answers by question, none of them None; where they have become too many all are found anew."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[Hashable, Found] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, question: Hashable, find: Callable[[], Found]) -> Found:
        """What `find` says, or has said of this question before."""
        found = self._known.get(question)
        if found is None:
            if len(self._known) >= self._most:
                self._known.clear()
            found = self._known[question] = find()
        return found
