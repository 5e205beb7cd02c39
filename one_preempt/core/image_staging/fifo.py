"""FIFO (VW07 6.2): for best effort, one by one in the order in which they came. Ties: the least id.

Deadlines do not matter. Given the link less the slots of reservations it fills exactly what these leave: a transfer
pauses while a reservation's runs, and goes on after it.
"""

from __future__ import annotations

from operator import attrgetter

from one_preempt.core.image_staging.serial_order import OneByOne

POLICY = OneByOne(
    "FIFO",
    "one by one as soon as possible, in the order in which they came",
    attrgetter("ready_ms", "id"),
    keeps_deadlines=False,
)
