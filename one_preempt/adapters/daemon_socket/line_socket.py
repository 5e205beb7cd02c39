"""A socket at which one line is asked and one is answered: threads that answer while the process does other things.

Whatever comes in (noise, halves of messages, clients that neither write nor read) costs its sender the connection
and the process nothing: sizes, times and numbers are bounded. Who asks is told by the kernel.
"""

from __future__ import annotations

import json
import socket
import stat
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from one_preempt.adapters.daemon_socket.client import read_line
from one_preempt.bounded_io.few_clients import FairShare, FewClients
from one_preempt.errors import OnePreemptError, why_not_written

MAX_CLIENTS = 16
# Hooks ring all at once: who waits here is answered, or refused in words, a moment later.
MAX_WAITING = 128
OWNER_ALONE, EVERYBODY = 0o600, 0o666
_PEER = struct.Struct("3i")  # pid, uid, gid of SO_PEERCRED

# What to say to a line of a user; None leaves it without an answer, as if nobody were there.
AnswerLine = Callable[[bytes, int], Mapping[str, object] | None]


class SocketUnavailable(OnePreemptError):
    """The socket cannot be made; the message says where and why."""


class LineSocket:
    """Answers by `answer`, which is called in threads of the socket's own and must not wait for anything."""

    def __init__(
        self,
        answer: AnswerLine,
        mode: int,
        key: str,
        timeout_s: float,
        max_clients: int,
        max_of_one_user: int | None = None,
    ) -> None:
        """`mode` says who may open the socket, `key` where the configuration says its place."""
        self._answer = answer
        self._mode = mode
        self._key = key
        self._timeout_s = timeout_s
        too_many = _line(_busy(f"{max_clients} others are being answered"))
        share = None
        if max_of_one_user is not None:
            of_one = _line(_busy(f"{max_of_one_user} others of the same user are being answered"))
            share = FairShare(max_of_one_user, _whose, of_one)
        self._clients = FewClients(self._meet, max_clients, too_many, share=share)

    @contextmanager
    def listening(self, path: Path) -> Iterator[Callable[[], bool]]:
        """Answer at `path` meanwhile; gives a question: is our socket still what stands there?

        Raises `SocketUnavailable`.
        """
        with _listener(path, self._mode, self._key) as listener, ExitStack() as stack:
            mine = _file_at(path)
            stack.callback(_remove, path, mine)
            try:
                stack.enter_context(self._clients.met_at(listener))
            except RuntimeError as error:
                raise SocketUnavailable(f"no socket at {path}: {error}") from None
            yield lambda: _file_at(path) == mine

    def _meet(self, connection: socket.socket) -> None:
        """One client: one line in, one line out. One that goes away, is too slow, or talks too much gets nothing."""
        connection.settimeout(self._timeout_s)
        # What was sent is read before it is refused: to close on unread bytes would take the reason along.
        line = read_line(connection, time.monotonic() + self._timeout_s)
        reply = self._answer(line, peer_user(connection))
        if reply is not None:
            connection.sendall(_line(reply))


def refusal(why: str) -> dict[str, object]:
    """The answer to who is not answered otherwise."""
    return {"ok": False, "error": why}


def _busy(why: str) -> dict[str, object]:
    """The answer to one too many, who was not even heard and may ask again."""
    return refusal(why) | {"busy": True}


def peer_user(connection: socket.socket) -> int:
    """The user id of the process at the other end, as the kernel knows it."""
    _pid, uid, _gid = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return int(uid)


def _whose(connection: socket.socket) -> int:
    return peer_user(connection)


def _remove(path: Path, mine: tuple[int, int] | None) -> None:
    """Take our socket away, unless another one stands there by now."""
    with suppress(OSError):
        if _file_at(path) == mine:
            path.unlink()


def _line(reply: Mapping[str, object]) -> bytes:
    return json.dumps(reply).encode() + b"\n"


def _listener(path: Path, mode: int, key: str) -> socket.socket:
    """A socket at `path`; one that a dead process left behind is replaced."""
    aside = path.with_name(path.name + ".new")
    try:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError as error:
        raise SocketUnavailable(f"no socket at {path}: {error.strerror or error}") from None
    try:
        _demand_free(path, key)
        aside.unlink(missing_ok=True)
        listener.bind(str(aside))
        aside.chmod(mode)
        aside.replace(path)
        listener.listen(MAX_WAITING)
    except OSError as error:
        listener.close()
        raise SocketUnavailable(f"no socket at {path}: {why_not_written(error)}; see {key}") from None
    except OnePreemptError:
        listener.close()
        raise
    return listener


def _file_at(path: Path) -> tuple[int, int] | None:
    """Which file is at a path, by device and inode: an open socket keeps its own. None where none is to be seen."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _demand_free(path: Path, key: str) -> None:
    """Nothing is there but, at most, a socket at which nobody listens."""
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(kind):
        raise SocketUnavailable(f"no socket at {path}: something else is there; see {key}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, suppress(ConnectionRefusedError):
        probe.settimeout(1)
        probe.connect(str(path))
        raise SocketUnavailable(f"no socket at {path}: another process answers there")
