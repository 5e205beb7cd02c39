"""Ask the daemon one short question. Only the standard library: what OpenNebula starts again and again imports this."""

from __future__ import annotations

import json
import socket
import time
from contextlib import suppress

PROTOCOL_VERSION = 1
MAX_MESSAGE_BYTES = 64 * 1024
ANSWER_WITHIN_S = 2.0
CONNECT_AGAIN_S = 0.01


def ask_daemon(
    kind: str, payload: dict[str, object], path: str, timeout_s: float = ANSWER_WITHIN_S
) -> dict[str, object] | None:
    """The daemon's answer, or None where there is none: no daemon, no answer in `timeout_s`, no sense in it.

    `kind` is ``place``, ``hook``, ``status`` or ``wake``. `timeout_s` bounds the whole exchange. An answer has
    ``ok``; where that is false, ``error`` says why: so it is, too, where this user may not ask, for whether a daemon is
    there is not known then, and where so many ask that the daemon does not come to this one. Never raises for what the
    other end does.
    """
    message = json.dumps({**payload, "version": PROTOCOL_VERSION, "kind": kind}).encode() + b"\n"
    if len(message) > MAX_MESSAGE_BYTES:
        return None
    deadline_s = time.monotonic() + timeout_s
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            connect_in_time(connection, path, deadline_s)
            # Who is refused unread can send no more, and is told why all the same.
            with suppress(ConnectionError):
                connection.sendall(message)
            line = read_line(connection, deadline_s)
            answer = json.loads(line)
    except PermissionError:
        return {"ok": False, "error": f"this user may not open {path}: only the daemon's own user and root may"}
    except BlockingIOError:
        return {"ok": False, "error": f"more ask at {path} than the daemon can answer in {timeout_s:g} s"}
    except (OSError, ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) and isinstance(answer.get("ok"), bool) else None


def connect_in_time(connection: socket.socket, path: str, deadline_s: float) -> None:
    """Raises `BlockingIOError` where others wait until the deadline, and `OSError` where nobody listens."""
    while True:
        try:
            connection.connect(path)
            return
        except BlockingIOError:
            # Somebody listens there: what is full is the queue of those who wait for it.
            if time.monotonic() >= deadline_s:
                raise
            time.sleep(CONNECT_AGAIN_S)


def read_line(connection: socket.socket, deadline_s: float, longest: int = MAX_MESSAGE_BYTES) -> bytes:
    """What comes before the first line feed. Raises `OSError` where it does not come in time, or is too long."""
    received = bytearray()
    while b"\n" not in received:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0 or len(received) > longest:
            raise TimeoutError
        connection.settimeout(left_s)
        piece = connection.recv(8192)
        if not piece:
            raise ConnectionError
        received += piece
    return bytes(received[: received.index(b"\n")])
