"""JIT, just in time: the transfer begins so long before the reservation's start as it takes on an idle link.

A naive baseline of VW07 8.1: it looks at nothing but its own request, and transfers under way share the link equally.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from one_preempt.core.image_staging.equal_sharing import shared_equally
from one_preempt.core.image_staging.link import Link
from one_preempt.core.image_staging.transfer import StagedTransfer, Transfer


class JustInTime(Struct, frozen=True):
    """What has no start to wait for begins at once."""

    name: str = "JIT"
    description: str = "each begins one transfer before its reservation starts; those under way share the link"
    plans_slots: bool = False
    keeps_deadlines: bool = False

    def stage(self, transfers: Sequence[Transfer], link: Link) -> tuple[StagedTransfer, ...]:
        """Each by itself."""
        return shared_equally(transfers, link, _begin_ms)


def _begin_ms(one: Transfer) -> int:
    return one.ready_ms if one.deadline_ms is None else one.deadline_ms - one.duration_ms


POLICY = JustInTime()
