"""What a plan says about requests: who preempts whom, and which of them their owners take back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.lease import LeaseState
from one_preempt.core.model.plan import Plan
from one_preempt.core.model.reservation import Verdict
from one_preempt.simulation.simulator.lease_run import LeaseRun
from one_preempt.simulation.workload.workload import StartKind

_IMMEDIATE, _REFUSED = StartKind.IMMEDIATE, LeaseState.REFUSED


class Preemptions:
    """Tells victims who preempts them, and when that preemption is over."""

    def __init__(self, lease_by_id: Mapping[int, LeaseRun]) -> None:
        """`lease_by_id`: the requests that are not over, as they are whenever a plan is read."""
        self._lease_by_id = lease_by_id
        self._victims: dict[str, list[LeaseRun]] = {}

    def read(self, plan: Plan) -> None:
        """Note what begins and what ends by a plan."""
        for preemption in plan.preemptions:
            preemptor = self._lease_by_id.get(preemption.preemptor_lease_id)
            if preemption.id in self._victims or preemptor is None:
                continue
            by_id = self._lease_by_id
            victims = [by_id[lease_id] for lease_id in preemption.victim_lease_ids if lease_id in by_id]
            for victim in victims:
                victim.preemptor = preemptor.request.id
            self._victims[preemption.id] = victims
        for end in plan.ended_preemptions:
            for victim in self._victims.pop(end.preemption_id, ()):
                victim.is_spared()


def taken_back(plan: Plan, state: ClusterState, new: Sequence[LeaseRun]) -> dict[int, str]:
    """Why owners take requests back, by lease: refused for good, or to be served at once and yet waiting.

    `new` are the requests that came since the plan before. By ascending id.
    """
    if not (plan.verdicts or new):
        return {}
    why = {given.lease_id: given.text for given in plan.verdicts if given.verdict is Verdict.REFUSED}
    at_once = bool([one for one in new if one.request.start is _IMMEDIATE])
    waits = {refusal.lease_id: refusal.reason.text for refusal in plan.refusals} if at_once else {}
    for one in new:
        lease_id = one.vm_ids[0]
        lease = state.leases.get(lease_id)
        if lease is not None and lease.state is _REFUSED:
            why[lease_id] = lease.refusal_text
        elif one.request.start is _IMMEDIATE and lease_id in waits:
            why[lease_id] = waits[lease_id]
    return dict(sorted(why.items()))
