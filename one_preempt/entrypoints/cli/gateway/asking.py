"""How commands ask the gateway, and who their caller is in a zone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from one_preempt.adapters.daemon_socket.gateway_client import GatewayUnavailable, ask_gateway
from one_preempt.configuration.settings import Settings, SettingsForbidden, load_settings
from one_preempt.errors import OnePreemptError
from one_preempt.gateway_composition import open_zone_transport

if TYPE_CHECKING:
    from one_preempt.adapters.opennebula.owner_account import OwnerAccount

Ask = Callable[..., dict[str, Any]]

socket_option = click.option(
    "--socket",
    "socket_path",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Where the gateway answers; by default where the configuration says.",
)


def asking(config_path: Path | None, socket_path: Path | None) -> Ask:
    """What asks the gateway: a kind of message and its fields; see `ask_gateway`.

    Users may not read the usual configuration on OpenNebula 7.x: then the gateway is where it is as shipped.
    """
    path = str(socket_path) if socket_path is not None else _settings(config_path).gateway.socket

    def ask(kind: str, **fields: object) -> dict[str, Any]:
        return ask_gateway(path, kind, fields)

    return ask


def _settings(config_path: Path | None) -> Settings:
    try:
        return load_settings(config_path)
    except SettingsForbidden:
        if config_path is not None:
            raise
        return Settings()


@contextmanager
def account_in(zone: str, endpoint: object) -> Iterator[OwnerAccount]:
    """The caller in a zone, with own credentials; no configuration is read. Raises `OnePreemptError`."""
    from one_preempt.adapters.opennebula.owner_account import OwnerAccount

    if not isinstance(endpoint, str):
        raise OnePreemptError(
            f"the gateway does not say where zone {zone!r} is: its administrator took it out of gateway.zones, and has "
            "to put it back for what is there to be found, or to give up what is there (gateway give-up)"
        )
    with closing(open_zone_transport(Settings(), endpoint)) as transport:
        yield OwnerAccount(transport)


def told(answer: dict[str, Any], key: str, kind: type) -> Any:
    """A field of the gateway's answer. Raises `GatewayUnavailable` where it is another thing."""
    value = answer.get(key)
    if not isinstance(value, kind):
        raise GatewayUnavailable(f"the gateway's answer has no {key}: is it of another version?")
    return value
