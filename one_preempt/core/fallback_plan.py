"""What is carried out in place of a plan that its recount refused (decision 0031)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from msgspec.structs import replace

from one_preempt.core.decide import decide
from one_preempt.core.energy.power_rules import PowerMode
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.modes_and_limits import Mode
from one_preempt.core.model.plan import Plan, Reason
from one_preempt.core.policies import Policies
from one_preempt.core.sound_subset import sound_subset
from one_preempt.core.verify import verify
from one_preempt.core.verify.books import Books

_CHECKED = Reason("checked", "does not fit; no room is made in this cycle, because a plan was refused by its own check")


def fallback_plan(state: ClusterState, policies: Policies) -> tuple[ClusterState, Plan] | None:
    """The plan to carry out in place of one that was refused, and the state it is for; None where none is sound.

    From scratch, for nothing shows whether the plan was wrong or what was remembered; and without those who are at
    fault again, who are left out and cost nobody else. If one of them takes part in a preemption, it is decided once
    more, and more cautiously, before that.
    """
    afresh, books = replace(state, changed_lease_ids=None), Books(state)
    found = None
    for cautious in _ever_more_cautious(policies):
        found = sound_subset(decide(afresh, cautious), partial(_is_sound, afresh, cautious, books)) or found
        if found is not None and not found.breaks_preemptions:
            break
    return None if found is None else (afresh, found.plan)


def _is_sound(state: ClusterState, policies: Policies, books: Books, plan: Plan) -> bool:
    return not verify(state, plan, books, policies.recount_rules)


def _ever_more_cautious(policies: Policies) -> Iterator[Policies]:
    """Whatever is wrong with a preemption, the others' VMs are placed, and no host is sent to sleep.

    Then no preemption is begun, for those under way may all be right: given up, their victims would return, and be
    sent out again. Then nobody is preempted at all.
    """
    cautious = replace(policies, power=replace(policies.power, mode=PowerMode.ADVISE))
    yield cautious
    yield replace(cautious, begins_none_for=_CHECKED)
    yield replace(cautious, mode=Mode.ADVISE)
