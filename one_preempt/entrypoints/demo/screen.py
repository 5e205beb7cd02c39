"""A demonstration for people: sentences, tables and a time line, in 80 columns or more, coloured on a terminal."""

from __future__ import annotations

import textwrap
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

from one_preempt.entrypoints.demo.story import Decision, Ending, Event, Machines, Narration, Step
from one_preempt.explain import printable
from one_preempt.explain_tables import titled_table

WIDEST = 110
NARROWEST = 60
LONGEST_TEXT = 600
NOTHING = Text()
LEASE_STYLES = (
    "white on dodger_blue3", "black on light_goldenrod3", "white on medium_orchid", "black on dark_sea_green3",
    "black on dark_orange3", "black on turquoise2", "bold white on red3",
)  # fmt: skip
CHANGE_STYLES = {"RUNNING": "green", "STOPPED": "yellow", "stop": "yellow", "deploy": "cyan", "submit": "bold"}


class Screen:
    """Shows steps as they come."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._console.width = max(NARROWEST, min(WIDEST, console.width))
        self._styles: dict[str, str] = {}

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
            case Ending():
                self._show_ending(step)

    def _narrate(self, narration: Narration) -> None:
        self._print()
        self._print(Text(printable(narration.text, LONGEST_TEXT), style="bold"))

    def _show_machines(self, step: Machines) -> None:
        self._print()
        for number, machine in enumerate(step.machines):
            line = Text(_clock(step.at_s) if number == 0 else " " * len(_clock(step.at_s)), style="dim")
            line.append(f" {machine.name:<9}", style="not dim")
            for lease in machine.cpus:
                line.append(" ").append(f" {lease or 'free':<8}", style=self._style(lease))
            self._print(line)

    def _show_event(self, event: Event) -> None:
        line = Text(_clock(event.at_s), style="dim")
        line.append(f" {event.by:<9}", style="not dim")
        line.append(f" {event.change:<9}", style=f"not dim {CHANGE_STYLES.get(event.change, '')}")
        line.append(f" {event.lease:<8}", style=f"not dim {self._foreground(event.lease)}")
        line.append(f" {_numbers(event.vm_ids):<7} ", style="not dim")
        indent = line.cell_len
        why = printable(event.why, LONGEST_TEXT)
        line.append(f"\n{' ' * indent}".join(textwrap.wrap(why, self._console.width - indent)))
        self._print(line)

    def _show_decision(self, decision: Decision) -> None:
        self._print()
        title = f"{decision.candidate_count} candidate sets"
        table = titled_table(title, "leases that would leave", "VMs", "overhead", "chosen by")
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

    def _show_ending(self, ending: Ending) -> None:
        self._print()
        for check in ending.checks:
            mark = Text("ok   ", style="bold green") if check.holds else Text("FAIL ", style="bold red")
            self._print(mark.append(printable(check.text, LONGEST_TEXT), style="not bold default"))
        word = "Nothing was lost." if ending.well else "The demonstration did not end well."
        self._print(Text(word, style="bold green" if ending.well else "bold red"))

    def _print(self, what: Text | Table = NOTHING) -> None:
        self._console.print(what)

    def _style(self, lease: str) -> str:
        if not lease:
            return "dim"
        return self._styles.setdefault(lease, LEASE_STYLES[len(self._styles) % len(LEASE_STYLES)])

    def _foreground(self, lease: str) -> str:
        return self._style(lease).partition(" on ")[2]


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
