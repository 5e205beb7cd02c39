"""Names of hosts that may be put into addresses and argument vectors."""

from __future__ import annotations

import re
from functools import lru_cache

_HOST_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")

HOST_NAME_HINT = "only letters, digits, '.', '_' and '-', and no '-' or '.' at its ends"


@lru_cache(maxsize=1 << 14)
def is_host_name(name: str) -> bool:
    """Whether `name` is a host name or IPv4 address: no option, no path, nothing that any program takes apart."""
    return _HOST_NAME.fullmatch(name) is not None
