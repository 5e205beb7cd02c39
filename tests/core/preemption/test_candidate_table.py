"""The columns of candidate sets."""

from __future__ import annotations

import numpy as np

from one_preempt.core.preemption.candidate_table import table_of
from one_preempt.core.preemption.problem import PreemptableLease

NOWHERE = np.zeros(0, dtype=np.int64)
NOTHING = np.zeros((0, 1), dtype=np.int64)


def lease(number: int, overhead_ms: int, vm_count: int = 1, *, reschedules: bool = True) -> PreemptableLease:
    return PreemptableLease(number, overhead_ms, vm_count, NOWHERE, NOTHING, reschedules)


def test_a_set_pays_delta_once_and_cancelled_leases_pay_nothing() -> None:
    leases = (lease(1, 2700, 2), lease(2, 1700), lease(3, 0, reschedules=False))
    members = np.array([[1, 1, 0], [1, 0, 1], [0, 0, 1], [0, 0, 0]], dtype=np.bool_)
    table = table_of(leases, members, 2300, complete=True)
    assert table.overhead_ms.tolist() == [2700 + 1700 + 2300, 2700 + 2300, 0, 0]
    assert table.lease_count.tolist() == [2, 2, 1, 0]
    assert table.frees_vms.tolist() == [3, 3, 1, 0]
