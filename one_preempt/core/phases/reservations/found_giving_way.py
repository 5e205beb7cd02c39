"""Who gives way to what is firm, as far as one decision has asked."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from one_preempt.core.availability.timeline import Stay
from one_preempt.core.memory.remembered_giving_way import GivingWay


class GoneBy(Struct, frozen=True):
    """Of a VM that is leaving already, for which lease it does, and when it will have left its host as planned.

    `amounts`: what it takes until then beside what that lease has there already, CPU in hundredths and MiB.
    """

    preemptor_id: int
    at_s: int
    amounts: tuple[int, int]


class FoundGivingWay(Struct):
    """All who do, by lease id; None until somebody asks.

    `at_stay` is by the lease of a stay: the last one that was asked about, and who of them will still be there then.
    `gone_by` is by VM id, of those whose room nobody else has yet, or not all of it. `resumed` are those that rested on
    their hosts, and are resumed there in this decision.
    """

    leases: tuple[GivingWay, ...] | None = None
    at_stay: dict[int, tuple[Stay, Sequence[GivingWay]]] = field(default_factory=dict)
    gone_by: dict[int, GoneBy] = field(default_factory=dict)
    resumed: dict[int, GivingWay] = field(default_factory=dict)
