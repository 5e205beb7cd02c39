"""The HTTP server over a real socket: what it refuses, and what a client meets when a fault strikes."""

from __future__ import annotations

import http.client
import socket
import threading
import xmlrpc.client
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace

from one_preempt.simulation.emulator.endpoint_faults import EndpointFault, EndpointFaults, FaultKind
from one_preempt.simulation.emulator.server import DEFAULT_LIMITS, EndpointServer, Limits
from one_preempt.simulation.emulator.wire import Accepted, Call, Fault, Refused


class Recorder:
    """Answers every call with the number of calls so far."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def __call__(self, call: Call) -> Accepted | Refused:
        if call.method == "nosuch":
            raise Fault(-506, "Method 'nosuch' not defined")
        self.calls.append(call)
        return Accepted(len(self.calls))


@contextmanager
def serving(recorder: Recorder, faults: EndpointFaults, limits: Limits = DEFAULT_LIMITS) -> Iterator[EndpointServer]:
    server = EndpointServer(("127.0.0.1", 0), recorder, faults, limits)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def post(server: EndpointServer, body: bytes, path: str = "/RPC2", timeout_s: float = 5.0) -> tuple[int, bytes]:
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=timeout_s)
    try:
        connection.request("POST", path, body, {"Content-Type": "text/xml"})
        response = connection.getresponse()
        assert response.getheader("Connection") == "close"
        return response.status, response.read()
    finally:
        connection.close()


def call_body(method: str = "one.system.version") -> bytes:
    return xmlrpc.client.dumps(("user:password",), method).encode()


def test_a_call_is_answered_and_the_connection_closed() -> None:
    recorder = Recorder()
    with serving(recorder, EndpointFaults()) as server:
        status, body = post(server, call_body())
    assert status == 200
    assert xmlrpc.client.loads(body)[0][0] == [True, 1, 0]
    assert recorder.calls == [Call("one.system.version", ("user:password",))]


def test_an_unknown_method_is_a_fault() -> None:
    with serving(Recorder(), EndpointFaults()) as server:
        _, body = post(server, call_body("nosuch"))
    with pytest.raises(xmlrpc.client.Fault, match="not defined"):
        xmlrpc.client.loads(body)


def test_another_path_is_not_found_and_another_verb_not_served() -> None:
    with serving(Recorder(), EndpointFaults()) as server:
        assert post(server, call_body(), path="/elsewhere")[0] == 404
        address = urlsplit(server.url)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=5)
        connection.request("GET", "/RPC2")
        assert connection.getresponse().status == 501
        connection.close()


def test_a_body_beyond_the_limit_is_refused_before_it_is_read() -> None:
    recorder = Recorder()
    with serving(recorder, EndpointFaults(), replace(DEFAULT_LIMITS, max_request_bytes=1000)) as server:
        status, body = post(server, call_body() + b" " * 1000)
    assert (status, body) == (413, b"a call has at most 1000 bytes\n")
    assert recorder.calls == []


def test_a_length_of_thousands_of_digits_is_refused_as_too_long(capfd: pytest.CaptureFixture[str]) -> None:
    with serving(Recorder(), EndpointFaults()) as server:
        host, port = server.server_address[:2]
        with socket.create_connection((str(host), int(port)), timeout=5) as client:
            client.sendall(b"POST /RPC2 HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 413 ")
    assert capfd.readouterr().err == ""


def test_a_client_that_stops_in_the_middle_is_dropped() -> None:
    recorder = Recorder()
    with serving(recorder, EndpointFaults(), replace(DEFAULT_LIMITS, timeout_s=0.05)) as server:
        host, port = server.server_address[:2]
        with socket.create_connection((str(host), int(port)), timeout=5) as client:
            client.sendall(b"POST /RPC2 HTTP/1.1\r\nContent-Length: 100\r\n\r\n<meth")
            assert client.recv(100) == b""
        assert post(server, call_body())[0] == 200
    assert len(recorder.calls) == 1


@pytest.mark.parametrize("kind", [FaultKind.CLOSE, FaultKind.HANG])
def test_a_closed_connection_has_no_effect(kind: FaultKind) -> None:
    recorder, faults = Recorder(), EndpointFaults()
    faults.add(EndpointFault(kind, delay_s=0.05))
    with serving(recorder, faults) as server:
        with pytest.raises(http.client.RemoteDisconnected):
            post(server, call_body())
        assert recorder.calls == []
        assert post(server, call_body())[0] == 200


def test_a_hanging_endpoint_answers_nothing_until_the_client_gives_up() -> None:
    recorder, faults = Recorder(), EndpointFaults()
    faults.add(EndpointFault(FaultKind.HANG, delay_s=60))
    with serving(recorder, faults) as server, pytest.raises(TimeoutError):
        post(server, call_body(), timeout_s=0.1)
    assert recorder.calls == []


def test_a_lost_reply_leaves_the_effect() -> None:
    recorder, faults = Recorder(), EndpointFaults()
    faults.add(EndpointFault(FaultKind.LOST_REPLY))
    with serving(recorder, faults) as server, pytest.raises(http.client.RemoteDisconnected):
        post(server, call_body())
    assert len(recorder.calls) == 1


def test_a_truncated_reply_is_cut_in_the_middle() -> None:
    recorder, faults = Recorder(), EndpointFaults()
    faults.add(EndpointFault(FaultKind.TRUNCATED))
    with serving(recorder, faults) as server, pytest.raises(http.client.IncompleteRead):
        post(server, call_body())
    assert len(recorder.calls) == 1


def test_a_slow_reply_is_the_right_one() -> None:
    recorder, faults = Recorder(), EndpointFaults()
    faults.add(EndpointFault(FaultKind.SLOW, delay_s=0.05))
    with serving(recorder, faults) as server:
        assert xmlrpc.client.loads(post(server, call_body())[1])[0][0] == [True, 1, 0]


@pytest.mark.parametrize(
    ("kind", "status", "start"),
    [(FaultKind.HTML, 200, b"<!DOCTYPE html>"), (FaultKind.SERVER_ERROR, 500, b"the front")],
)
def test_a_web_page_or_a_server_error_comes_instead_of_the_answer(kind: FaultKind, status: int, start: bytes) -> None:
    recorder, faults = Recorder(), EndpointFaults()
    faults.add(EndpointFault(kind))
    with serving(recorder, faults) as server:
        answer = post(server, call_body())
    assert answer[0] == status
    assert answer[1].startswith(start)
    assert recorder.calls == []


def test_faults_wait_for_their_method_skip_and_count_down() -> None:
    faults = EndpointFaults()
    fault = EndpointFault(FaultKind.CLOSE, method="one.vm.action", count=2, skip=1)
    faults.add(fault)
    struck = [faults.strike(method) is not None for method in ["one.vm.info"] + ["one.vm.action"] * 4]
    assert struck == [False, False, True, True, False]
    faults.add(fault)
    faults.clear()
    assert faults.strike("one.vm.action") is None
