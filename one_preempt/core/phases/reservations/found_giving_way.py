"""Who gives way to what is firm, as far as one decision has asked."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from one_preempt.core.availability.timeline import Stay
from one_preempt.core.memory.remembered_giving_way import GivingWay


class FoundGivingWay(Struct):
    """All who do, by lease id; None until somebody asks.

    `at_stay` is by the lease of a stay: the last one that was asked about, and who of them will still be there then.
    """

    leases: tuple[GivingWay, ...] | None = None
    at_stay: dict[int, tuple[Stay, Sequence[GivingWay]]] = field(default_factory=dict)
