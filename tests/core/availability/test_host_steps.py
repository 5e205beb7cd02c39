"""Many hosts changed together are as if each had been changed by itself."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from one_preempt.core.availability.host_steps import HostSteps
from one_preempt.core.availability.steps import END_OF_TIME_S

HOSTS, RESOURCES = 5, 2
# The rows, from when until when, and what is added; of the last as much is taken as there are rows.
Change = tuple[list[int], int, int, list[int]]
ENDS_S = st.one_of(st.integers(0, 12), st.just(END_OF_TIME_S))
CHANGES = st.tuples(
    st.lists(st.integers(0, HOSTS - 1), min_size=1, unique=True),
    st.integers(0, 10),
    ENDS_S,
    st.lists(st.integers(-2, 2), min_size=HOSTS * RESOURCES, max_size=HOSTS * RESOURCES),
)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(changes=st.lists(CHANGES, max_size=12), since_s=st.integers(0, 3), forgotten_s=st.integers(0, 6))
def test_hosts_changed_together_are_as_if_changed_one_by_one(
    changes: list[Change], since_s: int, forgotten_s: int
) -> None:
    capacity = np.full((HOSTS, RESOURCES), 9, dtype=np.int64)
    together, one_by_one = HostSteps(capacity, since_s), HostSteps(capacity, since_s)
    for number, (rows, start_s, end_s, drawn) in enumerate(changes):
        amounts = np.array(drawn, dtype=np.int64).reshape(HOSTS, RESOURCES)[: len(rows)]
        together.add_together(np.array(rows, dtype=np.int64), start_s, end_s, amounts)
        for row, amount in zip(rows, amounts, strict=True):
            one_by_one.add(row, start_s, end_s, amount)
        if number == len(changes) // 2:
            together.forget_before(max(since_s, forgotten_s))
            one_by_one.forget_before(max(since_s, forgotten_s))
    for row in range(HOSTS):
        for got, expected in zip(together.as_steps(row), one_by_one.as_steps(row), strict=True):
            np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(together.lowest(2, 7), one_by_one.lowest(2, 7))
