"""Who gives way to what is firm, as far as one decision has asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from one_preempt.core.availability.timeline import Stay
from one_preempt.core.memory.known_giving_way import GivingWay


class FoundGivingWay(Struct):
    """All who do, by lease id; None until somebody asks. `on_row` has them by the row of their host.

    `at_stay` is by the lease of a stay: the last one that was asked about, and who of them will still be there then.
    """

    leases: tuple[GivingWay, ...] | None = None
    on_row: Mapping[int, Sequence[GivingWay]] = field(default_factory=dict)
    at_stay: dict[int, tuple[Stay, Sequence[GivingWay]]] = field(default_factory=dict)
