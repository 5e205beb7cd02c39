"""What is terminated can be told nothing afterwards: its message comes before that."""

from __future__ import annotations

from pathlib import Path

from one_preempt.core.model.plan import ActionKind
from tests import scenario_reader


def test_who_is_terminated_for_another_is_told_first() -> None:
    plan = scenario_reader.play(
        scenario_reader.load(Path(__file__).parent.parent / "scenarios" / "a_cancellable_lease_is_terminated.yaml")
    ).plan
    kinds = [(action.kind, action.vm_id) for action in plan.actions if action.vm_id == 1]
    assert kinds == [(ActionKind.MESSAGE, 1), (ActionKind.TERMINATE, 1)]
