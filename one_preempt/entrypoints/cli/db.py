"""`db upgrade`: bring the database of leases to the schema of this version."""

from __future__ import annotations

from pathlib import Path

import click

from one_preempt.adapters.lease_store.named_database import GATEWAY_LEDGER
from one_preempt.adapters.lease_store.schema import upgrade
from one_preempt.configuration.settings import load_settings
from one_preempt.entrypoints.cli.options import config_option


@click.group("db")
def db_command() -> None:
    """Look after the database of leases."""


@db_command.command("upgrade", short_help="Create the database, or bring it up to date.")
@config_option
def db_upgrade(config_path: Path | None) -> None:
    """Create the database or bring it up to date; one that is up to date is left alone.

    The same is done for the gateway's ledger, if there is one. An older SQLite database is copied first: to
    leases.db.schema-0006, for example, which a program of that time can read.
    """
    settings = load_settings(config_path)
    revision = upgrade(settings.store.url, _tell_copy)
    click.echo(f"The database of leases has schema {revision}, the newest.")
    if settings.gateway.zones:
        revision = upgrade(settings.gateway.store_url, _tell_copy, GATEWAY_LEDGER)
        click.echo(f"The ledger of the gateway has schema {revision}, the newest.")


def _tell_copy(copy: Path) -> None:
    click.echo(f"The database as it was: {copy}")
