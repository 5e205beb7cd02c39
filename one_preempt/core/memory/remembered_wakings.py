"""When hosts that sleep must be woken, remembered while nothing changes that it followed from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import is_
from typing import NamedTuple

from one_preempt.core.availability.timeline import Stay


class Waking(NamedTuple):
    """Somebody starts on the host at `start_s`, nobody before; its boot begins at `begin_s` at the latest."""

    start_s: int
    begin_s: int


class Wakings:
    """By row of the sleeping hosts when each is woken for those who start there first."""

    def __init__(self, by_row: Mapping[int, Waking]) -> None:
        self.by_row = by_row
        self.first_s = min((waking.begin_s for waking in by_row.values()), default=None)
        # By lease, with the stay that it is about.
        self._of_stays: dict[int, tuple[Stay, tuple[int, ...], int | None]] = {}

    def of(self, stay: Stay) -> tuple[tuple[int, ...], int | None]:
        """The rows of a stay that sleep, and the first instant at which one is woken for it; None where none is.

        Where somebody else starts before, the host is woken for him.
        """
        known = self._of_stays.get(stay.lease_id)
        if known is None or known[0] is not stay:
            rows = tuple(sorted({row for row in stay.host_rows if row in self.by_row}))
            wakings = [self.by_row[row] for row in rows]
            begins_s = [waking.begin_s for waking in wakings if waking.start_s == stay.start_s]
            known = self._of_stays[stay.lease_id] = (stay, rows, min(begins_s, default=None))
        return known[1:]


class RememberedWakings:
    """The last answer. Only speed depends on it."""

    def __init__(self) -> None:
        self._under: tuple[object, ...] = ()
        self._stays: Sequence[Stay] = ()
        self._from_s = 0
        self._known = Wakings({})

    def of(
        self,
        under: tuple[object, ...],
        stays: Sequence[Stay],
        now_s: int,
        find: Callable[[], Mapping[int, Waking]],
    ) -> Wakings:
        """What `find` says, or has said before it was time to wake the first.

        Beside `now_s`, before which nothing is to begin, it follows from `stays` and the very objects `under`.
        """
        known = self._known
        lasts = known.first_s is None or self._from_s <= now_s <= known.first_s
        is_of_these = len(under) == len(self._under) and all(map(is_, under, self._under)) and stays == self._stays
        if not (lasts and is_of_these):
            self._known = known = Wakings(find())
            self._under, self._stays, self._from_s = under, stays, now_s
        return known
