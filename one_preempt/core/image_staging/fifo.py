"""FIFO (VW07 6.2): for best effort, one by one in the order in which they came. Ties: the least id.

Given the link less the slots of reservations it fills exactly what these leave: a transfer pauses while a reservation's
runs, and goes on after it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from one_preempt.core.image_staging.link import Link
from one_preempt.core.image_staging.serial_order import one_by_one
from one_preempt.core.image_staging.transfer import StagedTransfer, Transfer


class FirstInFirstOut(Struct, frozen=True):
    """Deadlines do not matter."""

    name: str = "FIFO"
    description: str = "one by one as soon as possible, in the order in which they came"
    plans_slots: bool = True
    keeps_deadlines: bool = False

    def stage(self, transfers: Sequence[Transfer], link: Link) -> tuple[StagedTransfer, ...]:
        """Packed into what is free."""
        return one_by_one(transfers, link, lambda one: (one.ready_ms, one.id))


POLICY = FirstInFirstOut()
