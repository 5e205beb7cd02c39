"""The independent recount: what no plan may contain, checked naively against what was observed.

It shares no arithmetic with the decision, so that it can catch its mistakes: plain integers over the hosts and
VMs of the snapshot. A plan with a violation is not carried out.
"""

from __future__ import annotations

from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.plan import Plan
from one_preempt.core.model.recount_rules import AS_SHIPPED, RecountRules
from one_preempt.core.verify import (
    action_rules,
    capacity_rules,
    departure_rules,
    devices_over_time,
    groups_over_time,
    image_rules,
    memory_image_rules,
    numa_rules,
    power_rules,
    promise_rules,
    room_over_time,
    suited_host_rules,
    vm_group_rules,
)
from one_preempt.core.verify.books import Books
from one_preempt.core.verify.claims_over_time import anything_is_firm
from one_preempt.core.verify.recount import Recount, Rule, Violation

__all__ = ["Violation", "verify"]

_OF_ACTIONS = (
    *action_rules.RULES,
    *capacity_rules.RULES,
    *suited_host_rules.RULES,
    *numa_rules.RULES,
    *promise_rules.RULES_OF_STARTS,
)
_OVER_TIME = (*room_over_time.RULES, *devices_over_time.RULES)
_OF_PREEMPTIONS = (*memory_image_rules.RULES, *suited_host_rules.RULES_OF_PREEMPTIONS)
_OF_VERDICTS = (*power_rules.RULES_OF_PROMISES, *image_rules.RULES_OF_PROMISES)


def verify(
    state: ClusterState, plan: Plan, books: Books | None = None, rules: RecountRules = AS_SHIPPED
) -> tuple[Violation, ...]:
    """All rules that `plan` breaks in `state`; empty for a sound plan. `books` are those of `state`, if kept."""
    books = books if books is not None else Books(state)
    recount = Recount(state, plan, books, rules)
    found: list[Violation] = []
    for concerns, about_it in _rules_by_concern(recount):
        if concerns:
            for rule in about_it:
                found += rule(recount)
    return tuple(found)


def _rules_by_concern(recount: Recount) -> tuple[tuple[object, tuple[Rule, ...]], ...]:
    """What a plan has to have for rules to be about it, beside them.

    Most plans change nothing, or start VMs and do nothing else.
    """
    plan, groups = recount.plan, recount.state.snapshot.vm_groups
    is_firm = (plan.actions or plan.bookings or plan.preemptions) and anything_is_firm(recount)
    return (
        (plan.actions, _OF_ACTIONS),
        (recount.later, action_rules.RULES_OF_ORDER),
        (recount.others, action_rules.RULES_OF_OTHERS),
        (groups and plan.actions, vm_group_rules.RULES),
        (recount.others or plan.preemptions, departure_rules.RULES),
        (plan.preemptions, _OF_PREEMPTIONS),
        (plan.bookings, suited_host_rules.RULES_OF_PROMISES),
        (plan.bookings or plan.verdicts, promise_rules.RULES),
        (is_firm, _OVER_TIME),
        (groups and is_firm, groups_over_time.RULES),
        (plan.power_steps or plan.power_sequences, power_rules.RULES),
        (plan.verdicts, _OF_VERDICTS),
        (plan.image_orders, image_rules.RULES),
    )
