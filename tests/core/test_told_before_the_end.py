"""What owners are told when their time is over: before they are terminated, and if nothing ends them."""

from __future__ import annotations

from pathlib import Path

from one_preempt.core.model.plan import ActionKind
from tests import scenario_reader

SCENARIOS = Path(__file__).parent.parent / "scenarios"


def test_who_is_terminated_for_another_is_told_first() -> None:
    plan = scenario_reader.play(scenario_reader.load(SCENARIOS / "a_cancellable_lease_is_terminated.yaml")).plan
    kinds = [(action.kind, action.vm_id) for action in plan.actions if action.vm_id == 1]
    assert kinds == [(ActionKind.MESSAGE, 1), (ActionKind.TERMINATE, 1)]


def test_who_runs_on_after_his_duration_is_told_that_it_is_over() -> None:
    plan = scenario_reader.play(scenario_reader.load(SCENARIOS / "overrun_keep_lets_a_lease_run_on.yaml")).plan
    told = {action.vm_id: dict(action.attributes) for action in plan.actions if action.kind is ActionKind.MESSAGE}
    assert told[1]["LEASE_STATUS"] == "running, though its DURATION is over (DC-NON-PREEMPTABLE)"


def test_who_is_late_and_locked_is_told_of_both() -> None:
    played = scenario_reader.load(SCENARIOS / "a_deadline_in_danger_is_told_of_a_lock_as_well.yaml")
    (wait,) = scenario_reader.play(played).plan.refusals
    assert wait.reason.text.endswith("no room in time, and VM 1 is locked: it starts when it is unlocked")
