"""The tables of the researcher's pages say what the results that lie beside it say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from msgspec.structs import replace

from one_preempt.simulation.experiments import pemp12_energy, vw07_stretch
from one_preempt.simulation.experiments.ccpe13_table1 import PUBLISHED, measure
from one_preempt.simulation.experiments.ccpe13_workloads import of_whole_replications
from one_preempt.simulation.experiments.experiment import Row
from one_preempt.simulation.experiments.pemp12_runs import KWH, PEMP, POLICIES, SESP, VIOLATIONS, Runs
from one_preempt.simulation.experiments.pemp12_workloads import LOG_FILE, RESERVATIONS_FILE, SLICE_FILE, TraceFolder
from one_preempt.simulation.experiments.registry import experiments
from one_preempt.simulation.experiments.replicated import ReplicatedExperiment, TaskResult
from one_preempt.simulation.experiments.state_folder import IDENTITY, lent
from one_preempt.simulation.experiments.vw07_datastar import LOG_FILE as LOG_OF_EXPRESS_JOBS
from one_preempt.simulation.probes.statistics import TTest

RESEARCHER = Path(__file__).parents[2] / "docs" / "researcher"
# What was played, each in a folder by the name of its experiment.
REPORTED = sorted(path.parent.name for path in RESEARCHER.glob("results/*/results.jsonl"))
DOCUMENT = "".join(page.read_text(encoding="utf-8") for page in sorted((RESEARCHER / "experiments").glob("*.md")))
SWEEPS = {"best-effort": "best-effort", "deadline": "deadline-constraint", "local": "local"}
VERDICTS = {True: "holds", False: "does not hold", None: "not judged"}


@contextmanager
def traces() -> Iterator[TraceFolder]:
    """A folder with the names of all traces: nothing is read from it but that they are there."""
    with TemporaryDirectory() as folder:
        for name in (SLICE_FILE, RESERVATIONS_FILE, LOG_FILE):
            (Path(folder) / name).touch()
        yield TraceFolder(Path(folder))


def experiment(name: str) -> ReplicatedExperiment:
    found = experiments()[name]
    assert isinstance(found, ReplicatedExperiment)
    if name == vw07_stretch.NAME:
        was = json.loads((RESEARCHER / "results" / name / IDENTITY).read_bytes())["choices"]
        return replace(
            found, choices=vw07_stretch.CHOICES | {LOG_OF_EXPRESS_JOBS: was.get(LOG_OF_EXPRESS_JOBS, "none")}
        )
    if name != pemp12_energy.NAME:
        return found
    with traces() as folder:
        over = pemp12_energy.over(folder.path)
        # Which traces were played, their sums tell, that are not ours to compute here.
        was = json.loads((RESEARCHER / "results" / name / IDENTITY).read_bytes())["choices"]
        choices = {choice: was[choice] if choice.endswith(".gz") else text for choice, text in over.choices.items()}
        wanted = pemp12_energy.settings(folder)
    return replace(over, choices=choices, conclude=lambda results: pemp12_energy.concluded(wanted, results))


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


def test_image_staging_is_told_as_it_was_measured() -> None:
    """The rows as they are, but that disk and deployment put two figures into one cell."""
    if "vw07-accuracy" in REPORTED:
        for row in experiment("vw07-accuracy").concluded(reported("vw07-accuracy")).rows:
            assert f"| {' | '.join(map(str, row.values()))} |" in DOCUMENT
    if "vw07-disk" in REPORTED:
        for row in experiment("vw07-disk").concluded(reported("vw07-disk")).rows:
            told = f"| {row['images']} | {row['policy']} | {row['peak_gb']} | {row['least_gb']} to {row['most_gb']} |"
            assert told in DOCUMENT
    if vw07_stretch.NAME in REPORTED:
        for row in experiment(vw07_stretch.NAME).concluded(reported(vw07_stretch.NAME)).rows:
            words = f"| {row['images']} | {row['queue']} | {row['policy']} |"
            assert f"{words} {row['deployment_s']} | {row['from_s']} to {row['to_s']} |" in DOCUMENT


def test_mixed_workloads_are_told_as_they_were_measured() -> None:
    """Seconds and utilization of each configuration, ours and as printed, and the percentages in the text's order."""
    if "vw07-mixed" in REPORTED:
        for row in experiment("vw07-mixed").concluded(reported("vw07-mixed")).rows:
            assert vw07_mixed_line(row) in DOCUMENT
            assert vw07_mixed_used_line(row) in DOCUMENT


def vw07_mixed_line(row: Row) -> str:
    where = f"| {row['best effort']} | {row['reservations take']} | {row['batch to reserved']} |"
    seconds = [f"{row[f'{one}_s']}, {row[f'{one}_published_s']}" for one in "NPTR"]
    pairs = ("P_to_N", "T_to_P", "R_to_P")
    per_cent = [f"{row[f'{one}_percent']:+.2f}, {row[f'{one}_published_percent']:+.2f}" for one in pairs]
    return f"{where} {' | '.join([*seconds, *per_cent])} |"


def vw07_mixed_used_line(row: Row) -> str:
    where = f"| {row['best effort']} | {row['reservations take']} | {row['batch to reserved']} |"
    used = [f"{row[f'{one}_used']}, {row[f'{one}_published_used']}" for one in ("N", "P_as_fast", "P", "T", "R")]
    return f"{where} {' | '.join(used)} |"


def test_energies_are_told_as_they_were_measured() -> None:
    """Each point with kWh and broken promises in per cent, of each policy that was played there."""
    if pemp12_energy.NAME not in REPORTED:
        return
    with traces() as folder:
        files = pemp12_energy.settings(folder)[0]
    runs = Runs(files, reported(pemp12_energy.NAME))
    for point in sorted(runs.points(PEMP, SESP)):
        played = runs.by_point[point]
        cells = [
            f"{played[policy][KWH]:,.0f}, {played[policy][VIOLATIONS]:.2f}" if policy in played else "-"
            for policy in POLICIES[:4]
        ]
        assert f"| {point.rho} % | {point.delta_h} h | {point.theta} | {' | '.join(cells)} |" in DOCUMENT


@pytest.mark.parametrize("name", REPORTED)
def test_each_claim_has_the_verdict_that_the_results_give_it(name: str) -> None:
    claims = experiment(name).concluded(reported(name)).claims
    assert claims
    for claim in claims:
        assert f"| {claim.text} | {claim.ours} | {VERDICTS[claim.holds]} |" in DOCUMENT
