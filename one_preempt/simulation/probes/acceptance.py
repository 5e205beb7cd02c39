"""How many requests were served, and how many sent away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from one_preempt.simulation.probes.outcome import Outcome
from one_preempt.simulation.simulator.result import Fate


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Requests by how they ended; see `Fate`."""

    submitted: int
    completed: int
    cut_short: int
    rejected: int
    unfinished: int

    @property
    def rejection_rate(self) -> float | None:
        """Rejected of those submitted, 0 to 1; None without any."""
        return self.rejected / self.submitted if self.submitted else None


def acceptance(found: Sequence[Outcome]) -> Acceptance:
    """Counts of fates. Leases that were terminated or moved for others were accepted (CCPE13 counts them so too)."""
    fates = [one.fate for one in found]
    return Acceptance(
        submitted=len(fates),
        completed=fates.count(Fate.COMPLETED),
        cut_short=fates.count(Fate.CUT_SHORT),
        rejected=fates.count(Fate.REJECTED),
        unfinished=fates.count(Fate.UNFINISHED),
    )
