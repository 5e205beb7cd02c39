"""EDF, earliest deadline first (VW07 Algorithm 2): one by one from now on, sorted by deadline.

Ties: the least id. Transfers that are all ready now are late under EDF only if some are late in any order.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from one_preempt.core.image_staging.link import Link
from one_preempt.core.image_staging.serial_order import one_by_one
from one_preempt.core.image_staging.transfer import StagedTransfer, Transfer


class EarliestDeadlineFirst(Struct, frozen=True):
    """Those that are not ready yet are passed over; those without a deadline come last."""

    name: str = "EDF"
    description: str = "one by one as soon as possible, the earliest deadline first"
    plans_slots: bool = True
    keeps_deadlines: bool = True

    def stage(self, transfers: Sequence[Transfer], link: Link) -> tuple[StagedTransfer, ...]:
        """Packed from now on."""
        return one_by_one(transfers, link, _by_deadline)


def _by_deadline(one: Transfer) -> tuple[int, ...]:
    return (one.deadline_ms is None, one.deadline_ms or 0, one.id)


POLICY = EarliestDeadlineFirst()
