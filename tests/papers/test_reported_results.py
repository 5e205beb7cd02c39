"""The tables of the researcher's page say what the results that lie beside it say."""

from __future__ import annotations

from pathlib import Path

import pytest

from one_preempt.simulation.experiments.ccpe13_table1 import PUBLISHED, measure
from one_preempt.simulation.experiments.ccpe13_workloads import of_whole_replications
from one_preempt.simulation.experiments.registry import experiments
from one_preempt.simulation.experiments.replicated import ReplicatedExperiment, TaskResult
from one_preempt.simulation.experiments.state_folder import lent
from one_preempt.simulation.probes.statistics import TTest

RESEARCHER = Path(__file__).parents[2] / "docs" / "researcher"
# What was played, each in a folder by the name of its experiment.
REPORTED = sorted(path.parent.name for path in RESEARCHER.glob("results/*/results.jsonl"))
DOCUMENT = (RESEARCHER / "experiments.md").read_text(encoding="utf-8")
SWEEPS = {"best-effort": "best-effort", "deadline": "deadline-constraint", "local": "local"}
VERDICTS = {True: "holds", False: "does not hold", None: "not judged"}


def experiment(name: str) -> ReplicatedExperiment:
    found = experiments()[name]
    assert isinstance(found, ReplicatedExperiment)
    return found


def reported(name: str) -> list[TaskResult]:
    """Nothing where what is chosen now is not what was chosen then."""
    return list(lent(RESEARCHER / "results" / name, experiment(name), small=False).values())


def falls(test: TTest) -> str:
    fall = test.difference
    return f"{fall.mean:.1f} ({fall.low:.1f} to {fall.high:.1f}) | {test.p:.2g}"


@pytest.mark.parametrize("sweep", list(PUBLISHED) if "ccpe13-table1" in REPORTED else [])
def test_table_one_is_told_as_it_was_measured(sweep: str) -> None:
    table = of_whole_replications(reported("ccpe13-table1"), ("NOP", "MOML"))
    ours, published = measure(table, sweep), PUBLISHED[sweep]
    external = f"{ours.external.difference.mean:.2f} | {ours.external.p:.2g}"
    told = f"{published.fall} ({published.low} to {published.high})"
    assert f"| {SWEEPS[sweep]} | {falls(ours.per_cent)} | {falls(ours.points)} | {told} | {external} |" in DOCUMENT


def test_the_sweeps_are_told_as_they_were_measured() -> None:
    if "ccpe13-sweeps" in REPORTED:
        for row in experiment("ccpe13-sweeps").concluded(reported("ccpe13-sweeps")).rows:
            point, *figures = (str(cell) for cell in row.values())
            told = " | ".join(", ".join(figures[first : first + 3]) for first in (0, 3, 6))
            assert f"| {point} | {told} |" in DOCUMENT


@pytest.mark.parametrize("name", REPORTED)
def test_each_claim_has_the_verdict_that_the_results_give_it(name: str) -> None:
    claims = experiment(name).concluded(reported(name)).claims
    assert claims
    for claim in claims:
        assert f"| {claim.text} | {claim.ours} | {VERDICTS[claim.holds]} |" in DOCUMENT
