"""Lanes in which one operation runs at a time: suspending, resuming, migrating, copying images.

With exclusion per host, the lane of an operation is the row of the host; with storage that all share it is
SHARED_STORAGE for every operation. Lanes know nothing of each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from one_preempt.core.availability.profile import AvailabilityProfile

SHARED_STORAGE = -1


class Operation(Struct, frozen=True):
    """An operation that takes `duration_s` seconds of a lane."""

    lane: int
    duration_s: int


class ExclusiveLanes:
    """When each lane is taken. Lanes need not be named before their first use."""

    def __init__(self, since_s: int = 0) -> None:
        self._since_s = since_s
        self._lanes: dict[int, AvailabilityProfile] = {}
        # Lanes that were taken once, from when until when: most are never asked about again.
        self._taken_once: dict[int, tuple[int, int | None]] = {}

    def occupy(self, lane: int, start_s: int, end_s: int | None) -> None:
        """Take a lane between two instants, free or not."""
        if self._is_known(lane):
            self._profile(lane).reserve(start_s, end_s, 1)
        else:
            self._taken_once[lane] = start_s, end_s

    def vacate(self, lane: int, start_s: int, end_s: int | None) -> None:
        """Give a lane back between two instants."""
        if self._taken_once.get(lane) == (start_s, end_s):
            del self._taken_once[lane]
        else:
            self._profile(lane).release(start_s, end_s, 1)

    def as_late_as_possible(
        self, operations: Sequence[Operation], not_before_s: int, end_by_s: int
    ) -> tuple[int, ...] | None:
        """A start for each operation such that all have ended by `end_by_s`, the last one as late as possible.

        None where they do not all fit between the two instants; takes nothing.
        """
        backwards = operations[::-1]
        starts: list[int] = []
        taken: list[tuple[int, int, int]] = []
        # Where each has a lane of its own, none is in the way of another.
        in_turns = len({operation.lane for operation in operations}) < len(operations)
        for operation in backwards:
            start_s = self._latest_fit(operation, not_before_s, end_by_s)
            if start_s is None:
                break
            starts.append(start_s)
            if in_turns:
                taken.append((operation.lane, start_s, start_s + operation.duration_s))
                self.occupy(*taken[-1])
        for lane, start_s, end_s in taken:
            self.vacate(lane, start_s, end_s)
        return tuple(starts[::-1]) if len(starts) == len(operations) else None

    def earliest(self, operation: Operation, not_before_s: int) -> int:
        """The first instant from which its lane is free for all of an operation."""
        if not self._is_known(operation.lane):
            return max(not_before_s, self._since_s)
        found = self._profile(operation.lane).earliest_fit(1, operation.duration_s, not_before_s)
        assert found is not None, "no lane is taken for ever"
        return found

    def _latest_fit(self, operation: Operation, not_before_s: int, end_by_s: int) -> int | None:
        if self._is_known(operation.lane):
            return self._profile(operation.lane).latest_fit(1, operation.duration_s, not_before_s, end_by_s)
        start_s = end_by_s - operation.duration_s
        return start_s if start_s >= max(not_before_s, self._since_s) else None

    def _is_known(self, lane: int) -> bool:
        return lane in self._lanes or lane in self._taken_once

    def _profile(self, lane: int) -> AvailabilityProfile:
        profile = self._lanes.get(lane)
        if profile is None:
            profile = self._lanes[lane] = AvailabilityProfile(1, self._since_s)
            taken = self._taken_once.pop(lane, None)
            if taken is not None:
                profile.reserve(*taken, 1)
        return profile
