"""EDF, earliest deadline first (VW07 Algorithm 2): one by one from now on, sorted by deadline.

Those that are not ready yet are passed over; those without a deadline come last. Ties: the least id. Transfers that are
all ready now are late under EDF only if some are late in any order.
"""

from __future__ import annotations

from one_preempt.core.image_staging.serial_order import OneByOne
from one_preempt.core.image_staging.transfer import Transfer


def _by_deadline(one: Transfer) -> tuple[int, ...]:
    return (one.deadline_ms is None, one.deadline_ms or 0, one.id)


POLICY = OneByOne(
    "EDF", "one by one as soon as possible, the earliest deadline first", _by_deadline, keeps_deadlines=True
)
