"""`experiment list|run`: a paper's table or figure made again, ours beside the published."""

from __future__ import annotations

import click

from one_preempt.entrypoints.cli.options import json_option, write_json, write_table
from one_preempt.explain import JsonObject
from one_preempt.simulation.experiments.experiment import Cell, ExperimentResult
from one_preempt.simulation.experiments.registry import experiment, experiments

WITHIN = "within"


@click.group("experiment")
def experiment_command() -> None:
    """Reproduce a paper's table or figure."""


@experiment_command.command("list")
@json_option
def experiment_list(as_json: bool) -> None:
    """List the experiments."""
    found = experiments().values()
    if as_json:
        write_json([{"name": one.name, "description": one.description, "paper": one.paper} for one in found])
    else:
        rows = ((one.name, one.description, one.paper) for one in found)
        write_table("Experiments", ("name", "shows", "paper"), rows)


@experiment_command.command("run")
@click.argument("name", required=False)
@click.option("--all", "run_all", is_flag=True, help="Run every experiment.")
@json_option
def experiment_run(name: str | None, run_all: bool, as_json: bool) -> int:
    """Run the experiment NAME. Exit code 1 where a figure lies outside its tolerance."""
    if run_all == (name is not None):
        raise click.UsageError("name one experiment, or give --all")
    chosen = experiments().values() if run_all else [experiment(name or "")]
    results = [one.run() for one in chosen]
    if as_json:
        documents = [document(result) for result in results]
        write_json(documents if run_all else documents[0])
    else:
        for result in results:
            show(result)
    return int(any(row.get(WITHIN) is False for result in results for row in result.rows))


def document(result: ExperimentResult) -> JsonObject:
    """The result as plain objects."""
    return {
        "name": result.name,
        "rows": [
            {column: list(cell) if isinstance(cell, tuple) else cell for column, cell in row.items()}
            for row in result.rows
        ],
    }


def show(result: ExperimentResult) -> None:
    """The result as a table; columns that say nothing in any row are left out."""
    columns = [name for name in result.rows[0] if any(row[name] is not None for row in result.rows)]
    write_table(result.name, columns, ([in_words(row[column]) for column in columns] for row in result.rows))


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
