"""`pause` and `resume`: the switch that stops preempting and power actions, read by the daemon in every cycle."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import click

from one_preempt.adapters.clock import SystemClock
from one_preempt.composition import open_store
from one_preempt.entrypoints.cli.options import config_option
from one_preempt.settings import load_settings


@click.command("pause")
@config_option
def pause_command(config_path: Path | None) -> None:
    """Stop preempting and power actions at once; placing goes on."""
    _switch(config_path, True)
    click.echo("Paused: nothing is preempted and no host is switched from the next step on.")


@click.command("resume")
@config_option
def resume_command(config_path: Path | None) -> None:
    """Allow preempting and power actions again."""
    _switch(config_path, False)
    click.echo("Resumed: preempting and power actions are allowed again, as configured.")


def _switch(config_path: Path | None, paused: bool) -> None:
    with closing(open_store(load_settings(config_path))) as store:
        store.set_paused(paused, SystemClock().now_s())
