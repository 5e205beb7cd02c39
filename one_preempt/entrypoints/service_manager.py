"""Tell systemd how the daemon is (sd_notify); without systemd nothing happens."""

from __future__ import annotations

import os
import socket
from contextlib import suppress


def notify(state: str) -> None:
    """Send ``READY=1``, ``WATCHDOG=1`` or ``STOPPING=1``."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection, suppress(OSError):
            connection.sendto(state.encode(), address.replace("@", "\0", 1) if address[0] == "@" else address)
