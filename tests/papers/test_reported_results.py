"""The tables of the researcher's page say what the results that lie beside it say."""

from __future__ import annotations

from pathlib import Path

import pytest

from one_preempt.simulation.experiments.ccpe13_table1 import PUBLISHED, measure
from one_preempt.simulation.experiments.ccpe13_workloads import of_whole_replications
from one_preempt.simulation.experiments.registry import experiments
from one_preempt.simulation.experiments.replicated import ReplicatedExperiment
from one_preempt.simulation.experiments.state_folder import lent
from one_preempt.simulation.probes.statistics import TTest

RESEARCHER = Path(__file__).parents[2] / "docs" / "researcher"
DOCUMENT = (RESEARCHER / "experiments.md").read_text(encoding="utf-8")
NAME = "ccpe13-table1"
SWEEPS = {"best-effort": "best-effort", "deadline": "deadline-constraint", "local": "local"}


def falls(test: TTest) -> str:
    fall = test.difference
    return f"{fall.mean:.1f} ({fall.low:.1f} to {fall.high:.1f}) | {test.p:.2g}"


@pytest.mark.parametrize("sweep", list(PUBLISHED))
def test_table_one_is_told_as_it_was_measured(sweep: str) -> None:
    experiment = experiments()[NAME]
    assert isinstance(experiment, ReplicatedExperiment)
    # None where what is chosen now is not what was chosen then.
    stored = lent(RESEARCHER / "results" / NAME, experiment, small=False)
    assert stored
    table = of_whole_replications(list(stored.values()), ("NOP", "MOML"))
    replications = len(table.values(table.points[0], "MOML", "preemptions"))
    assert f"the first {replications} of the 30 replications" in DOCUMENT or replications == 30
    ours, published = measure(table, sweep), PUBLISHED[sweep]
    external = f"{ours.external.difference.mean:.2f} | {ours.external.p:.2g}"
    told = f"{published.fall} ({published.low} to {published.high})"
    assert f"| {SWEEPS[sweep]} | {falls(ours.per_cent)} | {falls(ours.points)} | {told} | {external} |" in DOCUMENT
