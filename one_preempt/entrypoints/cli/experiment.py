"""`experiment list|run`: a paper's table or figure made again, ours beside the published."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from itertools import groupby, takewhile
from pathlib import Path

import click
from msgspec.structs import asdict

from one_preempt.entrypoints.cli.options import json_option, write_json, write_table
from one_preempt.entrypoints.cli.progress import progress
from one_preempt.explanation.explain import JsonObject
from one_preempt.simulation.experiments.experiment import Cell, Claim, Experiment, ExperimentResult
from one_preempt.simulation.experiments.played_code import code_digest, counts_in_words
from one_preempt.simulation.experiments.registry import experiment, experiments
from one_preempt.simulation.experiments.replicated import ReplicatedExperiment
from one_preempt.simulation.experiments.runner import folder_of, run, taken_over
from one_preempt.simulation.experiments.state_folder import lent

WITHIN = "within"
# More are not read side by side in the usual width of a terminal.
MOST_COLUMNS = 14
RESULTS_FOLDER = Path("experiment-results")
_VERDICTS = {True: "yes", False: "NO", None: "too small to tell"}


@click.group("experiment")
def experiment_command() -> None:
    """Reproduce a paper's table or figure."""


@experiment_command.command("list")
@json_option
def experiment_list(as_json: bool) -> None:
    """List the experiments."""
    found = experiments().values()
    if as_json:
        write_json([
            {"name": one.name, "description": one.description, "paper": one.paper, "simulations": simulations(one)}
            for one in found
        ])  # fmt: skip
    else:
        rows = ((one.name, one.description, one.paper, _number(simulations(one))) for one in found)
        write_table("Experiments", ("name", "shows", "paper", "simulations"), rows)


def _number(count: int | None) -> str:
    return "" if count is None else f"{count}"


def simulations(one: Experiment) -> int | None:
    """How many simulations an experiment takes; None for those that take no time worth telling."""
    return len(one.tasks(False)) if isinstance(one, ReplicatedExperiment) else None


@experiment_command.command("run")
@click.argument("name", required=False)
@click.option("--all", "run_all", is_flag=True, help="Run every experiment.")
@click.option("--small", is_flag=True, help="A small version that takes seconds, only to show that everything works.")
@click.option(
    "--jobs", type=click.IntRange(1, 1024), default=os.cpu_count() or 1, help="How many processes run at once."
)
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default=RESULTS_FOLDER, show_default=True, metavar="DIR",
    help="Folder for the results. After an interruption, run the command again to do the rest.",
)  # fmt: skip
@click.option(
    "--traces", type=click.Path(path_type=Path, file_okay=False, exists=True), metavar="DIR",
    help="Folder of recorded workloads to use instead of drawn ones, for experiments that can.",
)  # fmt: skip
@click.option("--first", type=click.IntRange(1), metavar="N", help="Run only the first N simulations, if it can.")
@json_option
def experiment_run(
    name: str | None,
    run_all: bool,
    small: bool,
    jobs: int,
    out: Path,
    traces: Path | None,
    first: int | None,
    as_json: bool,
) -> int:
    """Run the experiment NAME. The exit code is 1 if a figure is out of tolerance or a required claim does not hold."""
    if run_all == (name is not None):
        raise click.UsageError("name one experiment, or give --all")
    chosen: Sequence[Experiment] = list(experiments().values()) if run_all else [experiment(name or "")]
    if not run_all:
        chosen = [_narrowed(chosen[0], traces, first)]
    elif traces is not None or first is not None:
        raise click.UsageError("--traces and --first are for one experiment: name it")
    results = [_result(one, small, jobs, out, first) for one in chosen]
    if as_json:
        documents = [document(result) for result in results]
        write_json(documents if run_all else documents[0])
    else:
        for result in results:
            show(result)
    return int(any(map(fails, results)))


def _narrowed(one: Experiment, traces: Path | None, first: int | None) -> Experiment:
    """The same experiment over recorded workloads, where these are given."""
    replicated = one if isinstance(one, ReplicatedExperiment) else None
    if first is not None and (replicated is None or not replicated.in_parts):
        raise click.UsageError(f"{one.name} is judged as a whole: leave out --first")
    if traces is None:
        return one
    if replicated is None or replicated.over is None:
        raise click.UsageError(f"{one.name} takes no recorded workloads: leave out --traces")
    return replicated.over(traces.resolve())


def _result(one: Experiment, small: bool, jobs: int, out: Path, first: int | None) -> ExperimentResult:
    if not isinstance(one, ReplicatedExperiment):
        return one.run()
    folder = folder_of(out, one, small)
    _tell_of_other_code(one, folder, small)
    with progress(one.name, len(one.tasks(small)[:first])) as tell:
        return run(one, folder, small, jobs, tell, first)


def _tell_of_other_code(one: ReplicatedExperiment, folder: Path, small: bool) -> None:
    """Before hours are spent on results that cannot be compared with those that there are."""
    ours, known = code_digest(), lent(folder, one, small)
    beside = taken_over(one, folder, small, known)
    for where, results, are_kept in (
        (f"in {folder}", known, "kept"),
        (f"beside {folder}, of {' and '.join(one.shares_with)},", beside, "taken over"),
    ):
        counted = Counter(result.code for result in results.values())
        if others := {code: count for code, count in counted.items() if code != ours}:
            click.echo(
                f"{one.name}: {where} are results of other states of the code ({counts_in_words(others)}); they are "
                f"{are_kept}, and what is missing is played by {ours}. For results of one code name another folder by "
                "--out.",
                err=True,
            )


def fails(result: ExperimentResult) -> bool:
    """A figure is outside its tolerance, or what is required of ours does not hold."""
    return any(row.get(WITHIN) is False for row in result.rows) or any(
        claim.required and claim.holds is False for claim in result.claims
    )


def document(result: ExperimentResult) -> JsonObject:
    """The result as plain objects."""
    return {
        "name": result.name,
        "rows": [
            {column: list(cell) if isinstance(cell, tuple) else cell for column, cell in row.items()}
            for row in result.rows
        ],
        "claims": [asdict(claim) for claim in result.claims],
    }


def show(result: ExperimentResult) -> None:
    """The result as tables; columns that say nothing in any row are left out, and wide rows go over several tables."""
    columns = [name for name in next(iter(result.rows), {}) if any(row[name] is not None for row in result.rows)]
    for shown in _side_by_side(result, columns):
        # "PEMP kWh" is one of several figures of PEMP: of whom a row says none it has no place among them.
        told = [column for column in shown if " " in column]
        rows = [row for row in result.rows if not told or any(row[column] is not None for column in told)]
        headings = [column.replace("_", " ") for column in shown]
        write_table(result.name, headings, ([in_words(row[column]) for column in shown] for row in rows))
    if result.claims:
        write_table(f"{result.name}: claims", ("claim", "published", "ours", "holds"), map(_of_claim, result.claims))


def _side_by_side(result: ExperimentResult, columns: Sequence[str]) -> list[list[str]]:
    """The columns of each table: those whose names begin alike together, and in each of them the words of a row."""
    words = list(takewhile(lambda name: any(isinstance(row[name], str) for row in result.rows), columns))
    tables = [list(words)]
    for _, alike in groupby(columns[len(words) :], key=lambda name: name.split(" ")[0]):
        group = list(alike)
        if len(columns) > MOST_COLUMNS and len(tables[-1]) > len(words) and len(tables[-1]) + len(group) > MOST_COLUMNS:
            tables.append(list(words))
        tables[-1] += group
    return tables


def _of_claim(claim: Claim) -> tuple[str, str, str, str]:
    verdict = _VERDICTS[claim.holds]
    return claim.text, claim.published, claim.ours, verdict if claim.required else f"{verdict} (not required)"


def in_words(cell: Cell) -> str:
    """A cell for people."""
    match cell:
        case None:
            return ""
        case bool():
            return "yes" if cell else "no"
        case float():
            return f"{cell:g}"
        case tuple():
            return "{" + ", ".join(map(str, cell)) + "}"
    return str(cell)
