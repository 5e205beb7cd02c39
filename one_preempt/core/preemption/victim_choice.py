"""The one way in: who leaves so that a request can start, by one policy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from one_preempt.core.model.plan import Reason
from one_preempt.core.packing.packing import Packing
from one_preempt.core.preemption.candidate_set import candidate_sets
from one_preempt.core.preemption.candidate_table import CandidateTable
from one_preempt.core.preemption.greedy import irreducible_sets
from one_preempt.core.preemption.lower_bound import LowerBounds, lower_bounds
from one_preempt.core.preemption.policy import Objective, PreemptionPolicy
from one_preempt.core.preemption.problem import (
    DEFAULT_LIMITS,
    Choice,
    IntArray,
    NoChoice,
    PreemptableLease,
    PreemptionProblem,
    SearchLimits,
)

NOT_ENOUGH_ROOM = Reason(
    "not-enough-room", "the request does not fit even if every lease that may be preempted for it leaves"
)


NOT_FOUND = Reason("not-found", "no way to place the request was found; its VMs differ too much for an exact search")


def choose_victims(
    problem: PreemptionProblem, policy: PreemptionPolicy, limits: SearchLimits = DEFAULT_LIMITS
) -> Choice | NoChoice:
    """Who leaves so that the request of `problem` fits, and where it then goes.

    With at most `limits.enumerated_leases` leases that can help, the policy picks among all minimal candidate sets;
    beyond, among the sets that greedy searches find, and the answer says whether that pick is proven. Both are about
    the leases of the least worth that are enough.
    """
    packing = Packing(problem.needs, problem.allowed, problem.separate, limits.packing)
    placement = packing.placement(problem.free)
    if placement is not None:
        return Choice((), placement, overhead_ms=0, optimal=True, bound_ms=0)
    problem = _of_least_worth(problem, packing)
    helpful = helpful_leases(problem, packing)
    if not packing.packs(room_after(problem, helpful)):
        return NoChoice(NOT_ENOUGH_ROOM if packing.exact else NOT_FOUND)
    candidates, bounds = _candidates(problem, packing, helpful, limits)
    chosen = policy.choose(candidates)
    if chosen is None:
        return NoChoice(Reason("policy-preempts-nobody", f"the policy {policy.name} preempts nobody"))
    victims = [lease for lease, leaves in zip(helpful, candidates.members[chosen], strict=True) if leaves]
    placement = packing.placement(room_after(problem, victims))
    assert placement is not None, "a candidate set makes room"
    return Choice(
        lease_ids=candidates.lease_ids(chosen),
        host_of_request=placement,
        overhead_ms=int(candidates.overhead_ms[chosen]),
        optimal=candidates.complete or _attains(policy, candidates, chosen, bounds),
        bound_ms=bounds.overhead_ms,
        candidate_count=len(candidates.members),
        considered=candidates.cheapest(limits.reported_sets, chosen),
        median_overhead_ms=candidates.median_overhead_ms,
    )


def _of_least_worth(problem: PreemptionProblem, packing: Packing) -> PreemptionProblem:
    """The problem without leases of more worth than is needed (JPDC12 section 4.2); as it is where all are needed."""
    for worth in sorted({lease.worth for lease in problem.leases})[:-1]:
        worth_no_more = tuple(lease for lease in problem.leases if lease.worth <= worth)
        if packing.packs(room_after(problem, worth_no_more)):
            return replace(problem, leases=worth_no_more)
    return problem


def _candidates(
    problem: PreemptionProblem, packing: Packing, helpful: tuple[PreemptableLease, ...], limits: SearchLimits
) -> tuple[CandidateTable, LowerBounds]:
    """All candidate sets where they can be listed, else some; and what no set that makes room can undercut."""
    if packing.exact and len(helpful) <= limits.enumerated_leases:
        candidates = candidate_sets(problem, packing, helpful)
        if candidates.complete:
            least = LowerBounds(int(candidates.overhead_ms.min()), int(candidates.lease_count.min()), ())
            return candidates, least
    for_good = [lease for lease in helpful if not lease.reschedules]
    delta_is_due = not packing.packs(room_after(problem, for_good)) and packing.exact
    bounds = lower_bounds(problem, helpful, delta_is_due=delta_is_due)
    return irreducible_sets(problem, packing, helpful, bounds.picks), bounds


def _attains(policy: PreemptionPolicy, candidates: CandidateTable, chosen: int, bounds: LowerBounds) -> bool:
    """The set is at the lower bound of everything that the policy makes small."""
    at_bound = {
        Objective.OVERHEAD: int(candidates.overhead_ms[chosen]) == bounds.overhead_ms,
        Objective.LEASE_COUNT: int(candidates.lease_count[chosen]) == bounds.lease_count,
    }
    return bool(policy.objectives) and all(at_bound[objective] for objective in policy.objectives)


def helpful_leases(problem: PreemptionProblem, packing: Packing) -> tuple[PreemptableLease, ...]:
    """The leases that could be in a candidate set, by id: all others change nothing for the request.

    A host matters where the fillings with all leases and with none differ; a lease matters where it frees, on such
    a host, something that is not plentiful already. Where the packing is not exact, nothing can be said and all
    leases are returned.
    """
    before = packing.fillings_of_hosts(problem.free)
    after = packing.fillings_of_hosts(room_after(problem, problem.leases))
    scarce = (problem.free < packing.saturations) & (before != after)[:, None]
    by_id = sorted(problem.leases, key=lambda lease: lease.id)
    if not packing.exact:
        return tuple(by_id)
    return tuple(lease for lease in by_id if (scarce[lease.host_index] & (lease.releases > 0)).any())


def room_after(problem: PreemptionProblem, leases: Sequence[PreemptableLease]) -> IntArray:
    """Shape (hosts, R): the room once `leases` have left."""
    room = problem.free.copy()
    for lease in leases:
        np.add.at(room, lease.host_index, lease.releases)
    return room
