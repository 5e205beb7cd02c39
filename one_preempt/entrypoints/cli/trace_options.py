"""Options of `simulate` that say how a trace is read."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from one_preempt.entrypoints.cli.options import NumberRange
from one_preempt.simulation.scenario.trace import TraceReading
from one_preempt.simulation.workload.swf_workload import SwfReading

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_FACTOR = NumberRange(min=0.001, max=1000)


def span_s(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
    """A time as 600, 600s, 10m, 2h or 30d in seconds."""
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]{1,9})([smhd]?)", text.strip())
    if found is None or not int(found[1]):
        raise click.BadParameter(f"{text!r} is not a time: write 600, 10m, 2h or 30d")
    return int(found[1]) * _SECONDS[found[2]]


_OPTIONS = (
    click.option(
        "--processors-per-vm",
        type=click.IntRange(1, 1_000_000),
        default=1,
        help="SWF: how many processors a VM stands for.",
    ),
    click.option(
        "--log-queue", "log_queues", type=click.IntRange(0), multiple=True, metavar="NUMBER",
        help="SWF: play only the jobs of this queue of the log; repeat it for several.",
    ),
    click.option(
        "--submitted-from", "submitted_from_s", callback=span_s, metavar="TIME",
        help="SWF: play only jobs submitted so long after the log begins, or later; then the run begins.",
    ),
    click.option(
        "--submitted-before", "submitted_before_s", callback=span_s, metavar="TIME",
        help="SWF: play only jobs submitted before this time of the log: 600, 10m, 2h, 30d.",
    ),
    click.option(
        "--annotations", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
        help="Haizea's annotations (LWFA) for the leases of the trace.",
    ),
    click.option(
        "--cut-overruns", is_flag=True,
        help="End jobs after the time they asked for, even if they ran longer in the log.",
    ),
    click.option("--load-factor", type=_FACTOR, default=1.0, help="Requests come so many times as often."),
    click.option("--size-factor", type=_FACTOR, default=1.0, help="Requests are for so many times as many VMs."),
    click.option("--duration-factor", type=_FACTOR, default=1.0, help="Requests take so many times as long."),
    click.option(
        "--skip-bad-lines", is_flag=True, help="Skip and count lines, or records, that do not have the format."
    ),
)  # fmt: skip


def trace_options(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command these options; it is called with what they say as `reading`."""

    @wraps(command)
    def with_reading(**given: Any) -> int:
        swf = SwfReading(
            given.pop("processors_per_vm"),
            queues=frozenset(given.pop("log_queues")) or None,
            submitted_from_s=given.pop("submitted_from_s") or 0,
            submitted_before_s=given.pop("submitted_before_s"),
        )
        others = {name: given.pop(name) for name in TraceReading.__struct_fields__ if name != "swf"}
        return command(reading=TraceReading(swf, **others), **given)

    for option in reversed(_OPTIONS):
        with_reading = option(with_reading)
    return with_reading
