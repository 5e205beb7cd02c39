"""`experiment`: the papers' tables from the command line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from one_preempt.entrypoints.cli import experiment as command
from one_preempt.entrypoints.cli.command_line import cli
from one_preempt.simulation.experiments import runner
from one_preempt.simulation.experiments.experiment import Claim, Experiment, ExperimentResult, Row
from one_preempt.simulation.experiments.registry import experiments
from one_preempt.simulation.experiments.replicated import ReplicatedExperiment, Task


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["experiment", *arguments])


def test_table_three_of_ccpe13_comes_out_within_its_tolerance() -> None:
    result = run("run", "ccpe13-table3", "--json")
    assert result.exit_code == 0
    answer = json.loads(result.output)
    assert answer["name"] == "ccpe13-table3"
    preempted = {row["policy"]: row["preempted"] for row in answer["rows"]}
    assert preempted == {"NOP": [], "MLIP": [1, 6], "MOV": [2, 3, 5], "MOML": [5, 6]}
    assert all(row["within"] for row in answer["rows"])


def test_people_see_sets_and_yes_and_no_and_no_empty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    output = run("run", "ccpe13-table3").output
    moml = next(line for line in output.splitlines() if line.startswith("MOML"))
    assert "{5, 6}" in moml
    assert "yes" in moml
    monkeypatch.setattr(command, "experiment", lambda _name: SaysNothing())
    assert "unsaid" not in run("run", "silent").output


def test_the_experiments_are_listed_with_their_papers() -> None:
    (table,) = [one for one in json.loads(run("list", "--json").output) if one["name"] == "ccpe13-table3"]
    assert "Table III" in table["paper"]
    assert table["description"][:60] in run("list").output


def test_the_list_says_how_many_simulations_each_takes() -> None:
    listed = {one["name"]: one["simulations"] for one in json.loads(run("list", "--json").output)}
    told = run("list").output
    assert "simulations" in told.splitlines()[1]
    for name, count in listed.items():
        (line,) = [line for line in told.splitlines() if line.startswith(f"{name} ")]
        assert line.rstrip().endswith(f" {count}") == (count is not None)


def with_one_task_a_policy(one: Experiment) -> Experiment:
    """The same experiment, of which the first task of each policy is played, and stands for the others.

    Those of VW07 and SR11 take a second or two, and are held against one another.
    """
    if not isinstance(one, ReplicatedExperiment) or one.name.startswith(("vw07-", "sr11-")):
        return one
    first: dict[str, Task] = {}
    for task in one.tasks(True):
        first.setdefault(task.policy, task)
    return replace(one, played_as=lambda task: one.played_as(first[task.policy]))


def test_all_experiments_run_at_once_when_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make experiments` plays all tasks of the small ones, which takes as long as a thousand tests."""
    all_of_them = {name: with_one_task_a_policy(one) for name, one in experiments().items()}
    monkeypatch.setattr(command, "experiments", lambda: all_of_them)
    result = run("run", "--all", "--small", "--jobs", "1", "--out", str(tmp_path), "--json")
    assert result.exit_code == 0, result.output
    names = [answer["name"] for answer in json.loads(result.output)]
    assert names == [one["name"] for one in json.loads(run("list", "--json").output)]
    assert (tmp_path / "sr11-starvation-small" / "suspensions.svg").exists()
    again = run("run", "sr11-starvation", "--small", "--out", str(tmp_path)).output
    assert "no more than 2 suspensions" in again


def test_results_of_other_code_are_told_before_the_rest_is_played_and_after(tmp_path: Path) -> None:
    small = ("run", "sr11-starvation", "--small", "--jobs", "1", "--out", str(tmp_path))
    assert run(*small).stderr == ""
    results = tmp_path / "sr11-starvation-small" / "results.jsonl"
    first, *lines = results.read_text().splitlines(keepends=True)
    code = json.loads(first)["code"]
    results.write_text(first.replace(f',"code":"{code}"', "") + "".join(lines[1:]).replace(code, "0123456789ab"))
    again = run(*small)
    assert f"results of other states of the code ({len(lines) - 1} by 0123456789ab, 1 of unknown code)" in again.stderr
    assert f"what is missing is played by {code}" in again.stderr
    assert f"{len(lines) - 1} by 0123456789ab, 1 of unknown code, 1 by {code}" in " ".join(again.stdout.split())


def test_results_of_other_code_that_another_experiment_lends_are_told_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = ReplicatedExperiment(
        "theirs", "counts", "none", {},
        tasks=lambda small: [Task(str(point), 0, "none", small) for point in range(3)],
        simulate=lambda task: {"point": int(task.point)},
        conclude=lambda results: ExperimentResult("counts", tuple({"point": one.task.point} for one in results)),
    )  # fmt: skip
    ours = replace(theirs, name="ours", shares_with=("theirs",))
    named = {"theirs": theirs, "ours": ours}
    monkeypatch.setattr(command, "experiment", named.__getitem__)
    monkeypatch.setattr(runner, "experiment_named", named.__getitem__)
    out = ("--jobs", "1", "--out", str(tmp_path))
    run("run", "theirs", *out)
    results = tmp_path / "theirs" / "results.jsonl"
    code = json.loads(results.read_text().splitlines()[0])["code"]
    results.write_text(results.read_text().replace(code, "0123456789ab", 2))
    first = run("run", "ours", *out)
    assert f"beside {tmp_path / 'ours'}, of theirs, are results of other states of the code" in first.stderr
    assert "(2 by 0123456789ab); they are taken over" in first.stderr
    # They are ours by now.
    again = run("run", "ours", *out)
    assert f"in {tmp_path / 'ours'} are results" in again.stderr
    assert "taken over" not in again.stderr


def test_full_results_are_not_taken_for_small_ones(tmp_path: Path) -> None:
    (tmp_path / "sr11-starvation-small").mkdir()
    (tmp_path / "sr11-starvation-small" / "identity.json").write_text("{}")
    result = run("run", "sr11-starvation", "--small", "--out", str(tmp_path))
    assert (result.exit_code, "holds results of other choices" in result.stderr) == (1, True)


def test_an_unknown_name_is_refused_with_the_names_there_are() -> None:
    result = run("run", "table-9")
    assert result.exit_code == 1
    assert "no experiment is named 'table-9'; there are: ccpe13-sweeps" in result.stderr


@pytest.mark.parametrize("arguments", [("run",), ("run", "ccpe13-table3", "--all")])
def test_one_name_or_all_must_be_given(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 2


class SaysNothing:
    """An experiment with a column that is empty in every row."""

    name = "silent"
    description = "says nothing"
    paper = "none"

    def run(self) -> ExperimentResult:
        return ExperimentResult("silent", ({"claim": "a", "unsaid": None},))


class OutOfTolerance:
    """An experiment whose figure is not the published one."""

    name = "off"
    description = "is off"
    paper = "none"

    def run(self) -> ExperimentResult:
        return ExperimentResult("off", ({"claim": "a", "ours": 2.0, "published": 1.0, "within": False},))


def test_a_figure_outside_its_tolerance_ends_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "experiment", lambda _name: OutOfTolerance())
    assert run("run", "off", "--json").exit_code == 1


@dataclass(frozen=True)
class Claims:
    """An experiment that makes one claim."""

    claim: Claim
    name: str = "claims"
    description: str = "claims something"
    paper: str = "none"

    def run(self) -> ExperimentResult:
        return ExperimentResult("claims", ({"point": "10"},), (self.claim,))


@pytest.mark.parametrize(
    ("holds", "required", "exit_code", "told"),
    [
        (True, True, 0, "yes"),
        (False, True, 1, "NO"),
        (False, False, 0, "NO (not required)"),
        (None, True, 0, "too small"),
    ],
)
def test_a_required_claim_that_does_not_hold_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, holds: bool | None, required: bool, exit_code: int, told: str
) -> None:
    monkeypatch.setattr(command, "experiment", lambda _name: Claims(Claim("it falls", "72", "70", holds, required)))
    result = run("run", "claims")
    assert result.exit_code == exit_code
    assert told in result.output


def test_wide_rows_go_over_several_tables_with_what_belongs_together(capsys: pytest.CaptureFixture[str]) -> None:
    policies = [f"policy{number}" for number in range(4)]
    figures = [f"{policy} {figure}" for policy in policies for figure in ("kWh", "boots", "broken", "late")]
    everywhere: Row = {"setting": "files", "at": "30", **dict.fromkeys(figures, 1.5)}
    partly: Row = {"setting": "drawn", "at": "5", **dict.fromkeys(figures), "policy0 kWh": 2.5}
    command.show(ExperimentResult("wide", (everywhere, partly), ()))
    tables = capsys.readouterr().out.split("wide")[1:]
    assert [[policy for policy in policies if policy in table] for table in tables] == [policies[:3], policies[3:]]
    assert [["files" in table, "drawn" in table] for table in tables] == [[True, True], [True, False]]
