"""What experiments chose stands in the document of their paper, word for word."""

from __future__ import annotations

from pathlib import Path

import pytest

from one_preempt.simulation.experiments.registry import experiments
from one_preempt.simulation.experiments.replicated import ReplicatedExperiment

DOCUMENTS = Path(__file__).parents[2] / "docs" / "researcher" / "experiments"
OVERVIEW = (DOCUMENTS / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", list(experiments()))
def test_every_experiment_and_every_choice_is_in_the_document(name: str) -> None:
    found = experiments()[name]
    paper, _, _ = name.partition("-")
    document = (DOCUMENTS / f"{paper}.md").read_text(encoding="utf-8")
    assert f"| `{name}` |" in OVERVIEW
    assert f"({paper}.md)" in OVERVIEW
    if isinstance(found, ReplicatedExperiment):
        assert f"| `{name}` | {len(found.tasks(False))} |" in OVERVIEW
        assert found.choices
        for question, answer in found.choices.items():
            assert f"| {question} | {answer} |" in document
