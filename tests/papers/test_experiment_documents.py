"""What experiments chose stands in their document, word for word."""

from __future__ import annotations

from pathlib import Path

import pytest

from one_preempt.simulation.experiments.registry import experiments
from one_preempt.simulation.experiments.replicated import ReplicatedExperiment

DOCUMENT = (Path(__file__).parents[2] / "docs" / "researcher" / "experiments.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", list(experiments()))
def test_every_experiment_and_every_choice_is_in_the_document(name: str) -> None:
    found = experiments()[name]
    assert f"| `{name}` |" in DOCUMENT
    if isinstance(found, ReplicatedExperiment):
        assert f"| `{name}` | {len(found.tasks(False))} |" in DOCUMENT
        assert found.choices
        for question, answer in found.choices.items():
            assert f"| {question} | {answer} |" in DOCUMENT
