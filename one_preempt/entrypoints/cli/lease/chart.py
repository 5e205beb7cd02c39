"""The coming hours of leases on the terminal: coloured where it has colours, plain where it has no blocks."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable

import click

from one_preempt.entrypoints.cli.gantt import BLOCKS, PLAIN, Bar, BarKind, Characters, gantt

HOUR_S = 3600
LONGEST_HOURS = 24 * 31
WIDTH_WITHOUT_TERMINAL = (100, 24)
STYLES = {
    BarKind.RUNNING: "green",
    BarKind.RESERVED: "cyan",
    BarKind.EXPECTED: "blue",
    BarKind.WAITING: "dim",
    BarKind.DEADLINE: "bold red",
    BarKind.REFUSED: "red",
}

gantt_option = click.option("--gantt", "as_chart", is_flag=True, help="Draw the coming day.")
hours_option = click.option(
    "--hours", type=click.IntRange(1, LONGEST_HOURS), default=24, show_default=True, help="How far --gantt looks ahead."
)


def draw_chart(bars: Iterable[Bar], now_s: int, hours: int) -> None:
    """Draw `hours` from `now_s` on, as wide as the terminal is."""
    from rich.console import Console
    from rich.text import Text

    width = shutil.get_terminal_size(WIDTH_WITHOUT_TERMINAL).columns
    lines = gantt(bars, now_s, now_s + hours * HOUR_S, width, draw=_characters())
    # Lines are as wide as they are: what is too narrow for a chart is wrapped by the terminal, not torn apart here.
    console = Console(width=max(width, 80), highlight=False, soft_wrap=True)
    for line in lines:
        text = Text.assemble(*((span.text, STYLES[span.kind] if span.kind is not None else "") for span in line))
        text.rstrip()
        console.print(text)


def _characters() -> Characters:
    try:
        "".join((*BLOCKS.fills.values(), BLOCKS.earlier, BLOCKS.later, BLOCKS.tick)).encode(
            sys.stdout.encoding or "ascii"
        )
    except (UnicodeEncodeError, LookupError):
        return PLAIN
    return BLOCKS
