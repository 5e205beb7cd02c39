"""`experiment`: the papers' tables from the command line."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from one_preempt.entrypoints.cli import experiment as command
from one_preempt.entrypoints.cli.command_line import cli
from one_preempt.simulation.experiments.experiment import ExperimentResult


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
    assert table["description"] in run("list").output


def test_all_experiments_run_at_once() -> None:
    names = [result["name"] for result in json.loads(run("run", "--all", "--json").output)]
    assert names == [one["name"] for one in json.loads(run("list", "--json").output)]


def test_an_unknown_name_is_refused_with_the_names_there_are() -> None:
    result = run("run", "table-9")
    assert result.exit_code == 1
    assert "no experiment is named 'table-9'; there are: ccpe13-table3" in result.stderr


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
