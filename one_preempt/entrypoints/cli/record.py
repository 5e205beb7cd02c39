"""`record`: the live cloud as one file that `plan --from` and the emulator read."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import click

from one_preempt.adapters.clock import SystemClock
from one_preempt.adapters.recorded.recording import write_recording
from one_preempt.composition import open_transport
from one_preempt.configuration.settings import Settings, load_settings
from one_preempt.entrypoints.cli.options import config_option
from one_preempt.explanation.explain import printable

MOST_SHOWN = 20


@click.command("record")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False))
@config_option
def record_command(path: Path, config_path: Path | None) -> None:
    """Save the cloud to FILE: only what decisions depend on, and nothing whose name sounds like a secret."""
    settings = load_settings(config_path)
    with closing(open_transport(settings)) as transport:
        named_by_users = write_recording(transport, path, SystemClock().now_s(), attributes_of_rules(settings))
    click.echo(f"Recorded {path}; rehearse on it with: one-preempt plan --from {path}")
    if named_by_users:
        listed = _listed(named_by_users)
        click.echo(f"Before you pass it on: it has {listed}, as users' requirements or ranks name them.")


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else ""
    return ", ".join(printable(name, 40) for name in names[:MOST_SHOWN]) + more


def attributes_of_rules(settings: Settings) -> frozenset[str]:
    """The names in user templates that the administrator's rules look at."""
    return frozenset(name for rule in settings.leases.rules for name in rule.match.attributes)
