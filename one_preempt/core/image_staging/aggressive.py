"""Aggressive: the transfer begins as soon as its request is accepted.

A naive baseline of VW07 8.1: it looks at nothing but its own request, and transfers under way share the link equally.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from one_preempt.core.image_staging.equal_sharing import shared_equally
from one_preempt.core.image_staging.link import Link
from one_preempt.core.image_staging.transfer import StagedTransfer, Transfer


class Aggressive(Struct, frozen=True):
    """Deadlines do not matter."""

    name: str = "aggressive"
    description: str = "each begins when it is asked for; those under way share the link"
    plans_slots: bool = False
    keeps_deadlines: bool = False

    def stage(self, transfers: Sequence[Transfer], link: Link) -> tuple[StagedTransfer, ...]:
        """Each by itself."""
        return shared_equally(transfers, link, _begin_ms)


def _begin_ms(one: Transfer) -> int:
    return one.ready_ms


POLICY = Aggressive()
