"""The daemon's end of the socket: a thread that answers short questions while the daemon schedules.

Whatever comes in (noise, halves of messages, clients that neither write nor read) costs its sender the connection
and the daemon nothing: sizes, times and numbers are bounded, and only trusted users are answered.
"""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import socket
import stat
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from one_preempt.adapters.daemon_socket.client import ANSWER_WITHIN_S, MAX_MESSAGE_BYTES
from one_preempt.adapters.daemon_socket.messages import Message, MessageError, parse_message
from one_preempt.errors import OnePreemptError

MAX_CLIENTS = 16
SERVICE_USER = "oneadmin"
_PEER = struct.Struct("3i")  # pid, uid, gid of SO_PEERCRED

# None leaves a question without an answer, as if nobody were there.
Answer = Callable[[Message], Mapping[str, object] | None]


class SocketUnavailable(OnePreemptError):
    """The socket cannot be made; the message says where and why."""


def trusted_users() -> frozenset[int]:
    """The daemon's own user, root, and oneadmin where there is one."""
    users = {os.geteuid(), 0}
    with suppress(KeyError):
        users.add(pwd.getpwnam(SERVICE_USER).pw_uid)
    return frozenset(users)


class DaemonSocket:
    """Answers by `answer`, which is called in the socket's own thread and must not wait for anything."""

    def __init__(
        self,
        answer: Answer,
        users: frozenset[int],
        timeout_s: float = ANSWER_WITHIN_S,
        max_clients: int = MAX_CLIENTS,
    ) -> None:
        self._answer = answer
        self._users = users
        self._timeout_s = timeout_s
        self._max_clients = max_clients
        self._clients = 0

    @contextmanager
    def listening(self, path: Path) -> Iterator[None]:
        """Answer at `path` meanwhile. Raises `SocketUnavailable`."""
        listener = _listener(path)
        mine = path.stat().st_ino
        loop = asyncio.new_event_loop()
        stop = asyncio.Event()
        thread = threading.Thread(target=loop.run_until_complete, args=(self._serve(listener, stop),), daemon=True)
        thread.start()
        try:
            yield
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join()
            loop.close()
            with suppress(OSError):
                if path.stat().st_ino == mine:
                    path.unlink()

    async def _serve(self, listener: socket.socket, stop: asyncio.Event) -> None:
        server = await asyncio.start_unix_server(self._meet, sock=listener, limit=MAX_MESSAGE_BYTES)
        await stop.wait()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client: one line in, one line out."""
        self._clients += 1
        try:
            async with asyncio.timeout(self._timeout_s):
                reply = await self._reply(reader, writer)
                if reply is not None:
                    writer.write(json.dumps(reply).encode() + b"\n")
                writer.close()
                await writer.wait_closed()
        except (OSError, asyncio.IncompleteReadError):
            pass  # it went away, or was too slow
        finally:
            writer.transport.abort()
            self._clients -= 1

    async def _reply(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Mapping[str, object] | None:
        if self._clients > self._max_clients:
            return _refusal(f"{self._max_clients} others are being answered")
        if _user_of(writer) not in self._users:
            return _refusal("only oneadmin, root and the daemon's own user are answered")
        try:
            return self._answer(parse_message(await reader.readuntil(b"\n")))
        except asyncio.LimitOverrunError:
            return _refusal(f"a message has at most {MAX_MESSAGE_BYTES} bytes")
        except MessageError as error:
            return _refusal(str(error))


def _refusal(why: str) -> dict[str, object]:
    return {"ok": False, "error": why}


def _user_of(writer: asyncio.StreamWriter) -> int:
    """The user id of the process at the other end, as the kernel knows it."""
    connection: socket.socket = writer.get_extra_info("socket")
    _pid, uid, _gid = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return int(uid)


def _listener(path: Path) -> socket.socket:
    """A socket at `path` for its owner alone; one that a dead daemon left behind is replaced."""
    aside = path.with_name(path.name + ".new")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _demand_free(path)
        aside.unlink(missing_ok=True)
        listener.bind(str(aside))
        aside.chmod(0o600)
        aside.replace(path)
        listener.listen(MAX_CLIENTS)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise SocketUnavailable(f"no socket at {path}: {error.strerror or error}; see socket.path") from None
    except OnePreemptError:
        listener.close()
        raise
    return listener


def _demand_free(path: Path) -> None:
    """Nothing is there but, at most, a socket at which nobody listens."""
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(kind):
        raise SocketUnavailable(f"no socket at {path}: something else is there; see socket.path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, suppress(ConnectionRefusedError):
        probe.settimeout(1)
        probe.connect(str(path))
        raise SocketUnavailable(f"no socket at {path}: another daemon answers there")
