"""A demonstration for people: sentences, tables and a time line, in 80 columns or more, coloured on a terminal."""

from __future__ import annotations

import textwrap
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

from one_preempt.entrypoints.cli.gantt import BLOCKS, PLAIN, Bar, BarKind, gantt
from one_preempt.entrypoints.demo.story import Chart, Decision, Doing, Ending, Event, Machines, Narration, Step
from one_preempt.explanation.explain import printable
from one_preempt.explanation.tables import titled_table

WIDEST = 110
NARROWEST = 60
LONGEST_TEXT = 600
NOTHING = Text()
# Black on a colour, and the colour alone on a dark ground, can both be read.
LEASE_COLORS = (
    "cornflower_blue", "light_goldenrod3", "orchid", "dark_sea_green2", "sandy_brown", "turquoise2", "indian_red1",
)  # fmt: skip
CHANGE_STYLES = {
    "RUNNING": "green",
    "STOPPED": "yellow",
    "stop": "yellow",
    "deploy": "cyan",
    "submit": "bold",
    "accepted": "bold green",
    "refused": "bold red",
    "asleep": "yellow",
    "awake": "green",
}

MINUTE_S = 60
KINDS = {
    Doing.RUNNING: BarKind.RUNNING,
    Doing.RESERVED: BarKind.RESERVED,
    Doing.MOVING: BarKind.EXPECTED,
    Doing.WAITING: BarKind.WAITING,
}
MEANINGS = {
    Doing.RUNNING: "runs",
    Doing.MOVING: "boots, is saved or restored",
    Doing.WAITING: "waits",
    Doing.RESERVED: "promised",
}


class Screen:
    """Shows steps as they come."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._console.width = max(NARROWEST, min(WIDEST, console.width))
        self._colors: dict[str, str] = {}

    def show(self, step: Step) -> None:
        """Print one step."""
        match step:
            case Narration():
                self._narrate(step)
            case Machines():
                self._show_machines(step)
            case Event():
                if not step.detail:
                    self._show_event(step)
            case Decision():
                self._show_decision(step)
            case Chart():
                self._show_chart(step)
            case Ending():
                self._show_ending(step)

    def _narrate(self, narration: Narration) -> None:
        self._print()
        self._print(Text(printable(narration.text, LONGEST_TEXT), style="bold"))

    def _show_machines(self, step: Machines) -> None:
        """A line a host, a block a CPU."""
        self._print()
        for number, machine in enumerate(step.machines):
            clock = _clock(step.at_s) if number == 0 else ""
            line = Text.assemble((f"{clock:<9}", "dim"), f"{machine.name:<10}")
            if machine.power != "on":
                self._print(line.append(f" {machine.power}", style="dim"))
                continue
            for lease in machine.cpus:
                line.append(
                    f" {lease or 'free':<8}", style=f"color(16) on {self._color(lease)}" if lease else "dim"
                ).append(" ")
            self._print(line)

    def _show_event(self, event: Event) -> None:
        line = Text.assemble(
            (f"{_clock(event.at_s):<9}", "dim"),
            f"{event.by:<10}",
            (f"{event.change:<10}", CHANGE_STYLES.get(event.change, "")),
            (f"{event.lease:<8}", self._color(event.lease)),
            f"VM {_numbers(event.vm_ids):<6} " if event.vm_ids else "",
        )
        indent = line.cell_len
        why = textwrap.wrap(printable(event.why, LONGEST_TEXT), self._console.width - indent, break_on_hyphens=False)
        for number, part in enumerate(why):
            # Blanks apart from the words: what draws the picture may cut off those before a word.
            line.append(f"\n{' ' * indent}" if number else "").append(part, style="dim")
        self._print(line)

    def _show_decision(self, decision: Decision) -> None:
        self._print()
        title = f"{decision.candidate_count} candidate sets"
        table = titled_table(title, "leases to be stopped", "VMs", "overhead", "chosen by")
        up_to_median = sum(one.overhead_s <= decision.median_overhead_s for one in decision.candidates)
        for number, candidate in enumerate(decision.candidates):
            if number == up_to_median:
                table.add_row("-- median --", "", f"{decision.median_overhead_s:.1f} s", "", style="dim")
            table.add_row(
                Text(" + ".join(candidate.leases)),
                str(candidate.vms),
                f"{candidate.overhead_s:.1f} s",
                ", ".join(candidate.chosen_by),
                style="bold green" if candidate == decision.chosen else "",
            )
        self._print(table)
        self._print()
        self._print(Text(decision.sentence))

    def _show_chart(self, chart: Chart) -> None:
        """A row a lease under a scale of minutes."""
        draw = BLOCKS if self._console.is_terminal and self._console.encoding.startswith("utf") else PLAIN
        bars = [Bar(one.lease, one.start_s, one.end_s, KINDS[one.doing]) for one in chart.stretches]
        rows = gantt(bars, chart.from_s, chart.until_s, self._console.width, UTC, draw)[3:-1]
        margin = len(rows[0][0].text)
        self._print(Text(" " * margin + _minutes(chart, sum(len(span.text) for span in rows[0][1:])), style="dim"))
        for label, *spans in rows:
            lease = label.text.strip()
            line = Text(label.text)
            for span in spans:
                line.append(span.text, style=self._color(lease) if span.kind is BarKind.RUNNING else "dim")
            self._print(line)
        meanings = "   ".join(f"{draw.fills[KINDS[doing]]} {text}" for doing, text in MEANINGS.items())
        self._print(Text(" " * margin + meanings, style="dim"))

    def _show_ending(self, ending: Ending) -> None:
        self._print()
        for check in ending.checks:
            mark = ("ok   ", "bold green") if check.holds else ("FAIL ", "bold red")
            lines = textwrap.wrap(printable(check.text, LONGEST_TEXT), self._console.width - len(mark[0]))
            self._print(Text.assemble(mark, f"\n{' ' * len(mark[0])}".join(lines)))
        word = "Nothing was lost." if ending.well else "The demonstration did not end well."
        self._print(Text(word, style="bold green" if ending.well else "bold red"))

    def _print(self, what: Text | Table = NOTHING) -> None:
        self._console.print(what)

    def _color(self, lease: str) -> str:
        """The same colour for a lease every time."""
        return self._colors.setdefault(lease, LEASE_COLORS[len(self._colors) % len(LEASE_COLORS)])


def _minutes(chart: Chart, columns: int) -> str:
    """The minutes over a chart of so many columns, each where it begins; as many as have room."""
    line = ""
    for at_s in range(-(-chart.from_s // MINUTE_S) * MINUTE_S, chart.until_s, MINUTE_S):
        column = (at_s - chart.from_s) * columns // (chart.until_s - chart.from_s)
        if (not line or column > len(line)) and column + len("|00:00") <= columns:
            line = line.ljust(column) + datetime.fromtimestamp(at_s, UTC).strftime("|%H:%M")
    return line


def _clock(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%H:%M:%S")


def _numbers(vm_ids: tuple[int, ...]) -> str:
    """VM ids, ranges as such: 7, 9-11."""
    runs: list[list[int]] = []
    for vm_id in sorted(vm_ids):
        if runs and vm_id == runs[-1][-1] + 1:
            runs[-1].append(vm_id)
        else:
            runs.append([vm_id])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
