"""What every lease store promises, over the database and over memory."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore
from one_preempt.core.model.host import HostCapacity
from one_preempt.core.model.lease import LeaseTerms, LeaseType, PreemptionMethod
from one_preempt.core.model.ledger import ActionRecord, LeaseRecord, Ledger, LedgerChanges, OpenPreemption, Transition
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import (
    Action,
    ActionKind,
    CandidateSet,
    Placement,
    Plan,
    Preemption,
    PreemptionEnd,
    Reason,
    Victim,
)
from one_preempt.ports import CallResult, LeaseStore

AnyStore = SqlLeaseStore | MemoryLeaseStore
NOW_S = 1_800_000_000
HOUR_S = 3600

TERMS = LeaseTerms(
    type=LeaseType.BE_SUSPENDABLE,
    name="sweep-42",
    size=2,
    duration_s=7200,
    start_at_s=NOW_S + 60,
    start_offset_s=30,
    deadline_at_s=NOW_S + 90_000,
    max_suspensions=2,
    shutdown_ok=True,
)
LEASE = LeaseRecord(
    id=7,
    terms=TERMS,
    uid=5,
    gid=100,
    vm_ids=(7, 9),
    explicit=True,
    may_preempt=True,
    admitted_at_s=NOW_S,
    arrived_at_s=NOW_S - 10,
    rule="batch",
    paused_vm_ids=(9,),
)
STOP = Action(
    id="p1/stop/7",
    kind=ActionKind.STOP,
    vm_id=7,
    lease_id=7,
    reason=Reason("VICTIM", "makes room for lease 20"),
    preemption_id="p1",
)
DEPLOY = Action(
    id="p1/deploy/20",
    kind=ActionKind.DEPLOY,
    vm_id=20,
    lease_id=20,
    reason=Reason("PLACED", "fits on host 3"),
    host_id=3,
    datastore_id=100,
    after=(STOP.id,),
    preemption_id="p1",
)
PREEMPTION = Preemption(
    id="p1",
    preemptor_lease_id=20,
    victims=(Victim(7, 7, 3, PreemptionMethod.STOP), Victim(9, 7, 4, PreemptionMethod.MIGRATE, 5)),
    placements=(Placement(20, 3, 100, ((0, 8),)),),
    policy="moml",
    overhead_ms=27_800,
    optimal=True,
    bound_ms=27_800,
    decided_at_s=NOW_S,
    considered=(CandidateSet((7,), 27_800, 2),),
    candidate_count=1,
    median_overhead_ms=27_800,
)
PLAN = Plan(made_at_s=NOW_S, policy="moml", actions=(STOP, DEPLOY), preemptions=(PREEMPTION,))
ACCEPTED = CallResult(Outcome.ACCEPTED)


def closed(record: ActionRecord, at_s: int, succeeded: bool) -> LedgerChanges:
    return LedgerChanges(closed_actions=(replace(record, closed_at_s=at_s, succeeded=succeeded),))


def action_of(store: LeaseStore, action_id: str) -> ActionRecord:
    (record,) = [record for record in store.actions() if record.id == action_id]
    return record


def test_a_new_store_knows_nothing(store: AnyStore) -> None:
    assert store.load(NOW_S) == Ledger()


def test_an_admitted_lease_comes_back_as_it_was(store: AnyStore) -> None:
    store.apply(LedgerChanges(admitted=(LEASE,)))
    assert store.load(NOW_S).leases == {7: LEASE}


def test_a_lease_with_default_terms_comes_back_as_it_was(store: AnyStore) -> None:
    plain = replace(LEASE, terms=LeaseTerms(), vm_ids=(7,), shielded_by_lock=False, preempted_by=3)
    store.apply(LedgerChanges(admitted=(plain,)))
    assert store.load(NOW_S).leases == {7: plain}


def test_an_updated_lease_replaces_counters_and_members(store: AnyStore) -> None:
    updated = replace(LEASE, preemptions=1, preempted_by=20, last_preempted_at_s=NOW_S, vm_ids=(9,))
    store.apply(LedgerChanges(admitted=(LEASE,)))
    store.apply(LedgerChanges(updated=(updated,)))
    assert store.load(NOW_S).leases == {7: updated}


def test_an_ended_lease_is_listed_only_on_request(store: AnyStore) -> None:
    ended = replace(LEASE, ended_at_s=NOW_S)
    store.apply(LedgerChanges(admitted=(LEASE,)))
    store.apply(LedgerChanges(updated=(ended,)))
    assert store.load(NOW_S).leases == {}
    assert store.leases() == ()
    assert store.leases(include_ended=True) == (ended,)


def test_leases_are_listed_by_arrival_and_then_id(store: AnyStore) -> None:
    early, late = replace(LEASE, id=30, arrived_at_s=1), replace(LEASE, id=8, arrived_at_s=2)
    tied = replace(LEASE, id=2, arrived_at_s=2)
    store.apply(LedgerChanges(admitted=(late, early, tied)))
    assert [record.id for record in store.leases()] == [30, 2, 8]


def test_a_plan_opens_its_actions_and_preemptions(store: AnyStore) -> None:
    store.record_plan(PLAN)
    ledger = store.load(NOW_S)
    assert list(ledger.open_actions) == [DEPLOY.id, STOP.id]
    assert ledger.open_actions[DEPLOY.id] == ActionRecord(
        id=DEPLOY.id,
        kind=ActionKind.DEPLOY,
        vm_id=20,
        lease_id=20,
        preemption_id="p1",
        host_id=3,
        datastore_id=100,
        reason_code="PLACED",
        reason_text="fits on host 3",
        intended_at_s=NOW_S,
    )
    assert ledger.preemptions == (OpenPreemption(PREEMPTION, NOW_S),)


def test_ids_are_ordered_by_their_characters_and_not_by_a_language(store: AnyStore) -> None:
    ids = ["A", "B/1", "B10", "B9", "_", "a", "b-2", "ä"]
    store.record_plan(
        Plan(
            made_at_s=NOW_S,
            policy="moml",
            actions=tuple(replace(STOP, id=action_id) for action_id in reversed(ids)),
            preemptions=tuple(replace(PREEMPTION, id=preemption_id) for preemption_id in reversed(ids)),
        )
    )
    assert list(store.load(NOW_S).open_actions) == ids
    assert [opened.preemption.id for opened in store.load(NOW_S).preemptions] == ids
    assert [record.id for record in store.actions(limit=3)] == ["ä", "b-2", "a"]
    for record in store.actions():
        store.apply(closed(record, NOW_S, succeeded=False))
    assert [record.id for record in store.load(NOW_S).failed_actions] == ids


def test_a_repeated_plan_changes_no_open_action_and_no_open_preemption(store: AnyStore) -> None:
    store.record_plan(PLAN)
    store.begin_attempt(STOP, NOW_S + 1)
    before = store.load(NOW_S + 1)
    store.record_plan(replace(PLAN, made_at_s=NOW_S + 30))
    assert store.load(NOW_S + 1) == before


def test_an_open_preemption_takes_over_what_a_later_plan_changed(store: AnyStore) -> None:
    changed = replace(PREEMPTION, victims=PREEMPTION.victims[:1])
    store.record_plan(PLAN)
    store.record_plan(replace(PLAN, made_at_s=NOW_S + 30, preemptions=(changed,)))
    assert store.load(NOW_S).preemptions == (OpenPreemption(changed, NOW_S),)


def test_a_closed_action_that_is_wanted_again_reopens_with_its_attempts(store: AnyStore) -> None:
    store.record_plan(PLAN)
    store.begin_attempt(STOP, NOW_S)
    store.record_result(STOP.id, ACCEPTED, NOW_S)
    store.apply(closed(action_of(store, STOP.id), NOW_S + 5, succeeded=False))
    again = replace(STOP, reason=Reason("VICTIM", "tried once more"))
    store.record_plan(replace(PLAN, made_at_s=NOW_S + 60, actions=(again,)))
    record = store.load(NOW_S + 60).open_actions[STOP.id]
    assert (record.attempts, record.outcome, record.succeeded) == (1, None, None)
    assert (record.intended_at_s, record.reason_text) == (NOW_S + 60, "tried once more")


@pytest.mark.parametrize(
    ("succeeded", "again_s", "attempts"), [(False, HOUR_S, 1), (False, HOUR_S + 1, 0), (True, 60, 0)]
)
def test_attempts_count_no_more_once_the_step_has_succeeded_or_an_hour_is_over(
    store: AnyStore, succeeded: bool, again_s: int, attempts: int
) -> None:
    store.record_plan(PLAN)
    store.begin_attempt(STOP, NOW_S)
    store.record_result(STOP.id, ACCEPTED, NOW_S)
    store.apply(closed(action_of(store, STOP.id), NOW_S, succeeded))
    store.record_plan(replace(PLAN, made_at_s=NOW_S + again_s))
    assert store.load(NOW_S + again_s).open_actions[STOP.id].attempts == attempts


def test_each_time_of_a_step_is_told_and_only_the_latest_counts(store: AnyStore) -> None:
    back = replace(DEPLOY, id="return/20/1", after=(), preemption_id=None)
    for hour, succeeded in enumerate((True, False, True)):
        at_s = NOW_S + hour * 2 * HOUR_S
        step = replace(back, host_id=hour, reason=Reason("return", f"time {hour}"))
        store.record_plan(Plan(at_s, "moml", (step,)))
        store.begin_attempt(step, at_s + 1)
        store.record_result(step.id, ACCEPTED, at_s + 2)
        store.apply(closed(store.load(at_s).open_actions[step.id], at_s + 60, succeeded))
    told = [(record.host_id, record.reason_text, record.outcome_at_s, record.succeeded) for record in store.actions(20)]
    assert told == [
        (2, "time 2", NOW_S + 4 * HOUR_S + 2, True),
        (1, "time 1", NOW_S + 2 * HOUR_S + 2, False),
        (0, "time 0", NOW_S + 2, True),
    ]
    assert [record.host_id for record in store.actions(limit=2)] == [2, 1]
    assert store.actions(lease_id=7) == ()
    # What failed before counts no more: the step has succeeded since.
    assert store.load(NOW_S + 4 * HOUR_S + 60).failed_actions == ()
    assert store.prune(NOW_S + 3 * HOUR_S)
    assert [record.host_id for record in store.actions()] == [2]


def test_what_was_never_asked_and_messages_are_no_times_of_their_own(store: AnyStore) -> None:
    message = replace(STOP, id="message/7", kind=ActionKind.MESSAGE, preemption_id=None)
    for at_s in (NOW_S, NOW_S + 60):
        store.record_plan(Plan(at_s, "moml", (message, STOP)))
        store.begin_attempt(message, at_s)
        store.record_result(message.id, ACCEPTED, at_s)
        for record in store.load(at_s).open_actions.values():
            store.apply(closed(record, at_s + 1, succeeded=record.id == message.id))
    assert [record.intended_at_s for record in store.actions()] == [NOW_S + 60, NOW_S + 60]


def test_an_ended_preemption_is_not_open_any_more_and_may_open_again(store: AnyStore) -> None:
    end = PreemptionEnd("p1", fulfilled=True, reason=Reason("FULFILLED", "lease 20 runs"))
    store.record_plan(PLAN)
    store.record_plan(Plan(made_at_s=NOW_S + 60, policy="moml", ended_preemptions=(end,)))
    assert store.load(NOW_S).preemptions == ()
    store.record_plan(replace(PLAN, made_at_s=NOW_S + 90))
    assert store.load(NOW_S).preemptions == (OpenPreemption(PREEMPTION, NOW_S + 90),)


def test_open_preemptions_come_oldest_first(store: AnyStore) -> None:
    second = replace(PREEMPTION, id="p0")
    store.record_plan(PLAN)
    store.record_plan(Plan(made_at_s=NOW_S + 1, policy="moml", preemptions=(second,)))
    assert [opened.preemption.id for opened in store.load(NOW_S).preemptions] == ["p1", "p0"]


def test_advice_opens_nothing(store: AnyStore) -> None:
    advice = Plan(made_at_s=NOW_S, policy="moml", advised=(PREEMPTION,), advised_actions=(STOP, DEPLOY))
    store.record_plan(advice)
    store.record_plan(advice)
    assert store.load(NOW_S) == Ledger()
    assert store.actions() == ()


def test_advice_may_be_acted_on_later(store: AnyStore) -> None:
    store.record_plan(Plan(made_at_s=NOW_S, policy="moml", advised=(PREEMPTION,)))
    store.record_plan(replace(PLAN, made_at_s=NOW_S + 60))
    assert store.load(NOW_S).preemptions == (OpenPreemption(PREEMPTION, NOW_S + 60),)


def test_an_attempt_is_counted_and_clears_the_last_answer(store: AnyStore) -> None:
    store.record_plan(PLAN)
    store.begin_attempt(STOP, NOW_S)
    store.record_result(STOP.id, CallResult(Outcome.REFUSED, "ACTION", "wrong state"), NOW_S + 1)
    refused = action_of(store, STOP.id)
    assert (refused.outcome, refused.outcome_at_s) == (Outcome.REFUSED, NOW_S + 1)
    assert (refused.error_code, refused.error_text) == ("ACTION", "wrong state")
    store.begin_attempt(STOP, NOW_S + 2)
    record = action_of(store, STOP.id)
    assert (record.attempts, record.outcome, record.outcome_at_s, record.error_code) == (2, None, None, "")


def test_an_action_that_no_plan_recorded_cannot_be_issued(store: AnyStore) -> None:
    with pytest.raises(LookupError, match="never recorded"):
        store.begin_attempt(STOP, NOW_S)
    with pytest.raises(LookupError, match="never recorded"):
        store.record_result(STOP.id, ACCEPTED, NOW_S)


def test_failed_actions_are_remembered_for_an_hour_newest_last(store: AnyStore) -> None:
    store.record_plan(PLAN)
    store.apply(closed(action_of(store, STOP.id), NOW_S + 5, succeeded=False))
    store.apply(closed(action_of(store, DEPLOY.id), NOW_S + 3, succeeded=False))
    failed = store.load(NOW_S + 5).failed_actions
    assert [record.id for record in failed] == [DEPLOY.id, STOP.id]
    assert store.load(NOW_S + 5).open_actions == {}
    assert [r.id for r in store.load(NOW_S + 4 + HOUR_S).failed_actions] == [STOP.id]


def test_an_action_that_succeeded_is_neither_open_nor_failed(store: AnyStore) -> None:
    store.record_plan(PLAN)
    store.apply(closed(action_of(store, STOP.id), NOW_S + 5, succeeded=True))
    ledger = store.load(NOW_S + 5)
    assert list(ledger.open_actions) == [DEPLOY.id]
    assert ledger.failed_actions == ()


def test_an_action_that_no_plan_recorded_is_not_closed_either(store: AnyStore) -> None:
    stray = ActionRecord("stray", ActionKind.STOP, 7, 7, None, 3, None, "VICTIM", "", NOW_S)
    store.apply(closed(stray, NOW_S, succeeded=False))
    assert store.load(NOW_S) == Ledger()
    assert store.actions() == ()


def test_closing_an_action_keeps_its_intent_and_its_attempts(store: AnyStore) -> None:
    store.record_plan(PLAN)
    store.begin_attempt(STOP, NOW_S)
    stale = replace(action_of(store, STOP.id), attempts=0, reason_text="of another plan", outcome=Outcome.UNKNOWN)
    store.apply(closed(stale, NOW_S + 5, succeeded=True))
    record = action_of(store, STOP.id)
    assert (record.attempts, record.reason_text) == (1, STOP.reason.text)
    assert (record.outcome, record.closed_at_s, record.succeeded) == (Outcome.UNKNOWN, NOW_S + 5, True)


def test_only_victims_that_oned_accepted_count_for_the_hour(store: AnyStore) -> None:
    other = replace(STOP, id="p1/stop/9", vm_id=9)
    store.record_plan(replace(PLAN, actions=(STOP, DEPLOY, other)))
    for at_s, action, outcome in (
        (NOW_S + 1, STOP, Outcome.ACCEPTED),
        (NOW_S + 2, DEPLOY, Outcome.ACCEPTED),
        (NOW_S + 3, other, Outcome.REFUSED),
        (NOW_S + 4, other, Outcome.ACCEPTED),
    ):
        store.begin_attempt(action, at_s)
        store.record_result(action.id, CallResult(outcome), at_s)
    assert store.load(NOW_S + 4).victims_last_hour == (NOW_S + 1, NOW_S + 4)
    assert store.load(NOW_S + 2 + HOUR_S).victims_last_hour == (NOW_S + 4,)


def test_a_victim_stays_counted_when_its_action_is_opened_again(store: AnyStore) -> None:
    store.record_plan(PLAN)
    store.begin_attempt(STOP, NOW_S)
    store.record_result(STOP.id, ACCEPTED, NOW_S)
    store.apply(closed(action_of(store, STOP.id), NOW_S, succeeded=True))
    store.record_plan(replace(PLAN, made_at_s=NOW_S + 1))
    assert store.load(NOW_S + 1).victims_last_hour == (NOW_S,)


def test_transitions_are_logged_and_the_last_state_of_members_is_known(store: AnyStore) -> None:
    first = Transition(7, 7, NOW_S, "RUNNING", "SAVE_STOP", 3, 1024)
    second = Transition(7, 7, NOW_S + 9, "SAVE_STOP", "STOPPED", None, 1024)
    stranger = Transition(99, 99, NOW_S + 9, "PENDING", "RUNNING", 1, 512)
    store.apply(LedgerChanges(admitted=(LEASE,), transitions=(first, second, stranger)))
    assert store.load(NOW_S).vm_states == {7: "STOPPED"}
    assert store.transitions() == (stranger, second, first)
    assert store.transitions(vm_id=7, limit=1) == (second,)


def test_the_last_capacity_of_a_host_is_kept(store: AnyStore) -> None:
    old, new = HostCapacity(3, NOW_S, 800, 1 << 24, 800, 1 << 24), HostCapacity(3, NOW_S + 1, 700, 1, 800, 1)
    store.apply(LedgerChanges(host_capacities=(old,)))
    store.apply(LedgerChanges(host_capacities=(new,)))
    assert store.load(NOW_S).host_capacities == {3: new}


def test_the_capacity_of_a_host_that_was_deleted_is_pruned_and_no_other(store: AnyStore) -> None:
    asleep, deleted = (HostCapacity(host_id, NOW_S, 800, 1 << 24, 800, 1 << 24) for host_id in (3, 4))
    store.apply(LedgerChanges(host_capacities=(asleep, deleted)))
    store.prune(NOW_S + 1)
    assert store.load(NOW_S).host_capacities == {3: asleep, 4: deleted}
    store.prune(NOW_S - 1, {3, 5})
    assert store.load(NOW_S).host_capacities == {3: asleep}


def test_pause_stays_until_it_is_taken_back(store: AnyStore) -> None:
    store.set_paused(True, NOW_S)
    store.set_paused(True, NOW_S + 1)
    assert store.load(NOW_S).paused
    assert store.is_paused()
    store.set_paused(False, NOW_S + 2)
    assert not store.load(NOW_S).paused
    assert not store.is_paused()


def test_the_log_of_actions_is_newest_first_and_can_be_narrowed(store: AnyStore) -> None:
    later = replace(STOP, id="later")
    store.record_plan(PLAN)
    store.record_plan(replace(PLAN, made_at_s=NOW_S + 60, actions=(later,)))
    assert [record.id for record in store.actions()] == ["later", STOP.id, DEPLOY.id]
    assert [record.id for record in store.actions(lease_id=20)] == [DEPLOY.id]
    assert [record.id for record in store.actions(limit=1)] == ["later"]


def test_a_lease_is_found_by_its_id_or_else_by_a_vm_of_it_the_latest_first(store: AnyStore) -> None:
    gang = replace(LEASE, id=7, vm_ids=(9, 7, 8), arrived_at_s=NOW_S)
    before = replace(LEASE, id=5, vm_ids=(5, 8), arrived_at_s=NOW_S - 60, ended_at_s=NOW_S)
    other = replace(LEASE, id=8, vm_ids=(30,), arrived_at_s=NOW_S - 90)
    store.apply(LedgerChanges(admitted=(gang, before, other)))
    assert [store.find_lease(named) for named in (7, 5, 8, 9, 30)] == [gang, before, other, gang, other]
    assert store.find_lease(31) is None
    store.apply(LedgerChanges(updated=(replace(other, vm_ids=(30, 5)), replace(before, id=4, vm_ids=(9,)))))
    assert [store.find_lease(named) for named in (5, 9)] == [before, gang]


def test_pruning_forgets_what_is_over_and_nothing_else(store: AnyStore) -> None:
    over = replace(LEASE, id=1, vm_ids=(1,), ended_at_s=NOW_S)
    old_move = Transition(7, 7, NOW_S, "PENDING", "RUNNING", 3, 1024)
    new_move = Transition(7, 7, NOW_S + 200, "RUNNING", "STOPPED", None, 1024)
    store.apply(LedgerChanges(admitted=(LEASE, over), transitions=(old_move, new_move)))
    store.record_plan(PLAN)
    store.begin_attempt(STOP, NOW_S)
    store.record_result(STOP.id, ACCEPTED, NOW_S)
    store.apply(closed(action_of(store, STOP.id), NOW_S, succeeded=True))
    assert store.prune(NOW_S + 100)
    ledger = store.load(NOW_S + 100)
    assert store.leases(include_ended=True) == (LEASE,)
    assert list(ledger.open_actions) == [DEPLOY.id]
    assert [record.id for record in store.actions()] == [DEPLOY.id]
    assert store.transitions() == (new_move,)
    assert ledger.vm_states == {7: "STOPPED"}
    assert ledger.preemptions == (OpenPreemption(PREEMPTION, NOW_S),)
    assert ledger.victims_last_hour == ()


def test_pruning_keeps_the_states_of_vms_whose_leases_are_remembered(store: AnyStore) -> None:
    ended = replace(LEASE, vm_ids=(7,), ended_at_s=NOW_S + 200)
    moves = tuple(Transition(vm_id, 7, NOW_S, "RUNNING", "STOPPED", None, 1024) for vm_id in (7, 8))
    store.apply(LedgerChanges(admitted=(ended,), transitions=moves))
    store.prune(NOW_S + 100)
    store.apply(LedgerChanges(admitted=(replace(LEASE, id=30, vm_ids=(7, 8)),)))
    assert store.load(NOW_S + 200).vm_states == {7: "STOPPED"}


def test_a_memory_store_starts_where_a_ledger_stands(store: AnyStore) -> None:
    store.apply(LedgerChanges(admitted=(LEASE,), transitions=(Transition(7, 7, NOW_S, "PENDING", "RUNNING", 3, 1),)))
    store.record_plan(PLAN)
    store.begin_attempt(STOP, NOW_S)
    store.record_result(STOP.id, ACCEPTED, NOW_S)
    store.apply(closed(action_of(store, DEPLOY.id), NOW_S, succeeded=False))
    store.set_paused(True, NOW_S)
    ledger = store.load(NOW_S)
    assert ledger.failed_actions
    assert MemoryLeaseStore(ledger).load(NOW_S) == ledger
