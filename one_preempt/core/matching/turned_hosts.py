"""The hosts of which more than their load has changed, so that what was found is looked at again on these alone."""

from __future__ import annotations

from collections.abc import Iterable

# So many changes a host are remembered, for what nobody has asked for meanwhile.
_KEPT = 4


class TurnedHosts:
    """Rows in the order in which they changed; `number` counts them all, and `at` is another object after each change.

    The hosts themselves, and their rows, stay the same.
    """

    def __init__(self, hosts: int) -> None:
        self.number = 0
        self.at = object()
        self._most = _KEPT * hosts
        self._rows: list[int] = []

    def note(self, rows: Iterable[int]) -> None:
        """Take down rows of hosts of which more than the load has changed: what was matched there is matched anew."""
        before = len(self._rows)
        self._rows += rows
        self.number += len(self._rows) - before
        self.at = object()
        if len(self._rows) > self._most:
            self._rows.clear()

    def since(self, number: int) -> list[int] | None:
        """Those that changed since `number` was what it was, ascending; None where that is not known any more."""
        changes = self.number - number
        if changes > len(self._rows):
            return None
        return sorted(set(self._rows[len(self._rows) - changes :])) if changes else []
