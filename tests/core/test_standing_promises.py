"""A promise to the queue is written when it is made and when it changes, and not again."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from one_preempt.configuration.chosen_policies import admission_rules, policies
from one_preempt.core.decide import deliberate
from one_preempt.core.memory.decision_memory import DecisionMemory
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.plan import Plan
from one_preempt.core.model.reservation import Reservation, Verdict
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.reconcile import reconcile
from tests import scenario_reader

RUNNING: dict[str, Any] = {
    "user": "paul",
    "running_for_s": 1800,
    "lease": {"TYPE": "DC-NON-PREEMPTABLE", "DURATION_S": 3600},
}
WAITING: dict[str, Any] = {"user": "paul", "state": "HOLD", "lease": {"TYPE": "DC-NON-PREEMPTABLE", "DURATION_S": 600}}
# All alike: hosts are counted, and promises name none.
DOCUMENT: dict[str, Any] = {
    "settings": {
        "time": {"backfilling": "conservative"},
        "leases": {"rights": [{"name": "plain", "group": "plain", "may_claim": ["DC-MIGRATABLE"]}]},
    },
    "hosts": {0: {"cpu": 1}, 1: {"cpu": 1}},
    "vms": {1: {**RUNNING, "host": 0}, 2: {**RUNNING, "host": 1}, 3: WAITING, 4: WAITING, 5: WAITING},
}
POLICIES = policies(scenario_reader.settings_of(DOCUMENT))


def decided(state: ClusterState, reservations: dict[int, tuple[Reservation, ...]]) -> tuple[PlanDraft, Plan]:
    draft = deliberate(replace(state, reservations=reservations), POLICIES)
    return draft, draft.plan()


@pytest.fixture
def state() -> ClusterState:
    snapshot = scenario_reader.snapshot_of(DOCUMENT)
    ledger = scenario_reader.ledger_of(DOCUMENT, snapshot)
    rules = admission_rules(scenario_reader.settings_of(DOCUMENT))
    return reconcile(snapshot, ledger, rules, scenario_reader.NOW_S).state


@pytest.fixture
def promised(state: ClusterState) -> dict[int, tuple[Reservation, ...]]:
    draft, plan = decided(state, {})
    assert draft.timeline.alike is not None
    written = {booking.lease_id: booking.reservations for booking in plan.bookings}
    assert sorted(written) == [3, 4, 5]
    return written


def test_what_is_written_already_is_not_written_again(
    state: ClusterState, promised: dict[int, tuple[Reservation, ...]]
) -> None:
    draft, plan = decided(state, promised)
    assert plan.bookings == ()
    assert {lease_id for lease_id, stays in draft.timeline.stays.items() if stays[0].promise} == {3, 4, 5}


def test_a_promise_that_named_hosts_is_written_anew_without_them(
    state: ClusterState, promised: dict[int, tuple[Reservation, ...]]
) -> None:
    named = {**promised, 4: (replace(promised[4][0], host_ids=(0,)),)}
    _, plan = decided(state, named)
    assert {booking.lease_id: booking.reservations for booking in plan.bookings} == {4: promised[4]}


def test_what_has_no_promise_any_more_is_struck_out(
    state: ClusterState, promised: dict[int, tuple[Reservation, ...]]
) -> None:
    easy = replace(
        POLICIES, backfilling=policies(scenario_reader.settings_of({**DOCUMENT, "settings": {}})).backfilling
    )
    plan = deliberate(replace(state, reservations=promised), easy).plan()
    assert {booking.lease_id: booking.reservations for booking in plan.bookings} == {4: (), 5: ()}


def test_what_runs_is_promised_no_start_any_more(
    state: ClusterState, promised: dict[int, tuple[Reservation, ...]]
) -> None:
    """Lease 1 has started before its turn; what it was promised takes room from nobody, and is struck out."""
    late = Reservation(1, state.now_s + 7200, state.now_s + 9000, (), firm=False)
    draft, plan = decided(state, {**promised, 1: (late,)})
    assert draft.timeline.alike is not None
    assert [stay.promise for stay in draft.timeline.stays[1]] == [False]
    assert {booking.lease_id: booking.reservations for booking in plan.bookings} == {1: ()}


def test_what_runs_and_is_to_go_on_later_keeps_its_firm_reservation(
    state: ClusterState, promised: dict[int, tuple[Reservation, ...]]
) -> None:
    later = Reservation(1, state.now_s + 7200, state.now_s + 9000, (0,), firm=True)
    accepted = {**state.leases, 1: replace(state.leases[1], verdict=Verdict.ACCEPTED)}
    draft, plan = decided(replace(state, leases=accepted), {**promised, 1: (later,)})
    assert len(draft.timeline.stays[1]) == 2
    assert 1 not in {booking.lease_id for booking in plan.bookings}


def unlike(lease: dict[str, Any], **waiting: Any) -> ClusterState:
    """A lease that waits behind another one for part of a host: promises name hosts there."""
    document = {
        **DOCUMENT,
        "hosts": {0: {"cpu": 2}},
        "vms": {1: {**RUNNING, "host": 0, "cpu": 2}, 3: {**WAITING, "lease": {**WAITING["lease"], **lease}}},
        "ledger": {"leases": {3: waiting}},
    }
    snapshot = scenario_reader.snapshot_of(document)
    ledger = scenario_reader.ledger_of(document, snapshot)
    rules = admission_rules(scenario_reader.settings_of(document))
    state = reconcile(snapshot, ledger, rules, scenario_reader.NOW_S).state
    return state


def time_and_again(state: ClusterState) -> list[tuple[Reservation, ...]]:
    """What is reserved for lease 3 after each of some decisions that start from the one before."""
    reserved, memory = [], DecisionMemory()
    for cycle in range(4):
        plan = deliberate(replace(state, now_s=state.now_s + 15 * cycle), POLICIES, memory).plan()
        written = {booking.lease_id: booking.reservations for booking in plan.bookings}
        state = replace(state, reservations={**state.reservations, **written})
        reserved.append(state.reservations.get(3, ()))
    return reserved


def test_what_nobody_may_preempt_is_promised_no_firm_start_by_the_queue() -> None:
    promises = time_and_again(unlike({"MAX_SUSPENSIONS": 0}))
    assert [one.firm for one in promises[0]] == [False]
    assert promises == time_and_again(unlike({}))


def test_what_may_not_be_moved_again_is_promised_no_firm_start_by_the_queue() -> None:
    lease = {"TYPE": "DC-MIGRATABLE", "MAX_SUSPENSIONS": 1}
    assert [one.firm for one in time_and_again(unlike(lease, preemptions=1))[-1]] == [False]


def test_what_its_owner_has_dropped_is_the_queues_to_promise() -> None:
    """The very slot that the queue promises to lease 3 is reserved firmly for it still, and it asks for no time now."""
    state = unlike({})
    promised = time_and_again(state)
    dropped = replace(state, reservations={3: (replace(promised[0][0], firm=True),)})
    assert time_and_again(dropped) == promised


@pytest.mark.parametrize("cpu", [1, 2], ids=["counted", "named"])
def test_what_a_lock_takes_out_of_the_queue_keeps_no_room(cpu: int) -> None:
    """Nobody asks the backfilling policy about it any more: its promise stood in the way of others without end."""
    waiting = {3: WAITING, 4: {**WAITING, "cpu": cpu}}
    document = {**DOCUMENT, "hosts": {0: {"cpu": cpu}}, "vms": {1: {**RUNNING, "host": 0, "cpu": cpu}, **waiting}}
    locked = {**document, "vms": {**document["vms"], 3: {**WAITING, "lock": "USE"}}}
    rules, memory = admission_rules(scenario_reader.settings_of(document)), DecisionMemory()
    reservations: dict[int, tuple[Reservation, ...]] = {}
    starts = []
    for given in (document, locked, locked):
        snapshot = scenario_reader.snapshot_of(given)
        ledger = scenario_reader.ledger_of(given, snapshot)
        state = reconcile(snapshot, ledger, rules, scenario_reader.NOW_S).state
        draft = deliberate(replace(state, reservations=reservations), POLICIES, memory)
        assert (draft.timeline.alike is not None) == (cpu == 1)
        reservations = reservations | {one.lease_id: one.reservations for one in draft.plan().bookings}
        starts.append([one.start_at_s for one in reservations[4]])
    assert reservations[3] == ()
    assert starts[0] > starts[2]
