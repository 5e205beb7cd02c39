"""`daemon`: the scheduler."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from one_preempt.configuration.settings import load_settings
from one_preempt.entrypoints.cli.options import config_option
from one_preempt.entrypoints.daemon import run_daemon, run_stepwise


@click.command("daemon")
@config_option
@click.option(
    "--stepwise",
    is_flag=True,
    help="One cycle for each line on standard input (an instant, in seconds since the epoch, or an empty line).",
)
def daemon_command(config_path: Path | None, stepwise: bool) -> int:
    """Run the scheduler until it is stopped: by Ctrl-C, SIGTERM or systemd."""
    settings = load_settings(config_path)
    if stepwise:
        return run_stepwise(settings, sys.stdin, sys.stdout)
    return run_daemon(settings)
