"""EDF/JIT (VW07 Algorithm 3): in EDF's order, but each as late as its deadline and its successor allow.

The algorithm as printed moves nothing: it lets the last transfer end no later than under EDF, and the others no later
than their successors begin. Here the last one may move to its deadline, as the text and Figure 6.2 have it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from one_preempt.core.image_staging.edf import POLICY as EDF
from one_preempt.core.image_staging.link import Link
from one_preempt.core.image_staging.transfer import StagedTransfer, Transfer


class EarliestDeadlineJustInTime(Struct, frozen=True):
    """None begins earlier than under EDF, and one that is late there is as late here."""

    name: str = "EDF/JIT"
    description: str = "in the order of EDF, each as late as its deadline and the next one allow"
    plans_slots: bool = True
    keeps_deadlines: bool = True

    def stage(self, transfers: Sequence[Transfer], link: Link) -> tuple[StagedTransfer, ...]:
        """From the last to the first."""
        found: list[StagedTransfer] = []
        for early in reversed(EDF.stage(transfers, link)):
            one = early.transfer
            # Without a deadline there is nothing to wait for.
            latest_ms = early.end_ms if one.deadline_ms is None else max(early.end_ms, one.deadline_ms)
            end_ms = min(latest_ms, found[-1].begin_ms) if found else latest_ms
            found.append(StagedTransfer(one, link.backward(end_ms, one.duration_ms)))
        return tuple(reversed(found))


POLICY = EarliestDeadlineJustInTime()
