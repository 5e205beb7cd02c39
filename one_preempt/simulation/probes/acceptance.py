"""How many requests were served, and how many sent away."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from one_preempt.simulation.probes.outcome import Outcome
from one_preempt.simulation.simulator.result import Fate


class Acceptance(Struct, frozen=True):
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


def missed_deadlines(found: Sequence[Outcome], ended_at_ms: int) -> int | None:
    """Of those that asked for a deadline and were not rejected, how many had not completed by then.

    None where nobody asked for one. What has not ended at `ended_at_ms`, as the simulation does, missed what has come.
    """
    asked = [(one, 1000 * one.request.deadline_at_s) for one in found if one.request.deadline_at_s is not None]
    if not asked:
        return None
    return sum(_has_missed(one, deadline_ms, ended_at_ms) for one, deadline_ms in asked)


def _has_missed(one: Outcome, deadline_ms: int, ended_at_ms: int) -> bool:
    match one.fate:
        case Fate.REJECTED:
            return False
        case Fate.UNFINISHED:
            return deadline_ms <= ended_at_ms
        case Fate.CUT_SHORT:
            return True
        case Fate.COMPLETED:
            return one.record.ended_at_ms is None or one.record.ended_at_ms > deadline_ms


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
