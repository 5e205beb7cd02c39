"""Every file of tests/scenarios: a cluster, a configuration, and what one cycle must decide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from one_preempt.core.model.plan import ActionKind, Plan
from tests import scenario_reader

SCENARIOS = sorted((Path(__file__).parent.parent / "scenarios").glob("*.yaml"))


@pytest.mark.parametrize("path", SCENARIOS, ids=[path.stem for path in SCENARIOS])
def test_a_scenario_is_decided_as_its_file_says(path: Path) -> None:
    document = scenario_reader.load(path)
    decided = scenario_reader.play(document)
    expected: dict[str, Any] = document["expect"]
    assert scenario_reader.sentences(decided.plan) == expected.get("actions", [])
    assert [violation.text for violation in decided.violations] == []
    refusals = {refusal.lease_id: refusal.reason.code for refusal in decided.plan.refusals}
    assert refusals == expected.get("refusals", {})
    verdicts = {given.lease_id: f"{given.verdict}: {given.text}" for given in decided.plan.verdicts}
    assert verdicts.keys() == expected.get("verdicts", {}).keys(), verdicts
    for lease_id, words in expected.get("verdicts", {}).items():
        assert words in verdicts[lease_id], verdicts
    if "bookings" in expected:
        assert scenario_reader.bookings(decided.plan) == expected["bookings"]
    if "wake_in_s" in expected:
        assert decided.plan.wake_at_s == scenario_reader.NOW_S + expected["wake_in_s"]
    if "victims" in expected:
        chosen = [list(preemption.victim_lease_ids) for preemption in decided.plan.preemptions]
        assert chosen == expected["victims"]
    advised = {
        "advised": [list(preemption.victim_lease_ids) for preemption in decided.plan.advised],
        "advised_actions": scenario_reader.advised_sentences(decided.plan),
        "image_orders": scenario_reader.image_orders(decided.plan),
    }
    assert {key: advised[key] for key in advised.keys() & expected.keys()} == {
        key: expected[key] for key in advised.keys() & expected.keys()
    }
    if "preemptions" in expected:
        assert [preemption.id for preemption in decided.plan.preemptions] == expected["preemptions"]
    ends_as_expected(decided.plan, expected)
    if "states" in expected:
        states = {lease_id: decided.state.leases[lease_id].state.value for lease_id in expected["states"]}
        assert states == expected["states"]
    placed = {action.vm_id: action for action in decided.plan.actions if action.kind in scenario_reader.PLACING}
    if "datastores" in expected:
        assert {vm_id: placed[vm_id].datastore_id for vm_id in expected["datastores"]} == expected["datastores"]
    if "networks" in expected:
        assert {vm_id: dict(placed[vm_id].nics) for vm_id in expected["networks"]} == expected["networks"]
    if "migrations" in expected:
        types = {vm_id: placed[vm_id].migration_type.name for vm_id in expected["migrations"]}
        assert types == expected["migrations"]
    for vm_id, words in expected.get("told", {}).items():
        texts = [
            text
            for action in decided.plan.actions
            if action.kind is ActionKind.MESSAGE and action.vm_id == vm_id
            for _, text in action.attributes
        ]
        assert any(words in text for text in texts), texts


def ends_as_expected(plan: Plan, expected: dict[str, Any]) -> None:
    """Which preemptions are over, and why."""
    if "ended" in expected:
        assert {end.preemption_id: end.reason.code for end in plan.ended_preemptions} == expected["ended"]
    for preemption_id, words in expected.get("ended_because", {}).items():
        texts = [end.reason.text for end in plan.ended_preemptions if end.preemption_id == preemption_id]
        assert any(words in text for text in texts), texts
    fulfilled = [end.preemption_id for end in plan.ended_preemptions if end.fulfilled]
    assert fulfilled == expected.get("fulfilled", [])


def test_there_are_scenarios() -> None:
    assert len(SCENARIOS) > 20
