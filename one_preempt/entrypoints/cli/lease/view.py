"""Who is asking: the administrator, who can read the configuration and its database, or an owner of VMs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from one_preempt.composition import open_transport
from one_preempt.configuration.settings import Settings, configuration_path, load_settings

if TYPE_CHECKING:
    from one_preempt.adapters.opennebula.owner_account import OwnerAccount

mine_option = click.option(
    "--mine",
    "--from-opennebula",
    "mine",
    is_flag=True,
    help="Only your own leases, as OpenNebula knows them, even if you can read the database.",
)


def administrators_settings(config_path: Path | None, mine: bool) -> Settings | None:
    """The settings whose database is to be read; None where the caller gets the view of an owner.

    A configuration or database that its reader has no right to makes an owner of an administrator, and that is said;
    what is broken raises `OnePreemptError`.
    """
    if mine:
        return None
    path = configuration_path(config_path)
    if path is not None and _forbidden(path, os.R_OK):
        _say_so(config_path, path)
        return None
    settings = load_settings(config_path)
    file = _database_file(settings)
    if file is None:
        return settings
    if _forbidden(file, os.R_OK | os.W_OK):
        _say_so(config_path, file)
        return None
    return settings if config_path is not None or os.path.exists(file) else None


@contextmanager
def own_account() -> Iterator[OwnerAccount]:
    """The cloud with the caller's own endpoint and credentials; no configuration is read."""
    from one_preempt.adapters.opennebula.owner_account import OwnerAccount

    with closing(open_transport(Settings())) as transport:
        yield OwnerAccount(transport)


def _say_so(config_path: Path | None, unreadable: Path) -> None:
    if config_path is not None:
        click.echo(f"you cannot read {unreadable}: this is what OpenNebula says about your own leases", err=True)


def _database_file(settings: Settings) -> Path | None:
    """The file of the database; None where it is on a server."""
    from one_preempt.adapters.lease_store.named_database import is_sqlite, parsed_url

    url = parsed_url(settings.store.url)
    return Path(str(url.database)) if is_sqlite(url) else None


def _forbidden(path: Path, access: int) -> bool:
    """It, or a folder on the way to it, is closed to us; what is closed to everybody is broken instead."""
    from one_preempt.adapters.lease_store.database_failures import takes_no_writing

    try:
        path.stat()
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    if os.access(path, access):
        return False
    return not (os.access(path, os.R_OK) and takes_no_writing(path.parent))
