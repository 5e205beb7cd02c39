"""Who was chosen to leave for a request, remembered while the question is the same.

For a reservation it is asked in each cycle of some while beforehand, only to find that there is time yet.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from one_preempt.core.preemption.policy import PreemptionPolicy
from one_preempt.core.preemption.problem import (
    Choice,
    NoChoice,
    PreemptableLease,
    PreemptionProblem,
    SearchLimits,
)
from one_preempt.core.preemption.victim_choice import choose_victims


@dataclass(frozen=True, slots=True)
class _Known:
    problem: PreemptionProblem
    policy: PreemptionPolicy
    limits: SearchLimits
    answer: Choice | NoChoice


class KnownChoices:
    """The last answer for each lease for which somebody was to leave. Only speed depends on it."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}

    def of(
        self, lease_id: int, problem: PreemptionProblem, policy: PreemptionPolicy, limits: SearchLimits, leases: int
    ) -> Choice | NoChoice:
        """What `choose_victims` says; kept for no more leases than twice the `leases` that there are.

        `problem` must not be changed any more.
        """
        known = self._known.get(lease_id)
        if known is not None and known.policy is policy and known.limits == limits and _same(known.problem, problem):
            return known.answer
        if len(self._known) > 2 * leases:
            self._known.clear()
        answer = choose_victims(problem, policy, limits)
        self._known[lease_id] = _Known(problem, policy, limits, answer)
        return answer


def _same(one: PreemptionProblem, other: PreemptionProblem) -> bool:
    return (
        np.array_equal(one.free, other.free)
        and np.array_equal(one.needs, other.needs)
        and np.array_equal(one.allowed, other.allowed)
        and (one.delta_ms, one.separate, len(one.leases)) == (other.delta_ms, other.separate, len(other.leases))
        and all(map(_is_same_lease, one.leases, other.leases))
    )


def _is_same_lease(one: PreemptableLease, other: PreemptableLease) -> bool:
    return (
        (one.id, one.overhead_ms, one.vm_count, one.reschedules)
        == (other.id, other.overhead_ms, other.vm_count, other.reschedules)
        and np.array_equal(one.host_index, other.host_index)
        and np.array_equal(one.releases, other.releases)
    )
