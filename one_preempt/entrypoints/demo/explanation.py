"""Why these victims: the candidate sets of a decision, and what every policy chooses among them."""

from __future__ import annotations

from collections.abc import Mapping

from one_preempt.configuration.chosen_policies import policies
from one_preempt.configuration.settings import Settings
from one_preempt.core.decide import decide
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.plan import CandidateSet, Plan, Preemption
from one_preempt.core.model.time import ms_to_seconds
from one_preempt.entrypoints.demo.story import Candidate, Decision
from one_preempt.policy_registry import PREEMPTION_POLICIES


def explained(preemption: Preemption, state: ClusterState, settings: Settings) -> Decision:
    """The decision with the names of leases, and with what the other policies decide on the same `state`."""
    names = {lease_id: lease.terms.name for lease_id, lease in state.leases.items()}
    choices = {
        name: _victims_in(decide(state, policies(settings, name)), preemption.preemptor_lease_id)
        for name in PREEMPTION_POLICIES.all()
    }
    candidates = tuple(_candidate(candidate, choices, names) for candidate in preemption.considered)
    (chosen,) = (candidate for candidate in candidates if preemption.policy in candidate.chosen_by)
    median_s = ms_to_seconds(preemption.median_overhead_ms or 0)
    why, others = _why(preemption.policy, chosen, candidates, median_s), _others(preemption.policy, candidates, choices)
    return Decision(
        policy=preemption.policy,
        preemptor=names[preemption.preemptor_lease_id],
        candidates=candidates,
        candidate_count=preemption.candidate_count,
        median_overhead_s=median_s,
        choices={name: tuple(names[lease_id] for lease_id in leases) for name, leases in choices.items()},
        chosen=chosen,
        victims=tuple(victim.vm_id for victim in preemption.victims),
        optimal=preemption.optimal,
        sentence=f"{why} {others}",
    )


def _victims_in(plan: Plan, preemptor: int) -> tuple[int, ...]:
    """The leases that leave for the preemptor by this plan; none where nobody is preempted for it."""
    found = (one.victim_lease_ids for one in plan.preemptions if one.preemptor_lease_id == preemptor)
    return next(found, ())


def _candidate(candidate: CandidateSet, choices: Mapping[str, tuple[int, ...]], names: Mapping[int, str]) -> Candidate:
    return Candidate(
        leases=tuple(names[lease_id] for lease_id in candidate.lease_ids),
        vms=candidate.frees_vms,
        overhead_s=ms_to_seconds(candidate.overhead_ms),
        chosen_by=tuple(name for name, leases in choices.items() if leases == candidate.lease_ids),
    )


def _why(policy: str, chosen: Candidate, candidates: tuple[Candidate, ...], median_s: float) -> str:
    affordable = sum(candidate.overhead_s <= median_s for candidate in candidates)
    rule = PREEMPTION_POLICIES.named(policy).description
    return (
        f"{policy}: {rule}. The median is {median_s:.1f} s. Of the {affordable} sets "
        f"that cost no more, {' + '.join(chosen.leases)} is the cheapest one with the fewest leases. To stop, resume "
        f"and re-schedule its {chosen.vms} VMs costs {chosen.overhead_s:.1f} s."
    )


def _others(policy: str, candidates: tuple[Candidate, ...], choices: Mapping[str, tuple[int, ...]]) -> str:
    """What the other policies would do."""
    said = [
        f"{name} would choose {' + '.join(candidate.leases)}"
        for candidate in candidates
        for name in candidate.chosen_by
        if name != policy
    ]
    said += [f"{name} would stop nobody, and the request would wait" for name, leases in choices.items() if not leases]
    return "; ".join(said) + "."
