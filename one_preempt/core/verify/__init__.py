"""The independent recount: what no plan may contain, checked naively against what was observed.

It shares no arithmetic with the decision, so that it can catch its mistakes: plain integers over the hosts and
VMs of the snapshot. A plan with a violation is not carried out.
"""

from __future__ import annotations

from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.plan import Plan
from one_preempt.core.verify import (
    action_rules,
    capacity_rules,
    departure_rules,
    power_rules,
    promise_rules,
    room_over_time,
)
from one_preempt.core.verify.recount import Recount, Rule, Violation

__all__ = ["Violation", "verify"]

_RULES: tuple[Rule, ...] = (
    *action_rules.RULES,
    *departure_rules.RULES,
    *capacity_rules.RULES,
    *promise_rules.RULES,
    *room_over_time.RULES,
    *power_rules.RULES,
)


def verify(state: ClusterState, plan: Plan) -> tuple[Violation, ...]:
    """All rules that `plan` breaks in `state`; empty for a sound plan."""
    recount = Recount(state, plan)
    return tuple(violation for rule in _RULES for violation in rule(recount))
