"""Who was chosen to leave for a request, remembered while the question is the same.

For a reservation it is asked in each cycle of some while beforehand, only to find that there is time yet; and for whom
nobody can leave after all, it is asked several times in each cycle, without those who had better stay.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from one_preempt.core.preemption.policy import PreemptionPolicy
from one_preempt.core.preemption.problem import (
    Choice,
    NoChoice,
    PreemptableLease,
    PreemptionProblem,
    SearchLimits,
)
from one_preempt.core.preemption.victim_choice import choose_victims

# A question names all who might leave. A few requests are looked at in each cycle, mostly the same ones in the next.
REQUESTS_KEPT = 64


class _Known(Struct, frozen=True):
    problem: PreemptionProblem
    policy: PreemptionPolicy
    limits: SearchLimits
    answer: Choice | NoChoice


class RememberedChoices:
    """The last answers for each of the leases for which somebody was to leave lately. Only speed depends on it."""

    def __init__(self) -> None:
        self._known: dict[int, dict[int, _Known]] = {}

    def of(
        self,
        lease_id: int,
        problem: PreemptionProblem,
        policy: PreemptionPolicy,
        limits: SearchLimits,
        asked_before: int = 0,
    ) -> Choice | NoChoice:
        """What `choose_victims` says, having been `asked_before` for this lease in the same cycle so many times.

        `problem` must not be changed any more.
        """
        of_lease = self._known.pop(lease_id, {})
        # Whoever was asked about last comes last, and is forgotten last.
        self._known[lease_id] = of_lease
        known = of_lease.get(asked_before)
        if known is not None and known.policy is policy and known.limits == limits and _same(known.problem, problem):
            return known.answer
        if len(self._known) > REQUESTS_KEPT:
            del self._known[next(iter(self._known))]
        answer = choose_victims(problem, policy, limits)
        of_lease[asked_before] = _Known(problem, policy, limits, answer)
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
        (one.id, one.overhead_ms, one.vm_count, one.reschedules, one.worth)
        == (other.id, other.overhead_ms, other.vm_count, other.reschedules, other.worth)
        and np.array_equal(one.host_index, other.host_index)
        and np.array_equal(one.releases, other.releases)
    )
