"""Whether the addresses that the configuration names are such, as far as that is seen without trying them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from one_preempt.configuration.shown_url import without_password

SQLITE_EXAMPLE = "sqlite:////var/lib/one/one_preempt/leases.db"
IPV6 = 6
# What the kernel takes for a socket, less what is added to the name while it is made.
LONGEST_SOCKET_PATH_BYTES = 107 - len(".new")
_SCHEME = re.compile(r"[A-Za-z0-9_]+(?:\+[A-Za-z0-9_]+)?")
_LISTEN = re.compile(r"(?P<host>[0-9.]{1,15}|\[[0-9A-Fa-f:.]{2,45}\]):(?P<port>[0-9]{1,5})")
_TCP = re.compile(r"tcp://(?P<host>[^\s/:*]+|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})")


def address_faults(
    endpoint: str | None, events_endpoint: str, store_url: str, metrics_listen: str | None
) -> Iterator[str]:
    """One sentence each for what can never be reached, with its key and the mend; passwords are left out."""
    if endpoint is not None and (why := endpoint_fault(endpoint)):
        yield f"opennebula.endpoint {why}"
    if not _is_bus(events_endpoint):
        yield f"events.endpoint {_shown(events_endpoint)} is no ZeroMQ address: write one such as tcp://localhost:2101"
    if why := store_fault(store_url):
        yield f"store.url {why}"
    if metrics_listen is not None and listening_address(metrics_listen) is None:
        yield (
            f"metrics.listen {metrics_listen[:80]!r} is no IP address with a port: "
            "write one such as 127.0.0.1:9640, or '[::1]:9640'"
        )


def endpoint_fault(endpoint: str) -> str:
    """Why this is no endpoint of OpenNebula, beginning with what stands there; '' where it may be one."""
    if _is_web_url(endpoint):
        return ""
    return f"{_shown(endpoint)} is no http or https URL: write one such as http://localhost:2633/RPC2"


def store_fault(url: str, example: str = SQLITE_EXAMPLE) -> str:
    """Why this names no database, beginning with what stands there; '' where it may name one."""
    why = _store_fault(url, example)
    return f"{_shown(url)} {why}" if why else ""


def listening_address(text: str) -> tuple[str, int] | None:
    """The IP address and the port in such as 127.0.0.1:9640 or [::1]:9640; None where these are none."""
    found = _LISTEN.fullmatch(text)
    if found is None:
        return None
    try:
        address = ipaddress.ip_address(found["host"].strip("[]"))
    except ValueError:
        return None
    is_bracketed, port = found["host"].startswith("["), int(found["port"])
    return (str(address), port) if is_bracketed == (address.version == IPV6) and 0 < port < 1 << 16 else None


def _is_web_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


def _is_bus(address: str) -> bool:
    if address.startswith("ipc:///"):
        return True
    tcp = _TCP.fullmatch(address)
    return tcp is not None and 0 < int(tcp["port"]) < 1 << 16


def _store_fault(url: str, example: str) -> str:
    """The store itself looks closer, once it is opened; what is found here is told with the configuration's name."""
    scheme, separator, rest = url.partition("://")
    if not separator or not _SCHEME.fullmatch(scheme):
        return f"is no database URL: write for example {example}, or postgresql+psycopg://user:password@host/database"
    if scheme.partition("+")[0] != "sqlite":
        return ""
    host, _, file = rest.partition("?")[0].partition("/")
    if not host and file in ("", ":memory:"):
        return f"keeps nothing, because it must be a file: write for example {example}"
    if host or not PurePosixPath(file).is_absolute():
        return f"has no absolute path: write four slashes, for example {example}"
    return ""


def _shown(url: str) -> str:
    return repr(without_password(url)[:80])
