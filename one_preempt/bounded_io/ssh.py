"""Programs run on a host by ssh: never with a question to a person, never to a host whose key is not known."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from enum import Enum

from msgspec import Struct

SSH_FAILED = 255
"""The exit code that is ssh's own, and not that of what it ran."""

# The words of ssh before it has logged in, so that nothing was done. What else it says, such as "Connection reset by",
# may come of a session as well: a host that goes down breaks it in any way.
_KEY_WRONG = re.compile(r"^Host key verification failed", re.MULTILINE)
_LOGIN_FAILED = re.compile(
    r"^(?:\S+@\S+: )?Permission denied \([a-z0-9,-]*\)|^Received disconnect from .*: Too many authentication failures",
    re.MULTILINE,
)
_NOBODY_THERE = re.compile(
    r"^(?:ssh: Could not resolve hostname|ssh: connect to (?:host|address) |kex_exchange_identification: "
    r"|Connection timed out during banner exchange)",
    re.MULTILINE,
)


class SshAccess(Struct, frozen=True):
    """How to get in. `forwards_agent`: what runs there may log in elsewhere with our keys."""

    program: str
    port: int = 22
    user: str | None = None
    identity_file: str | None = None
    known_hosts_file: str | None = None
    connect_timeout_s: float = 3.0
    forwards_agent: bool = False


class SshTrouble(Enum):
    """Why ssh itself failed. But for `UNDER_WAY` nothing was done on the host."""

    KEY_WRONG = "its ssh host key is not the known one: add the right key to known_hosts"
    LOGIN_FAILED = "ssh does not let us in"
    NOBODY_THERE = "nobody answers there"
    UNDER_WAY = "ssh failed under way"


def ssh_arguments(access: SshAccess, address: str, vector: Sequence[str]) -> list[str]:
    """What to run here so that `vector` runs there; the shell of the other side gets it quoted."""
    options = {
        "BatchMode": "yes",
        "StrictHostKeyChecking": "yes",
        "ConnectTimeout": str(max(1, round(access.connect_timeout_s))),
        "ConnectionAttempts": "1",
        "ClearAllForwardings": "yes",
        "PermitLocalCommand": "no",
        "ServerAliveInterval": "5",
    }
    if access.known_hosts_file is not None:
        options["UserKnownHostsFile"] = access.known_hosts_file
    if access.identity_file is not None:
        options |= {"IdentityFile": access.identity_file, "IdentitiesOnly": "yes"}
    if access.forwards_agent:
        options["ForwardAgent"] = "yes"
    arguments = [access.program, "-T", "-x", "-p", str(access.port)]
    for name, value in options.items():
        arguments += ["-o", f"{name}={value}"]
    if access.user is not None:
        arguments += ["-l", access.user]
    return [*arguments, "--", address, shlex.join(vector)]


def ssh_trouble(words: str) -> SshTrouble:
    """What ssh means that ended with `SSH_FAILED` and wrote these words."""
    if _KEY_WRONG.search(words):
        return SshTrouble.KEY_WRONG
    if _LOGIN_FAILED.search(words):
        return SshTrouble.LOGIN_FAILED
    return SshTrouble.NOBODY_THERE if _NOBODY_THERE.search(words) else SshTrouble.UNDER_WAY
