"""Sentences for the log: what goes on being so is said when it begins, and not in each round."""

from __future__ import annotations

from collections.abc import Callable

Say = Callable[[str], None]


class SaidOnce:
    """Says a sentence, or says it unless it was said before."""

    def __init__(self, say: Say) -> None:
        self.say = say
        self._said: set[str] = set()
        self._last: dict[str, str] = {}

    def once(self, text: str) -> None:
        """Say it the first time."""
        if text not in self._said:
            self._said.add(text)
            self.say(text)

    def if_new(self, subject: str, text: str) -> None:
        """Say it unless it is what was said last of this subject."""
        if self._last.get(subject) != text:
            self._last[subject] = text
            self.say(text)

    def forget(self, beginning: str) -> None:
        """What begins with these words is over: should it begin again, it is said again."""
        self._said = {text for text in self._said if not text.startswith(beginning)}
