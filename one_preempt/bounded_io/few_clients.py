"""A few clients of a listening socket at a time, each met in a thread of its own, while the process does other things.

However many come, and whatever they do or leave undone, the process has only so many threads for them.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress

from msgspec import Struct

ACCEPT_AGAIN_S = 0.1

# One client: who goes away, or is too slow, may end it by an OSError.
Meet = Callable[[socket.socket], None]


class FairShare(Struct, frozen=True):
    """How many places one and the same has at most, so that nobody has all of them.

    `whose` tells who is at the other end of a connection; `refusal` is for one too many of these.
    """

    places: int
    whose: Callable[[socket.socket], Hashable]
    refusal: bytes


class _Client(Struct, frozen=True):
    thread: threading.Thread
    whose: Hashable


class FewClients:
    """Lets clients in; `meet` is called in threads and must bound how long a client takes."""

    def __init__(
        self, meet: Meet, max_clients: int, refusal: bytes, rest_s: float = 0.0, share: FairShare | None = None
    ) -> None:
        """`refusal` is sent to one too many, as far as it can be at once; after each client nobody is let in for
        `rest_s`, which bounds what those who come all the time can cost."""
        self._meet_one = meet
        self._max_clients = max_clients
        self._refusal = refusal
        self._rest_s = rest_s
        self._share = share
        self._lock = threading.Lock()
        self._clients: dict[socket.socket, _Client] = {}
        self._stopping = threading.Event()

    @contextmanager
    def met_at(self, listener: socket.socket) -> Iterator[None]:
        """Let clients of `listener` in meanwhile; whoever is still there at the end is sent away.

        Raises RuntimeError where there is no thread for it.
        """
        thread = threading.Thread(target=self._let_in, args=(listener,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            self._send_away()

    def _let_in(self, listener: socket.socket) -> None:
        """Give each client a thread, as long as there are not too many."""
        while not self._stopping.is_set():
            try:
                connection, _address = listener.accept()
            except OSError:  # the end; or no descriptor is left, which passes
                self._stopping.wait(ACCEPT_AGAIN_S)
                continue
            if refusal := self._refusal_of(connection):
                with connection, suppress(OSError):
                    connection.setblocking(False)
                    connection.send(refusal)
            if self._rest_s:
                self._stopping.wait(self._rest_s)

    def _refusal_of(self, connection: socket.socket) -> bytes:
        """What is said to one too many; b'' where there was a place, and a thread, for it."""
        thread = threading.Thread(target=self._meet, args=(connection,), daemon=True)
        whose = None if self._share is None else self._share.whose(connection)
        with self._lock, suppress(RuntimeError):
            if self._share is not None and self._places_of(whose) >= self._share.places:
                return self._share.refusal
            if len(self._clients) < self._max_clients:
                thread.start()
                self._clients[connection] = _Client(thread, whose)
                return b""
        return self._refusal

    def _places_of(self, whose: Hashable) -> int:
        return sum(client.whose == whose for client in self._clients.values())

    def _send_away(self) -> None:
        with self._lock:
            left = dict(self._clients)
        for connection, client in left.items():
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            client.thread.join()

    def _meet(self, connection: socket.socket) -> None:
        try:
            with suppress(OSError):
                self._meet_one(connection)
        finally:
            # Who has seen the end of its connection may count on that its place is free.
            with self._lock:
                del self._clients[connection]
            connection.close()
