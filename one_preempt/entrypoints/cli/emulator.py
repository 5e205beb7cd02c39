"""`emulator`: a simulated cloud that answers as OpenNebula does, for rehearsals."""

from __future__ import annotations

from pathlib import Path

import click

from one_preempt.entrypoints.cli.options import NumberRange
from one_preempt.simulation.emulator.process import run_emulator
from one_preempt.simulation.emulator.server import LOOPBACK


@click.command("emulator")
@click.option(
    "--description",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A cloud described in YAML; without it and --recording, the one of the demonstration.",
)
@click.option(
    "--recording",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="A recording made by `record`, or a folder of raw pool documents of oned.",
)
@click.option("--host", default=LOOPBACK, show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=2633, show_default=True, help="Port to listen on; 0: a free one."
)
@click.option(
    "--speed",
    type=NumberRange(min=0, min_open=True, max=1e6),
    default=1.0,
    show_default=True,
    help="Seconds of the cloud that pass in a second.",
)
@click.option("--virtual-time", is_flag=True, help="Time stands still until a control method moves it.")
@click.option("--control", is_flag=True, help="Offer the methods that move time and let things fail.")
@click.option("--events", metavar="ENDPOINT", help="Publish changes of state there, such as tcp://127.0.0.1:2101.")
def emulator_command(
    description: Path | None,
    recording: Path | None,
    host: str,
    port: int,
    speed: float,
    virtual_time: bool,
    control: bool,
    events: str | None,
) -> None:
    """Serve a simulated cloud as an OpenNebula endpoint until interrupted.

    It says where it listens: name that in ONE_XMLRPC, and in ONE_AUTH a file with the one line
    oneadmin:opennebula. A recording has no passwords; there everybody's password is the name.
    """
    run_emulator(description, recording, host, port, speed, virtual_time, control, events)
