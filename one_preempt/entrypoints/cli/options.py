"""Options that several commands have, and the two ways to answer: a document for programs, a table for people."""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from one_preempt.explanation.explain import JsonValue

if TYPE_CHECKING:
    from one_preempt.configuration.settings import Settings

WIDTH_WITHOUT_TERMINAL = 160

config_option = click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path, readable=False),  # who reads it says what is wrong
    envvar="ONE_PREEMPT_CONF",
    metavar="FILE",
    help="Configuration file; else that of ONE_PREEMPT_CONF, else /etc/one/schedulers/one_preempt.conf.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
source_option = click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="A recording made by `record`, or a folder of raw pool documents; without it the cloud is read.",
)
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


def settings_or_shipped(config_path: Path | None) -> Settings:
    """The settings, for what needs no administrator: who may not read the usual file is told, and has the shipped ones.

    Raises `SettingsError`, also where a file was named.
    """
    from one_preempt.configuration.settings import Settings, SettingsForbidden, load_settings

    try:
        return load_settings(config_path)
    except SettingsForbidden as error:
        if config_path is not None:
            raise
        click.echo(f"{error}. The values as shipped are taken.", err=True)
        return Settings()


class NumberRange(click.FloatRange):
    """Numbers between bounds: finite ones. "nan" is beyond no bound, so that click lets it through."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; click tells a mistake with the option's name."""
        number = float(click.FLOAT.convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is {'no number (NaN)' if math.isnan(number) else 'infinite'}", param, ctx)
        return float(super().convert(value, param, ctx))


def write_json(document: JsonValue) -> None:
    """`document` on standard output; only ASCII, so that no name can reach the terminal's controls."""
    click.echo(json.dumps(document, indent=2))


def table_width() -> int:
    """How many characters a line of a table may have: those of the terminal, if there is one."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL


def used_columns(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """The columns in which any row has something, and the rows without the others; all columns if there is no row."""
    rows = list(rows)
    used = [number for number in range(len(columns)) if not rows or any(row[number] for row in rows)]
    return [columns[number] for number in used], [[row[number] for number in used] for row in rows]


def write_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table on standard output, coloured on a terminal; `title` says what there is when there are no rows."""
    from rich.text import Text

    from one_preempt.explanation.tables import titled_table

    table = titled_table(title, *columns)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    write_renderables([table])


def write_renderables(renderables: Iterable[object]) -> None:
    """Rich renderables, a blank line between them. Colours only on a terminal, and never with NO_COLOR."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL, highlight=False)
    for number, renderable in enumerate(renderables):
        if number:
            console.print()
        console.print(renderable)
