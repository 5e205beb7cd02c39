"""The port for metrics under honest, slow, broken and hostile clients."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from one_preempt.adapters.metrics.server import MAX_HEAD_BYTES, MetricsServer, MetricsServerUnavailable
from tests.scraped import fetched, free_port

PAGE = b"# TYPE up gauge\nup 1\n"
PATIENCE_S = 20
HUNDRED = 100


@contextmanager
def serving(within_s: float = PATIENCE_S, max_clients: int = 8, page: bytes | None = PAGE) -> Iterator[int]:
    port = free_port()
    with MetricsServer(lambda: page, within_s, max_clients).listening("127.0.0.1", port):
        yield port


@contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
        yield client


def raw(port: int, *pieces: bytes) -> bytes:
    """All that comes back for these bytes."""
    with connected(port) as client:
        received = b""
        with suppress(ConnectionError):
            for piece in pieces:
                client.sendall(piece)
            while more := client.recv(65536):
                received += more
        return received


def drip(client: socket.socket) -> None:
    """Send byte after byte, until the other end has had enough."""
    client.settimeout(0.001)
    while True:
        client.sendall(b"x")
        with suppress(TimeoutError):
            if not client.recv(1):
                raise ConnectionError


def test_the_page_is_served_as_text_of_prometheus() -> None:
    with serving() as port:
        assert fetched(port) == (200, "text/plain; version=0.0.4; charset=utf-8", PAGE.decode())
        assert fetched(port, path="/metrics?name=x")[0] == 200
        status, _kind, body = fetched(port, "HEAD")
        assert (status, body) == (200, "")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"404"),
        (b"GET /metrics/../etc/passwd HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\n12345", b"405"),
        (b"GET /metrics\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/2\r\n\r\n", b"400"),
        (b"\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\n\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 3 * MAX_HEAD_BYTES, b"431"),
        (b"GET /" + b"x" * 3 * MAX_HEAD_BYTES, b"431"),
    ],
)
def test_noise_is_refused_and_the_next_reader_served(request_bytes: bytes, status: bytes) -> None:
    with serving() as port:
        answer = raw(port, request_bytes)
        # To close on what is unread may take the answer along.
        assert answer.startswith(b"HTTP/1.1 " + status) or (status in (b"431", b"405") and answer == b"")
        assert fetched(port)[0] == 200


def test_a_request_in_pieces_is_put_together() -> None:
    with serving() as port:
        assert raw(port, b"GET /met", b"rics HTTP/1.1\r\nHost:", b" me\r\n\r", b"\n").endswith(PAGE)


def test_who_asks_too_slowly_or_does_not_read_is_left_with_nothing() -> None:
    # Larger than what systems keep for a reader that does not read.
    with serving(within_s=0.05, page=b"x" * (1 << 25)) as port, ExitStack() as stack:
        assert raw(port, b"GET /metrics HT") == b""
        silent = stack.enter_context(connected(port))
        silent.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        drips = stack.enter_context(connected(port))
        with pytest.raises(OSError):
            drip(drips)
        # Nobody is in the way any more.
        assert len(raw(port, b"GET / HTTP/1.1\r\n\r\n")) > 0


def test_a_hundred_at_once_have_a_few_threads_and_the_next_reader_is_served() -> None:
    threads = threading.active_count()
    with serving(max_clients=4) as port, ExitStack() as stack:
        crowd = [stack.enter_context(connected(port)) for _ in range(HUNDRED)]
        refused = [client for client in crowd[4:] if client.recv(1000).startswith(b"HTTP/1.1 503")]
        assert len(refused) == HUNDRED - 4
        assert threading.active_count() - threads <= 5
        stack.close()
        while fetched(port)[0] != 200:
            pass


def test_clients_that_hang_do_not_keep_it_from_ending() -> None:
    with serving() as port, connected(port) as silent:
        silent.sendall(b"GET")
        began_s = time.monotonic()
    assert time.monotonic() - began_s < PATIENCE_S / 2


def test_a_page_that_cannot_be_written_is_said_to_be_a_defect() -> None:
    with serving(page=None) as port:
        assert fetched(port)[0] == 500


def test_a_port_that_is_taken_is_named_and_free_again_when_the_other_ends() -> None:
    with serving() as port:
        with (
            pytest.raises(MetricsServerUnavailable) as caught,
            MetricsServer(lambda: PAGE).listening("127.0.0.1", port),
        ):
            pass
        assert str(caught.value) == f"no metrics at 127.0.0.1 port {port}: Address already in use; see metrics.listen"
        assert fetched(port)[0] == 200
    with MetricsServer(lambda: PAGE).listening("127.0.0.1", port):
        assert fetched(port)[0] == 200


def test_an_address_that_is_not_of_this_machine_is_named() -> None:
    with (
        pytest.raises(MetricsServerUnavailable, match="port 9640: Cannot assign requested address; see metrics"),
        MetricsServer(lambda: PAGE).listening("192.0.2.1", 9640),
    ):
        pass


def test_it_listens_by_ipv6_too() -> None:
    port = free_port()
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    with MetricsServer(lambda: PAGE).listening("::1", port), socket.create_connection(("::1", port)) as client:
        client.sendall(b"GET /metrics HTTP/1.0\n\n")
        assert client.makefile("rb").read().endswith(PAGE)
