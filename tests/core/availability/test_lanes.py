from __future__ import annotations

from random import Random

import pytest

from one_preempt.core.availability.lanes import SHARED_STORAGE, ExclusiveLanes, Operation


def is_free(lanes: ExclusiveLanes, lane: int, start_s: int, end_s: int) -> bool:
    return lanes.as_late_as_possible([Operation(lane, end_s - start_s)], start_s, end_s) is not None


def test_operations_of_one_lane_run_one_after_another() -> None:
    lanes = ExclusiveLanes()
    assert lanes.as_late_as_possible([Operation(SHARED_STORAGE, 10)] * 3, 5, 40) == (10, 20, 30)


def test_operations_of_different_hosts_run_at_the_same_time() -> None:
    lanes = ExclusiveLanes()
    assert lanes.as_late_as_possible([Operation(0, 10), Operation(1, 7), Operation(0, 3)], 5, 20) == (7, 13, 17)


def test_suspending_before_a_reservation_ends_in_time_and_starts_late() -> None:
    lanes = ExclusiveLanes()
    lanes.occupy(0, 85, 92)
    assert lanes.as_late_as_possible([Operation(0, 10), Operation(1, 10), Operation(0, 5)], 0, 100) == (75, 90, 95)


def test_suspending_is_refused_where_the_lane_has_no_time_left() -> None:
    lanes = ExclusiveLanes()
    assert lanes.as_late_as_possible([Operation(0, 10), Operation(0, 10)], 81, 100) is None
    assert is_free(lanes, 0, 0, 100)


def test_planning_takes_nothing() -> None:
    lanes = ExclusiveLanes()
    operations = [Operation(0, 10), Operation(0, 10)]
    assert lanes.as_late_as_possible(operations, 0, 50) == lanes.as_late_as_possible(operations, 0, 50)


def test_a_lane_taken_without_an_end_has_no_time_left() -> None:
    lanes = ExclusiveLanes()
    lanes.occupy(3, 10, None)
    assert lanes.as_late_as_possible([Operation(4, 5), Operation(3, 20)], 0, 50) is None
    assert lanes.as_late_as_possible([Operation(4, 5), Operation(3, 10)], 0, 50) == (45, 0)


def _fits(taken: list[tuple[int, int, int]], lane: int, start_s: int, end_s: int) -> bool:
    return not any(one == lane and begins_s < end_s and start_s < ends_s for one, begins_s, ends_s in taken)


@pytest.mark.parametrize("seed", range(50))
def test_what_is_taken_and_given_back_leaves_what_a_list_of_it_leaves(seed: int) -> None:
    chance, lanes = Random(seed), ExclusiveLanes()
    taken: list[tuple[int, int, int]] = []
    for _ in range(60):
        lane, start_s = chance.randrange(4), chance.randint(0, 30)
        happens = chance.randrange(4)
        if happens == 0 and taken:
            lanes.vacate(*taken.pop(chance.randrange(len(taken))))
        elif happens < 3 and _fits(taken, lane, start_s, start_s + 5):
            lanes.occupy(lane, start_s, start_s + 5)
            taken.append((lane, start_s, start_s + 5))
        assert is_free(lanes, lane, start_s, start_s + 3) is _fits(taken, lane, start_s, start_s + 3)
        wanted = [Operation(chance.randrange(4), 4) for _ in range(chance.randint(1, 3))]
        found, late = [*taken], []
        for one in reversed(wanted):
            latest = (at_s for at_s in range(36, -1, -1) if _fits(found, one.lane, at_s, at_s + 4))
            late.append(next(latest, None))
            found += [(one.lane, at_s, at_s + 4) for at_s in late[-1:] if at_s is not None]
        expected = None if None in late else tuple(late[::-1])
        assert lanes.as_late_as_possible(wanted, 0, 40) == expected
