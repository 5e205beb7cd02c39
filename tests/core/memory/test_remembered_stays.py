"""Of many stays those whose hosts are left by their start: the same as one stay after the other."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from one_preempt.core.availability.timeline import Stay
from one_preempt.core.memory.remembered_stays import RememberedStays

HOSTS = 5

stays_to_come = st.lists(st.tuples(st.integers(0, 9), st.lists(st.integers(0, HOSTS - 1), max_size=4)), max_size=6).map(
    lambda drawn: [stay(lease_id, start_s, rows) for lease_id, (start_s, rows) in enumerate(drawn)]
)
last_ends = st.lists(st.integers(0, 10), min_size=HOSTS, max_size=HOSTS)


def stay(lease_id: int, start_s: int, rows: list[int]) -> Stay:
    return Stay(lease_id, start_s, None, tuple(rows), tuple((100, 512) for _ in rows), firm=True)


@given(st.lists(st.tuples(stays_to_come, st.lists(last_ends, min_size=1, max_size=3)), min_size=1, max_size=3))
def test_they_are_those_that_each_stay_for_itself_says(asked: list[tuple[list[Stay], list[list[int]]]]) -> None:
    ahead = RememberedStays()
    for stays, several_ends in asked:
        for ends_s in several_ends:
            found = ahead.ending_before(stays, np.array(ends_s, dtype=np.int64))

            expected = [
                one for one in stays if one.host_rows and max(ends_s[row] for row in one.host_rows) <= one.start_s
            ]
            assert found == expected


def test_who_leaves_in_the_second_in_which_the_stay_starts_is_not_there_any_more() -> None:
    assert RememberedStays().ending_before([stay(1, 60, [0, 2])], np.array([60, 99, 0])) == [stay(1, 60, [0, 2])]
