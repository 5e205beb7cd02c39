from __future__ import annotations

import pytest

from one_preempt.core.availability.lanes import SHARED_STORAGE, ExclusiveLanes, Operation


def test_operations_of_one_lane_run_one_after_another() -> None:
    lanes = ExclusiveLanes()
    assert lanes.as_early_as_possible([Operation(SHARED_STORAGE, 10)] * 3, 5) == (5, 15, 25)


def test_operations_of_different_hosts_run_at_the_same_time() -> None:
    lanes = ExclusiveLanes()
    assert lanes.as_early_as_possible([Operation(0, 10), Operation(1, 7), Operation(0, 3)], 5) == (5, 5, 15)


def test_suspending_before_a_reservation_ends_in_time_and_starts_late() -> None:
    lanes = ExclusiveLanes()
    lanes.occupy(0, 85, 92)
    assert lanes.as_late_as_possible([Operation(0, 10), Operation(1, 10), Operation(0, 5)], 0, 100) == (75, 90, 95)


def test_suspending_is_refused_where_the_lane_has_no_time_left() -> None:
    lanes = ExclusiveLanes()
    assert lanes.as_late_as_possible([Operation(0, 10), Operation(0, 10)], 81, 100) is None
    assert lanes.is_free(0, 0, None)


def test_planning_takes_nothing() -> None:
    lanes = ExclusiveLanes()
    operations = [Operation(0, 10), Operation(0, 10)]
    assert lanes.as_early_as_possible(operations, 0) == lanes.as_early_as_possible(operations, 0)
    assert lanes.as_late_as_possible(operations, 0, 50) == lanes.as_late_as_possible(operations, 0, 50)


def test_a_lane_taken_without_an_end_is_named() -> None:
    lanes = ExclusiveLanes()
    lanes.occupy(3, 10, None)
    with pytest.raises(ValueError, match="lane 3"):
        lanes.as_early_as_possible([Operation(4, 5), Operation(3, 20)], 0)
    assert lanes.is_free(4, 0, None)


def test_the_past_is_forgotten_and_the_future_kept() -> None:
    lanes = ExclusiveLanes()
    lanes.occupy(0, 0, 10)
    lanes.occupy(1, 0, 30)
    lanes.forget_before(20)
    assert lanes.is_free(0, 20, None)
    assert not lanes.is_free(1, 20, 25)
    assert lanes.as_early_as_possible([Operation(0, 5), Operation(1, 5)], 0) == (20, 30)
