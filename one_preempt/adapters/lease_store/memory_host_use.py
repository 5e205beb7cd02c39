"""What hosts do over time, in memory."""

from __future__ import annotations

from collections.abc import Iterable

from one_preempt.core.model.power_history import HostUseStay, HostUseTotal, with_stay


class HostUseBook:
    """Stays by host id and beginning, and the totals of those that were pruned."""

    def __init__(self) -> None:
        self._stays: dict[tuple[int, int], HostUseStay] = {}
        self._totals: dict[tuple[int, str, str, int], HostUseTotal] = {}

    def write(self, stays: Iterable[HostUseStay]) -> None:
        """Over those of the same host that begin at the same instant."""
        for stay in stays:
            self._stays[stay.host_id, stay.since_s] = stay

    def lasting(self) -> tuple[HostUseStay, ...]:
        """Those that have not ended, by host id."""
        return tuple(self._stays[key] for key in sorted(self._stays) if self._stays[key].until_s is None)

    def between(self, from_s: int, until_s: int) -> tuple[HostUseStay, ...]:
        """Those of which a part lies between two instants, by host id and beginning."""
        in_order = (self._stays[key] for key in sorted(self._stays))
        return tuple(
            stay for stay in in_order if stay.since_s < until_s and (stay.until_s is None or stay.until_s > from_s)
        )

    def totals(self) -> tuple[HostUseTotal, ...]:
        """What is left of those that were pruned, by their keys."""
        return tuple(self._totals[key] for key in sorted(self._totals))

    def prune(self, before_s: int) -> None:
        """Add up those that ended before an instant, and forget them."""
        over = [key for key, stay in self._stays.items() if stay.until_s is not None and stay.until_s < before_s]
        for key in over:
            stay = self._stays.pop(key)
            self._totals[stay.key] = with_stay(self._totals.get(stay.key), stay)
