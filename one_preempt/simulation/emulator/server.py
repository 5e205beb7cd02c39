"""The HTTP server: one request a connection, `Connection: close`, bounded in size, time and number, as oned's."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket
from typing import Any, cast

from msgspec import Struct

from one_preempt.simulation.emulator.endpoint_faults import EndpointFault, EndpointFaults, FaultKind
from one_preempt.simulation.emulator.wire import Accepted, Call, Fault, Refused, decode_call, encode_fault, encode_reply

LOOPBACK = "127.0.0.1"
PATH = "/RPC2"
ClientAddress = Any  # as socketserver has it
_LONGEST_LENGTH_DIGITS = 18
_HTML = b"<!DOCTYPE html><html><head><title>Gateway</title></head><body><h1>It works!</h1></body></html>\n"


class Limits(Struct, frozen=True):
    """What one client may ask of the server; oned's own are 15 connections, 15 s and 1 GiB."""

    max_request_bytes: int = 64 * 1024 * 1024
    max_connections: int = 64
    timeout_s: float = 15.0


DEFAULT_LIMITS = Limits()


class EndpointServer(ThreadingHTTPServer):
    """Answers XML-RPC calls by `answer`, after letting a waiting fault strike. One thread a connection.

    `answer` takes the decoded call and returns its outcome, or raises `Fault`; it does its own locking.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(
        self,
        address: tuple[str, int],
        answer: Callable[[Call], Accepted | Refused],
        faults: EndpointFaults,
        limits: Limits,
    ) -> None:
        self.answer = answer
        self.faults = faults
        self.limits = limits
        self.stopping = threading.Event()
        self.request_queue_size = limits.max_connections
        self._free_connections = threading.BoundedSemaphore(limits.max_connections)
        super().__init__(address, _Handler)

    @property
    def url(self) -> str:
        """Where clients connect."""
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}{PATH}"

    def process_request(self, request: socket | tuple[bytes, socket], client_address: ClientAddress) -> None:
        """Take a connection once a place is free; until then clients wait in the backlog."""
        self._free_connections.acquire()
        super().process_request(request, client_address)

    def process_request_thread(self, request: socket | tuple[bytes, socket], client_address: ClientAddress) -> None:
        """Serve one connection and free its place."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free_connections.release()

    def handle_error(self, request: socket | tuple[bytes, socket], client_address: ClientAddress) -> None:
        """A client that went away in the middle is its own business; all else is a defect of ours and is told."""
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)

    def shutdown(self) -> None:
        """Stop serving; calls that hang on purpose end."""
        self.stopping.set()
        super().shutdown()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "one_preempt-emulator"
    wbufsize = 1 << 16  # head and body leave together

    def setup(self) -> None:
        self.endpoint = cast(EndpointServer, self.server)
        self.request.settimeout(self.endpoint.limits.timeout_s)
        super().setup()

    def do_POST(self) -> None:
        self.close_connection = True
        body = self._read_body()
        if body is None:
            return
        try:
            call = decode_call(body)
        except Fault as no_call:
            self._send(HTTPStatus.OK, "text/xml; charset=utf-8", encode_fault(no_call))
            return
        fault = self.endpoint.faults.strike(call.method)
        if fault is None or fault.kind in (FaultKind.SLOW, FaultKind.TRUNCATED, FaultKind.LOST_REPLY):
            self._send_answer(self._answer(call), fault)
        else:
            self._send_nothing_useful(fault)

    def log_message(self, format: str, *args: object) -> None:
        """The cloud keeps the log of calls; the server adds none."""

    def _read_body(self) -> bytes | None:
        if self.path.partition("?")[0] != PATH:
            self._refuse(HTTPStatus.NOT_FOUND, f"there is nothing at {self.path[:100]}; calls go to {PATH}")
            return None
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "a call needs a Content-Length")
            return None
        if len(length) > _LONGEST_LENGTH_DIGITS or int(length) > self.endpoint.limits.max_request_bytes:
            allowed = self.endpoint.limits.max_request_bytes
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a call has at most {allowed} bytes")
            return None
        return self._read_exactly(int(length))

    def _read_exactly(self, length: int) -> bytes | None:
        """`length` bytes, or None where the client stops or takes longer than the limit over all of them."""
        deadline_s = time.monotonic() + self.endpoint.limits.timeout_s
        chunks: list[bytes] = []
        while length > 0 and time.monotonic() < deadline_s:
            chunk = self.rfile.read1(min(length, 1 << 20))
            if not chunk:
                return None
            chunks.append(chunk)
            length -= len(chunk)
        return b"".join(chunks) if length == 0 else None

    def _answer(self, call: Call) -> bytes:
        try:
            return encode_reply(self.endpoint.answer(call))
        except Fault as fault:
            return encode_fault(fault)

    def _send_answer(self, body: bytes, fault: EndpointFault | None) -> None:
        if fault is not None and fault.kind == FaultKind.LOST_REPLY:
            return
        if fault is not None and fault.kind == FaultKind.SLOW:
            self.endpoint.stopping.wait(fault.delay_s)
        truncated = fault is not None and fault.kind == FaultKind.TRUNCATED
        self._send(HTTPStatus.OK, "text/xml; charset=utf-8", body, sent_bytes=len(body) // 2 if truncated else None)

    def _send_nothing_useful(self, fault: EndpointFault) -> None:
        if fault.kind == FaultKind.HANG:
            self.endpoint.stopping.wait(fault.delay_s)
        elif fault.kind == FaultKind.HTML:
            self._send(HTTPStatus.OK, "text/html", _HTML)
        elif fault.kind == FaultKind.SERVER_ERROR:
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "the front end is ill")

    def _refuse(self, status: HTTPStatus, text: str) -> None:
        self.close_connection = True
        self._send(status, "text/plain; charset=utf-8", text.encode() + b"\n")

    def _send(self, status: HTTPStatus, content_type: str, body: bytes, sent_bytes: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Connection", "close")
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:sent_bytes])
