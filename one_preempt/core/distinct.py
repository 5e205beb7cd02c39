"""The distinct values of arrays of whole numbers.

`numpy.unique` does the same, and imports `numpy.ma` when it is first asked: more than a decision of `place` takes.
"""

from __future__ import annotations

import numpy as np

from one_preempt.core.model.cluster_state import IntArray


def distinct(*arrays: IntArray) -> IntArray:
    """The values that are in any of these arrays of any shape, each once, ascending."""
    ascending = np.concatenate(arrays, axis=None)
    ascending.sort()
    is_new = np.ones(len(ascending), dtype=np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=is_new[1:])
    return ascending[is_new]
