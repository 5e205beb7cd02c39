"""What leases would lack of what they were promised, remembered while nothing changes that it followed from."""

from __future__ import annotations

from collections.abc import Callable


class RememberedLacks:
    """The last answer for each lease that was promised devices, cores or a place. Only speed depends on it."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[tuple[object, ...], str | None]] = {}

    def of(
        self, lease_id: int, follows_from: tuple[object, ...], leases: int, find: Callable[[], str | None]
    ) -> str | None:
        """What `find` says, or has said where it followed from the same: what is lacking; None: nothing.

        Of no more leases are answers kept than twice as many as there are.
        """
        known = self._known.get(lease_id)
        if known is not None and known[0] == follows_from:
            return known[1]
        found = find()
        if len(self._known) > 2 * leases:
            self._known.clear()
        self._known[lease_id] = (follows_from, found)
        return found
