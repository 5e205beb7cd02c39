"""The decision: from what is known to what is to be done. The only way in; pure and deterministic."""

from __future__ import annotations

from one_preempt.core.memory.decision_memory import DecisionMemory
from one_preempt.core.memory.lease_concerns import Concern
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.plan import Plan
from one_preempt.core.phases.answer_at_once import answer_at_once
from one_preempt.core.phases.book_reservations import book_reservations
from one_preempt.core.phases.continue_preemptions import continue_preemptions
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.empty_hosts import empty_hosts
from one_preempt.core.phases.end_stays import end_stays
from one_preempt.core.phases.hold_leases import hold_leases
from one_preempt.core.phases.keep_reservations import keep_reservations
from one_preempt.core.phases.let_sleep import let_sleep
from one_preempt.core.phases.mend_reservations import mend_reservations
from one_preempt.core.phases.place_waiting import place_waiting
from one_preempt.core.phases.plan_preparations import plan_preparations
from one_preempt.core.phases.preempt_for_waiting import preempt_for_waiting
from one_preempt.core.phases.repair_gangs import repair_gangs
from one_preempt.core.phases.reservations.half_started_gangs import keep_hosts_of_half_started_gangs
from one_preempt.core.phases.return_in_place import return_in_place
from one_preempt.core.phases.stage_images import stage_images
from one_preempt.core.phases.supply_reservations import supply_reservations
from one_preempt.core.phases.supply_waiting import supply_waiting
from one_preempt.core.phases.tell_owners import tell_owners
from one_preempt.core.policies import Policies


def decide(state: ClusterState, policies: Policies, memory: DecisionMemory | None = None) -> Plan:
    """The plan for `state` under `policies`, at the instant `state.now_s`.

    `memory` is what the last decision left, and is changed by this one; without it the same plan is made, more slowly.
    """
    return deliberate(state, policies, memory).plan()


def deliberate(state: ClusterState, policies: Policies, memory: DecisionMemory | None = None) -> PlanDraft:
    """The draft of the plan, for tests that look at more than a plan says: the room that is left, why each waits."""
    draft = PlanDraft.begin(state, policies, memory or DecisionMemory())
    # Members of a gang that are still to start keep their hosts, whatever else is decided.
    keep_hosts_of_half_started_gangs(draft)
    # What was begun goes on first: it has its room already, and its leases take part in nothing new. Whatever leaves,
    # moves or stops here gives room, or is owed some, before any new request is looked at.
    continue_preemptions(draft)
    empty_hosts(draft)
    return_in_place(draft)
    repair_gangs(draft)
    end_stays(draft)
    # Reservations come before the queue, which may only have what is not promised. Old promises come before new ones:
    # first which sleeping hosts they may count on, then which promised hosts are lost, then when others must leave. New
    # ones get what these leave. Last, those that are due start, or have others leave for them.
    supply_reservations(draft)
    # These phases are only about leases that ask for a time, or were promised one: many clouds have none.
    asks_for_time = bool(draft.concerns.all(Concern.TIME))
    if asks_for_time:
        mend_reservations(draft)
        plan_preparations(draft)
        book_reservations(draft)
        keep_reservations(draft)
    # The queue, by what costs others least: free room, then a host that is woken; victims leave only for requests that
    # neither helps.
    place_waiting(draft)
    supply_waiting(draft)
    preempt_for_waiting(draft)
    # The rest follows from all that was decided: an immediate lease is refused only if nothing above starts it or makes
    # room for it, what does not start is put on HOLD, hosts that nobody needs go to sleep, images come to where leases
    # will start, and owners are told.
    if asks_for_time:
        answer_at_once(draft)
    hold_leases(draft)
    let_sleep(draft)
    if policies.images is not None:
        stage_images(draft)
    if policies.tells_owners:
        tell_owners(draft)
    draft.remember()
    return draft
