"""Distinct values are those of `numpy.unique`."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from one_preempt.core.distinct import distinct

FEW = st.integers(-3, 3) | st.sampled_from([-(2**62), 2**62])


@given(values=st.lists(FEW, max_size=24), columns=st.integers(1, 3))
def test_they_are_those_of_numpy(values: list[int], columns: int) -> None:
    given_values = np.array(values[: len(values) // columns * columns], dtype=np.int64).reshape(-1, columns)
    before = given_values.copy()
    found = distinct(given_values)
    assert found.tolist() == np.unique(given_values).tolist()
    assert distinct(given_values, given_values[:1]).tolist() == found.tolist()
    assert (given_values == before).all(), "what it is asked about stays as it is"
