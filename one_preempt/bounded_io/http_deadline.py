"""HTTP connections whose answers have a total deadline.

The read timeout of `requests` starts again with every byte, so an endpoint that dribbles can hold a call
for days. Here each wait for bytes, of headers or body, is cut to what is left of the whole.
"""

from __future__ import annotations

import http.client
import io
import time
from typing import Any, ClassVar

from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager, ProxyManager
from urllib3.connection import HTTPConnection, HTTPSConnection


class DeadlineAdapter(HTTPAdapter):
    """Mounts connections that give an answer `total_s` seconds from the sending of the request."""

    def __init__(self, total_s: float) -> None:
        self._pools = _pools_with_deadline(total_s)
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make the manager of direct connections."""
        super().init_poolmanager(*args, **kwargs)
        self._give_deadline(self.poolmanager)

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> ProxyManager:
        """Make the manager of connections through a proxy."""
        manager: ProxyManager = super().proxy_manager_for(*args, **kwargs)
        self._give_deadline(manager)
        return manager

    def _give_deadline(self, manager: PoolManager) -> None:
        manager.pool_classes_by_scheme = self._pools


class _DeadlineStream(io.RawIOBase):
    """The bytes of one answer, until its deadline."""

    def __init__(self, raw: io.RawIOBase, sock: Any, total_s: float) -> None:
        super().__init__()
        self._raw = raw
        self._socket = sock
        self._idle_s: float | None = sock.gettimeout()
        self._ends_at = time.monotonic() + total_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        left_s = self._ends_at - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the deadline of the whole answer has passed")
        self._socket.settimeout(left_s if self._idle_s is None else min(left_s, self._idle_s))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _DeadlineResponse(http.client.HTTPResponse):
    total_s: ClassVar[float]

    def __init__(self, sock: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp = io.BufferedReader(_DeadlineStream(self.fp.detach(), sock, self.total_s))


def answer_within(total: float) -> type[http.client.HTTPResponse]:
    """The `response_class` of connections of `http.client` whose answer is complete so many seconds after its request.

    Reading it raises TimeoutError else.
    """

    class Response(_DeadlineResponse):
        total_s = total

    return Response


def _pools_with_deadline(total_s: float) -> dict[str, type[HTTPConnectionPool]]:
    answer = answer_within(total_s)

    class PlainConnection(HTTPConnection):
        response_class = answer

    class TlsConnection(HTTPSConnection):
        response_class = answer

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = PlainConnection

    class TlsPool(HTTPSConnectionPool):
        ConnectionCls = TlsConnection

    return {"http": PlainPool, "https": TlsPool}
