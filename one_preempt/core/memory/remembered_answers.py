"""What was found of leases, and is not looked for again as long as it follows from the very same objects."""

from __future__ import annotations

from operator import is_


class RememberedAnswers:
    """The leases for which something was so, each with what it followed from. Only speed depends on it."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, ...]] = {}

    def holds(self, lease_id: int, follows_from: tuple[object, ...]) -> bool:
        """It was so, and followed from these very objects."""
        known = self._known.get(lease_id)
        return known is not None and all(map(is_, known, follows_from))

    def keep(self, lease_id: int, follows_from: tuple[object, ...], leases: int) -> None:
        """Remember that it is so; of no more leases than twice as many as there are."""
        if len(self._known) > 2 * leases:
            self._known.clear()
        self._known[lease_id] = follows_from
