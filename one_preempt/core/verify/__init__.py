"""The independent recount: what no plan may contain, checked naively against what was observed.

It shares no arithmetic with the decision, so that it can catch its mistakes: plain integers over the hosts and
VMs of the snapshot. A plan with a violation is not carried out.
"""

from __future__ import annotations

from collections.abc import Callable

from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.plan import ActionKind, Plan
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
from one_preempt.core.verify.recount import Recount, Rule, Violation

__all__ = ["Violation", "verify"]

_DEPLOY = ActionKind.DEPLOY

# What a plan has to have for rules to be about it; most plans change nothing, or start VMs and do nothing else.
_RULES: tuple[tuple[Callable[[Plan], object], tuple[Rule, ...]], ...] = (
    (
        lambda plan: plan.actions,
        (
            *action_rules.RULES,
            *capacity_rules.RULES,
            *suited_host_rules.RULES,
            *vm_group_rules.RULES,
            *numa_rules.RULES,
        ),
    ),
    (lambda plan: plan.preemptions or [one for one in plan.actions if one.kind is not _DEPLOY], departure_rules.RULES),
    (lambda plan: plan.preemptions, (*memory_image_rules.RULES, *suited_host_rules.RULES_OF_PREEMPTIONS)),
    (lambda plan: plan.bookings, suited_host_rules.RULES_OF_PROMISES),
    (lambda plan: plan.actions, promise_rules.RULES_OF_STARTS),
    (lambda plan: plan.bookings or plan.verdicts, promise_rules.RULES),
    (
        lambda plan: plan.actions or plan.bookings or plan.preemptions,
        (*room_over_time.RULES, *devices_over_time.RULES, *groups_over_time.RULES),
    ),
    (lambda plan: plan.power_steps or plan.power_sequences, power_rules.RULES),
    (lambda plan: plan.verdicts, (*power_rules.RULES_OF_PROMISES, *image_rules.RULES_OF_PROMISES)),
    (lambda plan: plan.image_orders, image_rules.RULES),
)


def verify(
    state: ClusterState, plan: Plan, books: Books | None = None, *, overruns_give_way: bool = False
) -> tuple[Violation, ...]:
    """All rules that `plan` breaks in `state`; empty for a sound plan. `books` are those of `state`, if kept.

    `overruns_give_way`: by the configuration what outlives its DURATION leaves for others, whatever its type.
    """
    rules = [rule for concerns, among in _RULES if concerns(plan) for rule in among]
    if not rules:
        return ()
    books = books if books is not None else Books(state)
    recount = Recount(state, plan, books, overruns_give_way=overruns_give_way)
    return tuple(violation for rule in rules for violation in rule(recount))
