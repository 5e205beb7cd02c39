"""`gateway run`: the gateway itself."""

from __future__ import annotations

from pathlib import Path

import click

from one_preempt.configuration.settings import load_settings
from one_preempt.entrypoints.cli.options import config_option
from one_preempt.entrypoints.gateway_service import run_gateway


@click.command("run")
@config_option
def gateway_run(config_path: Path | None) -> int:
    """Run the gateway until it is stopped; for the administrator. It creates and ends nothing in any zone."""
    return run_gateway(load_settings(config_path))
