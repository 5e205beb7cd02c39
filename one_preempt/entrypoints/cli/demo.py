"""`demo`: a preemption, a reservation, or hosts that sleep, on an emulated cloud, told as it happens."""

from __future__ import annotations

import click

from one_preempt.entrypoints.cli.options import NumberRange, json_option, write_json
from one_preempt.entrypoints.demo import ACTS, DEFAULT_SPEED, run_demo
from one_preempt.entrypoints.demo.story import Step, step_document

FIRST, *OTHERS = ACTS
SEE_MORE = f"There are more acts: one-preempt demo {' or '.join(OTHERS)}"


@click.command("demo")
@click.argument("act", type=click.Choice(list(ACTS)), required=False)
@click.option(
    "--speed",
    type=NumberRange(min=0, max=1e6),
    metavar="FACTOR",
    help=f"Seconds of the cloud that pass in a second, {DEFAULT_SPEED:g} unless given; 0: do not wait.",
)
@json_option
def demo_command(act: str | None, speed: float | None, as_json: bool) -> int:
    """Watch the scheduler at work on an emulated cloud; needs no OpenNebula and touches none.

    preemption (the default): a request takes room from others, which return later. reservation: others run until
    shortly before a reservation starts. energy: idle hosts sleep, and are woken for a request.

    The exit code is 1 if something did not end well. With --json nothing waits, and all is printed at the end.
    """
    if as_json:
        return _as_document(act or FIRST, speed or 0)
    from rich.console import Console

    from one_preempt.entrypoints.demo.screen import Screen

    console = Console(highlight=False)
    if not run_demo(act or FIRST, Screen(console).show, DEFAULT_SPEED if speed is None else speed):
        return 1
    if act is None:
        console.print(SEE_MORE, style="dim")
    return 0


def _as_document(act: str, speed: float) -> int:
    steps: list[Step] = []
    well = run_demo(act, steps.append, speed)
    write_json({"act": act, "ended_well": well, "steps": [step_document(step) for step in steps]})
    return 0 if well else 1
