"""The port from which Prometheus reads: HTTP for one page, answered in threads of its own while the daemon schedules.

Whatever comes in (noise, endless headers, clients that neither write nor read, hundreds at once) costs its sender the
connection and the daemon nothing: sizes, times and numbers are bounded.
"""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from one_preempt.bounded_io.few_clients import FewClients
from one_preempt.errors import OnePreemptError

# The page as it is now, or None where a defect keeps it from being written.
Text = Callable[[], bytes | None]

PATH = b"/metrics"
WITHIN_S = 5.0
MAX_CLIENTS = 8
MAX_WAITING = 128
# So many clients a second are let in at most: enough for any Prometheus, and little work if all of them are noise.
CLIENTS_PER_S = 100
MAX_HEAD_BYTES = 8192
_IPV6 = 6
_TEXT = b"text/plain; version=0.0.4; charset=utf-8"
_PLAIN = b"text/plain; charset=utf-8"


class MetricsServerUnavailable(OnePreemptError):
    """The address cannot be listened at; the message says where and why."""


class BadRequest(ValueError):
    """What came is no request that is answered; the text is the status line's."""


class MetricsServer:
    """Answers `GET /metrics` by `text`, which is called in threads of the server's own."""

    def __init__(self, text: Text, within_s: float = WITHIN_S, max_clients: int = MAX_CLIENTS) -> None:
        """`within_s` is all the time that one client has, to ask and to take the answer."""
        self._text = text
        self._within_s = within_s
        too_many = _answer(b"503 Service Unavailable", b"too many ask at once\n")
        self._clients = FewClients(self._meet, max_clients, too_many, rest_s=1 / CLIENTS_PER_S)

    @contextmanager
    def listening(self, host: str, port: int) -> Iterator[Callable[[], bool]]:
        """Answer at this IP address and port meanwhile; gives a question: does it still? It does until the end.

        Raises `MetricsServerUnavailable`.
        """
        with _listener(host, port) as listener, ExitStack() as stack:
            try:
                stack.enter_context(self._clients.met_at(listener))
            except RuntimeError as error:
                raise _unavailable(host, port, str(error)) from None
            yield lambda: True

    def _meet(self, connection: socket.socket) -> None:
        """One client: a request in, an answer out. One that goes away, or is too slow, gets nothing."""
        deadline_s = time.monotonic() + self._within_s
        try:
            answer = self._reply(_head(connection, deadline_s))
        except BadRequest as error:
            answer = _answer(str(error).encode(), b"only GET /metrics is answered\n")
        connection.settimeout(max(0.001, deadline_s - time.monotonic()))
        connection.sendall(answer)

    def _reply(self, head: bytes) -> bytes:
        method, target = _request_line(head)
        if target.partition(b"?")[0] != PATH:
            raise BadRequest("404 Not Found")
        if method not in (b"GET", b"HEAD"):
            raise BadRequest("405 Method Not Allowed")
        text = self._text()
        if text is None:
            return _answer(b"500 Internal Server Error", b"a defect: see the daemon's log\n")
        return _answer(b"200 OK", text, _TEXT, with_body=method == b"GET")


def _head(connection: socket.socket, deadline_s: float) -> bytes:
    """All before the empty line. Raises `BadRequest` where it is too long, OSError where it does not come in time."""
    received = bytearray()
    while b"\r\n\r\n" not in received and b"\n\n" not in received:
        if len(received) > MAX_HEAD_BYTES:
            raise BadRequest("431 Request Header Fields Too Large")
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        connection.settimeout(left_s)
        piece = connection.recv(MAX_HEAD_BYTES)
        if not piece:
            raise ConnectionError
        received += piece
    return bytes(received)


def _request_line(head: bytes) -> tuple[bytes, bytes]:
    """The method and the target of a request."""
    words = head.partition(b"\n")[0].split()
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        raise BadRequest("400 Bad Request")
    return words[0], words[1]


def _answer(status: bytes, body: bytes, kind: bytes = _PLAIN, *, with_body: bool = True) -> bytes:
    lines = (
        b"HTTP/1.1 " + status,
        b"Content-Type: " + kind,
        b"Content-Length: %d" % len(body),
        b"Connection: close",
        b"",
        body if with_body else b"",
    )
    return b"\r\n".join(lines)


def _listener(host: str, port: int) -> socket.socket:
    is_ipv6 = ipaddress.ip_address(host).version == _IPV6
    try:
        listener = socket.socket(socket.AF_INET6 if is_ipv6 else socket.AF_INET, socket.SOCK_STREAM)
    except OSError as error:
        raise _unavailable(host, port, error.strerror or str(error)) from None
    try:
        # After a restart connections of the former process may still be winding up.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(MAX_WAITING)
    except OSError as error:
        listener.close()
        raise _unavailable(host, port, error.strerror or str(error)) from None
    return listener


def _unavailable(host: str, port: int, why: str) -> MetricsServerUnavailable:
    return MetricsServerUnavailable(f"no metrics at {host} port {port}: {why}; see metrics.listen")
