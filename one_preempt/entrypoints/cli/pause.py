"""`pause` and `resume`: the switch that stops preempting, power actions and images to hosts, read in every cycle."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import click

from one_preempt.adapters.clock import SystemClock
from one_preempt.adapters.lease_store.named_database import DatabaseNotMade, is_sqlite, name_of, parsed_url
from one_preempt.composition import open_made_store
from one_preempt.configuration.settings import load_settings
from one_preempt.entrypoints.cli.check_places import running_daemon
from one_preempt.entrypoints.cli.options import config_option
from one_preempt.errors import OnePreemptError

PAUSED = "Paused: nothing is preempted, no host is switched, no image brought to a host from the next step on."
RESUMED = "Resumed: preempting, power actions and bringing images to hosts are allowed again, as configured."


@click.command("pause")
@config_option
def pause_command(config_path: Path | None) -> None:
    """Stop preempting, switching hosts and copying images to them, at once; VMs are still placed."""
    _switch(config_path, True, PAUSED)


@click.command("resume")
@config_option
def resume_command(config_path: Path | None) -> None:
    """Allow preempting, switching hosts and copying images to them again."""
    _switch(config_path, False, RESUMED)


def _switch(config_path: Path | None, paused: bool, done: str) -> None:
    settings = load_settings(config_path)
    try:
        with closing(open_made_store(settings)) as store:
            store.set_paused(paused, SystemClock().now_s())
    except DatabaseNotMade as error:
        # To make one would say that a daemon is stopped which reads another.
        raise OnePreemptError(
            f"{error}. Nothing was switched: a daemon that runs has another configuration; to begin paused, run "
            "one-preempt db upgrade first"
        ) from None
    click.echo(done)
    url = parsed_url(settings.store.url)
    if is_sqlite(url) and not running_daemon(settings):
        click.echo(f"No daemon writes to {name_of(url)} now: the switch is there for the next one that does.", err=True)
