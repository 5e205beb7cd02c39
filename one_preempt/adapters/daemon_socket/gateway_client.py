"""Ask the gateway between zones: one question a connection, of a process that may be trusted with its answer."""

from __future__ import annotations

import json
import os
import pwd
import socket
import time
from collections.abc import Mapping
from contextlib import suppress

from one_preempt.adapters.daemon_socket.client import MAX_MESSAGE_BYTES, PROTOCOL_VERSION, connect_in_time, read_line
from one_preempt.adapters.daemon_socket.line_socket import peer_user
from one_preempt.errors import OnePreemptError

ANSWER_WITHIN_S = 15.0
ASK_AGAIN_S = 0.1
MAX_ANSWER_BYTES = 1 << 20
"""A list has words of many users, in whichever script, and who listens is trusted."""
OPENNEBULA_USER = "oneadmin"
ROOT = 0


class GatewayUnavailable(OnePreemptError):
    """No usable answer came from the gateway; it may have taken down what it was told."""


class GatewayDeclined(OnePreemptError):
    """The gateway decided that it does not do this, and says why."""


def ask_gateway(
    path: str, kind: str, payload: Mapping[str, object], timeout_s: float = ANSWER_WITHIN_S
) -> dict[str, object]:
    """The gateway's answer. Raises `GatewayUnavailable` and `GatewayDeclined`.

    Who finds all places taken asks again, for `timeout_s` in all: who submits much at once is not to fail for it.
    The answer names an endpoint to which the caller will log in. So who listens there must be root, oneadmin, or the
    caller: anybody else could be after passwords.
    """
    message = json.dumps({**payload, "version": PROTOCOL_VERSION, "kind": kind}).encode() + b"\n"
    if len(message) > MAX_MESSAGE_BYTES:
        raise GatewayUnavailable(f"{len(message)} bytes are too much for one message to the gateway")
    deadline_s = time.monotonic() + timeout_s
    while True:
        answer = _asked_once(path, message, timeout_s, deadline_s)
        if answer.get("busy") is not True or time.monotonic() + ASK_AGAIN_S >= deadline_s:
            break
        time.sleep(ASK_AGAIN_S)
    if answer["ok"]:
        return answer
    why = answer.get("error", "it does not say why")
    if answer.get("declined") is True:
        raise GatewayDeclined(f"the gateway declines: {why}")
    # It is busy, is of another version, or cannot write its ledger: nothing was decided about the request.
    raise GatewayUnavailable(f"the gateway at {path} does not do this: {why}")


def _asked_once(path: str, message: bytes, timeout_s: float, deadline_s: float) -> dict[str, object]:
    """An answer, which has ``ok``. Raises `GatewayUnavailable`."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            connect_in_time(connection, path, deadline_s)
            _demand_trusted(connection, path)
            # Who is refused unread can send no more, and is told why all the same.
            with suppress(ConnectionError):
                connection.sendall(message)
            answer = json.loads(read_line(connection, deadline_s, MAX_ANSWER_BYTES))
    except FileNotFoundError:
        raise GatewayUnavailable(f"there is no gateway at {path}: {_MEND}") from None
    except PermissionError:
        raise GatewayUnavailable(f"you may not open the gateway's socket {path}: {_MEND}") from None
    except ConnectionRefusedError:
        raise GatewayUnavailable(f"the gateway at {path} does not run: {_MEND}") from None
    except BlockingIOError:
        raise GatewayUnavailable(f"more ask the gateway at {path} than it can answer in {timeout_s:g} s") from None
    except (OSError, ValueError, RecursionError) as error:
        raise GatewayUnavailable(f"the gateway at {path}: {_without_answer(error, timeout_s)}; {_MEND}") from None
    if not isinstance(answer, dict) or not isinstance(answer.get("ok"), bool):
        raise GatewayUnavailable(f"the gateway at {path}: {_NOT_READ}; {_MEND}")
    return answer


def _without_answer(error: Exception, timeout_s: float) -> str:
    if isinstance(error, TimeoutError):
        return f"it gave no answer within {timeout_s:g} s"
    if isinstance(error, ConnectionError):
        return "it ended the connection before it answered"
    return error.strerror or str(error) if isinstance(error, OSError) else _NOT_READ


_NOT_READ = "its answer cannot be read, as if something else were listening there"
_MEND = "ask its administrator; without it, one-preempt lease submit creates VMs in a zone of your choice"


def _demand_trusted(connection: socket.socket, path: str) -> None:
    uid = peer_user(connection)
    if uid not in (ROOT, os.geteuid(), _uid_of(OPENNEBULA_USER)):
        raise GatewayUnavailable(
            f"at {path} listens user {uid}, who is neither root nor {OPENNEBULA_USER}: nothing is asked there, because "
            "its answer could send your password anywhere"
        )


def _uid_of(name: str) -> int | None:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None
