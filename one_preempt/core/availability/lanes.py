"""Lanes in which one operation runs at a time: suspending, resuming, migrating, copying images.

With exclusion per host, the lane of an operation is the row of the host; with storage that all share it is
SHARED_STORAGE for every operation. Lanes know nothing of each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from one_preempt.core.availability.profile import AvailabilityProfile

SHARED_STORAGE = -1


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation that takes `duration_s` seconds of a lane."""

    lane: int
    duration_s: int


class ExclusiveLanes:
    """When each lane is taken. Lanes need not be named before their first use."""

    def __init__(self, since_s: int = 0) -> None:
        self._since_s = since_s
        self._lanes: dict[int, AvailabilityProfile] = {}

    def is_free(self, lane: int, start_s: int, end_s: int | None) -> bool:
        """Nothing runs in the lane between two instants."""
        return lane not in self._lanes or self._lanes[lane].fits(1, start_s, end_s)

    def occupy(self, lane: int, start_s: int, end_s: int | None) -> None:
        """Take a lane between two instants, free or not."""
        self._profile(lane).reserve(start_s, end_s, 1)

    def vacate(self, lane: int, start_s: int, end_s: int | None) -> None:
        """Give a lane back between two instants."""
        self._profile(lane).release(start_s, end_s, 1)

    def as_early_as_possible(self, operations: Sequence[Operation], not_before_s: int) -> tuple[int, ...]:
        """A start for each operation, in turn the earliest that its lane allows; takes nothing."""
        planned: dict[int, AvailabilityProfile] = {}
        marks: dict[int, int] = {}
        starts = []
        for operation in operations:
            profile = self._planning(operation.lane, planned, marks)
            start_s = profile.earliest_fit(1, operation.duration_s, not_before_s)
            if start_s is None:
                raise ValueError(f"lane {operation.lane} is taken without an end")
            profile.reserve(start_s, start_s + operation.duration_s, 1)
            starts.append(start_s)
        _undo(planned, marks)
        return tuple(starts)

    def as_late_as_possible(
        self, operations: Sequence[Operation], not_before_s: int, end_by_s: int
    ) -> tuple[int, ...] | None:
        """A start for each operation such that all have ended by `end_by_s`, the last one as late as possible.

        None where they do not all fit between the two instants; takes nothing.
        """
        planned: dict[int, AvailabilityProfile] = {}
        marks: dict[int, int] = {}
        starts: list[int] = []
        for operation in reversed(operations):
            profile = self._planning(operation.lane, planned, marks)
            start_s = profile.latest_fit(1, operation.duration_s, not_before_s, end_by_s)
            if start_s is None:
                break
            profile.reserve(start_s, start_s + operation.duration_s, 1)
            starts.append(start_s)
        _undo(planned, marks)
        return tuple(reversed(starts)) if len(starts) == len(operations) else None

    def forget_before(self, instant_s: int) -> None:
        """Drop the time before an instant, and lanes in which nothing is planned."""
        self._since_s = instant_s
        for lane in list(self._lanes):
            self._lanes[lane].forget_before(instant_s)
            if len(self._lanes[lane].as_steps()[0]) == 1 and self._lanes[lane].free_at(instant_s) == 1:
                del self._lanes[lane]

    def taken(self) -> tuple[tuple[int, tuple[int, ...], tuple[int, ...]], ...]:
        """Lanes that are ever taken, ascending: (lane, instants, free from each on)."""
        found: Iterable[tuple[int, AvailabilityProfile]] = sorted(self._lanes.items())
        described = ((lane, *(tuple(column.tolist()) for column in profile.as_steps())) for lane, profile in found)
        return tuple((lane, times, free) for lane, times, free in described if free != (1,))

    def _profile(self, lane: int) -> AvailabilityProfile:
        if lane not in self._lanes:
            self._lanes[lane] = AvailabilityProfile(1, self._since_s)
        return self._lanes[lane]

    def _planning(
        self, lane: int, planned: dict[int, AvailabilityProfile], marks: dict[int, int]
    ) -> AvailabilityProfile:
        if lane not in planned:
            planned[lane] = self._profile(lane)
            marks[lane] = planned[lane].checkpoint()
        return planned[lane]


def _undo(planned: dict[int, AvailabilityProfile], marks: dict[int, int]) -> None:
    for lane, profile in planned.items():
        profile.rollback(marks[lane])
