"""A VM that exists and cannot be read for one cycle: nothing is concluded, nothing about its lease is done."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from one_preempt.configuration.chosen_policies import admission_rules, policies
from one_preempt.core.decide import decide
from one_preempt.core.model.plan import ActionKind, Plan
from one_preempt.core.model.reservation import Booking
from one_preempt.core.reconcile import Reconciliation, reconcile
from one_preempt.core.verify import verify
from tests import scenario_reader

SCENARIOS = Path(__file__).parent.parent / "scenarios"


def _played_without(scenario: str, vm_id: int) -> tuple[Reconciliation, Plan]:
    document = scenario_reader.load(SCENARIOS / f"{scenario}.yaml")
    settings = scenario_reader.settings_of(document)
    whole = scenario_reader.snapshot_of(document)
    ledger = scenario_reader.ledger_of(document, whole)
    seen = replace(
        whole,
        vms={other_id: vm for other_id, vm in whole.vms.items() if other_id != vm_id},
        unreadable_vm_ids=frozenset({vm_id}),
    )
    reconciled = reconcile(seen, ledger, admission_rules(settings), scenario_reader.NOW_S)
    plan = decide(reconciled.state, policies(settings))
    assert verify(reconciled.state, plan) == ()
    return reconciled, plan


def test_a_preempted_lease_does_not_end_because_its_vm_cannot_be_read() -> None:
    reconciled, plan = _played_without("a_preempted_lease_returns_when_there_is_room", 1)
    assert [record.id for record in reconciled.changes.updated if record.ended_at_s is not None] == []
    assert plan.actions == ()


@pytest.mark.parametrize("vm_id", [1, 2, 3])
def test_a_preemption_stands_still_while_one_of_its_vms_cannot_be_read(vm_id: int) -> None:
    reconciled, plan = _played_without("the_room_being_freed_is_kept_for_the_preemptor", vm_id)
    assert plan.ended_preemptions == ()
    assert reconciled.changes.closed_actions == ()
    assert not [action for action in plan.actions if action.kind in (ActionKind.STOP, ActionKind.DEPLOY)]


def test_what_cannot_be_read_has_not_ended() -> None:
    document = {"hosts": {0: {}}, "vms": {1: {"user": "eva", "host": 0}}}
    rules, now_s = admission_rules(scenario_reader.settings_of(document)), scenario_reader.NOW_S
    whole = scenario_reader.snapshot_of(document)
    known = replace(scenario_reader.ledger_of(document, whole), vm_states={1: "RUNNING"})
    for unreadable, logged in ((frozenset({1}), []), (frozenset[int](), ["DONE"])):
        seen = replace(whole, vms={}, unreadable_vm_ids=unreadable)
        assert [one.to_state for one in reconcile(seen, known, rules, now_s).changes.transitions] == logged


def test_a_gang_is_not_placed_while_a_member_cannot_be_read() -> None:
    _, plan = _played_without("a_gang_that_fits_starts", 2)
    assert not [action for action in plan.actions if action.kind is ActionKind.DEPLOY]


@pytest.mark.parametrize("is_unreadable", [True, False])
def test_what_a_plain_vm_was_promised_stays_while_it_cannot_be_read(is_unreadable: bool) -> None:
    document = scenario_reader.load(SCENARIOS / "what_a_plain_vm_was_promised_goes_with_it.yaml")
    whole = scenario_reader.snapshot_of(document)
    ledger, settings = scenario_reader.ledger_of(document, whole), scenario_reader.settings_of(document)
    seen = replace(whole, unreadable_vm_ids=frozenset({7} if is_unreadable else ()))
    state = reconcile(seen, ledger, admission_rules(settings), scenario_reader.NOW_S).state
    plan = decide(state, policies(settings))
    assert verify(state, plan) == ()
    assert [one.lease_id for one in plan.bookings] == ([] if is_unreadable else [7])
    dropped = verify(state, replace(plan, bookings=(Booking(7, ()),)))
    assert [one.code for one in dropped] == (["promise-dropped"] if is_unreadable else [])
