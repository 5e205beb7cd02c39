from __future__ import annotations

import errno
import gzip
import json
import os
import xmlrpc.client
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import requests

from one_preempt.adapters.opennebula.credentials import Credentials
from one_preempt.adapters.opennebula.oned_errors import OnedError
from one_preempt.adapters.opennebula.pool_reader import CALLS
from one_preempt.adapters.opennebula.transport import READ_ONLY_METHODS, Limits, OnedTransport
from one_preempt.adapters.opennebula.trusted_pools import POOLS
from one_preempt.adapters.opennebula.xmlrpc_reply import Reply
from one_preempt.ports import CloudUnavailable, NothingSent

RECORDINGS = Path(__file__).resolve().parents[2] / "recordings"
NAMES = {
    0x100: "AUTHENTICATION", 0x200: "AUTHORIZATION", 0x400: "NO_EXISTS", 0x800: "ACTION", 0x1000: "XML_RPC_API",
    0x2000: "INTERNAL", 0x4000: "ALLOCATE", 0x8000: "LOCKED", 0x10000: "REPLICATION",
    -501: "WRONG_PARAMETERS", -506: "UNKNOWN_METHOD",
}  # fmt: skip


def recorded_errors() -> list[Any]:
    return [
        pytest.param(row, id=f"{version} {row['what']}")
        for version in ("7.4.0", "6.10.0")
        for row in json.loads((RECORDINGS / version / "errors.json").read_text())
    ]


@pytest.mark.parametrize("row", recorded_errors())
def test_every_recorded_answer_arrives_whole_and_every_refusal_has_its_name(
    row: dict[str, Any], endpoint: Any, patient_transport: OnedTransport
) -> None:
    if "fault_code" in row:
        answer = xmlrpc.client.dumps(xmlrpc.client.Fault(row["fault_code"], row["fault_string"]), methodresponse=True)
        code, object_id, text = row["fault_code"], -1, row["fault_string"]
    else:
        answer = xmlrpc.client.dumps((row["reply"],), methodresponse=True)
        code, object_id, text = row["reply"][2], (row["reply"] + [-1])[3], row["reply"][1]
    endpoint.answers(answer.encode())

    if "reply" in row and row["reply"][0]:
        given = patient_transport.call(row["method"], *row["params"])
        assert (given.ok, given.value, given.error_code) == (True, text, 0)
    else:
        with pytest.raises(OnedError) as caught:
            patient_transport.call(row["method"], *row["params"]).checked()
        error = caught.value
        assert (error.code, error.code_name, error.object_id, error.text) == (code, NAMES[code], object_id, text)
        assert type(error) is not OnedError
    assert endpoint.calls[0] == (row["method"], tuple(row["params"]))


def test_a_refusal_keeps_all_five_items(endpoint: Any, transport: OnedTransport) -> None:
    endpoint.answers(xmlrpc.client.dumps(([False, "no", 0x8000, 17, 3],), methodresponse=True).encode())
    assert transport.call("one.vm.action", "stop", 17) == Reply(False, "no", 0x8000, 17, 3)


def test_a_code_that_no_oned_has_yet_is_still_a_named_refusal(endpoint: Any, transport: OnedTransport) -> None:
    endpoint.answers(xmlrpc.client.dumps(([False, "new", 0x20000, 1, -1],), methodresponse=True).encode())
    with pytest.raises(OnedError, match="new") as caught:
        transport.call("one.vm.action", "stop", 1).checked()
    assert (caught.value.code, caught.value.code_name) == (0x20000, "UNKNOWN_CODE")


def test_the_session_is_sent_first_and_shown_nowhere(endpoint: Any, transport: OnedTransport) -> None:
    endpoint.answers(b"<html>no</html>")
    with pytest.raises(CloudUnavailable) as caught:
        transport.call("one.vm.info", 3, False)
    assert endpoint.sessions == ["oneadmin:canary-password"]
    assert endpoint.calls == [("one.vm.info", (3, False))]
    assert "canary" not in f"{caught.value} {caught.value!r} {vars(transport)}"


def http(status: int, body: bytes, *headers: tuple[str, str]) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in (*headers, ("Content-Length", str(len(body)))):
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def cut_off(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "5000")
    handler.end_headers()
    handler.wfile.write(b"<?xml version='1.0'?><methodResponse>")


def closed(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True


GOOD = xmlrpc.client.dumps(([True, "<VM_POOL></VM_POOL>", 0],), methodresponse=True).encode()
NESTED_ENTITIES = b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "bbbb">]><methodResponse>&b;</methodResponse>'
HOSTILE = {
    "an answer in HTML": (http(200, b"<html><body>Welcome</body></html>", ("Content-Type", "text/html")), "/RPC2"),
    "broken HTML": (http(200, b"<html><br><body>Welcome", ("Content-Type", "text/html")), "text/html"),
    "an empty answer": (http(200, b""), "not well-formed"),
    "a truncated document with honest length": (http(200, GOOD[:-40]), "cut off"),
    "an answer that breaks off": (cut_off, "broke in the middle"),
    "a closed connection": (closed, "closed without an answer"),
    "an internal error": (http(500, b"oops"), "HTTP 500; look at oned's log"),
    "a path that is not oned's": (http(404, b"none"), "HTTP 404; does the URL end in /RPC2?"),
    "a redirect": (http(302, b"", ("Location", "http://127.0.0.1:1/")), "redirects elsewhere"),
    "a DTD": (http(200, NESTED_ENTITIES), "DTD"),
    "JSON": (http(200, b'{"ok": true}', ("Content-Type", "application/json")), "application/json"),
    "XML-RPC that is not oned's": (http(200, xmlrpc.client.dumps((7,), methodresponse=True).encode()), "not the list"),
    "a broken number": (http(200, GOOD.replace(b"<int>0<", b"<int>zero<")), "broken number"),
}


@pytest.mark.parametrize(("answer", "told"), HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("read", ["call", "document"])
def test_a_hostile_endpoint_gives_one_clear_message(
    answer: Callable[[BaseHTTPRequestHandler], None], told: str, read: str, endpoint: Any, transport: OnedTransport
) -> None:
    endpoint.answers(answer)
    with pytest.raises(CloudUnavailable) as caught:
        getattr(transport, read)("one.vmpool.info", -2, -1, -1, -1)
    message = str(caught.value)
    assert message.startswith(f"one.vmpool.info at {endpoint.url}: ")
    assert told in message
    assert "\n" not in message
    assert " at 0x" not in message


def test_an_endpoint_that_hangs_is_given_up(endpoint: Any, hasty_transport: OnedTransport) -> None:
    endpoint.answers(lambda handler: endpoint.released.wait(20))
    with pytest.raises(
        CloudUnavailable, match=r"no complete answer in time \(0\.3 s without a byte, or 0\.4 s in all\)"
    ):
        hasty_transport.call("one.vm.info", 1, False)


@pytest.mark.parametrize("part", ["headers", "body"])
def test_an_endpoint_that_dribbles_bytes_is_given_up_at_the_deadline(
    part: str, endpoint: Any, hasty_transport: OnedTransport
) -> None:
    def dribble(handler: BaseHTTPRequestHandler) -> None:
        if part == "body":
            handler.send_response(200)
            handler.send_header("Content-Length", "100000")
            handler.end_headers()
        else:
            handler.wfile.write(b"HTTP/1.0 200 OK\r\nX-Slow: ")
        for _ in range(400):
            if endpoint.released.wait(0.05):
                return
            try:
                handler.wfile.write(b"x")
            except OSError:
                return

    endpoint.answers(dribble)
    with pytest.raises(CloudUnavailable, match="no complete answer in time"):
        hasty_transport.call("one.vm.info", 1, False)


def test_a_reply_beyond_the_limit_is_refused(endpoint: Any) -> None:
    endpoint.answers(GOOD + b" " * 3_000_000)
    small = OnedTransport(endpoint.url, Credentials("a:b"), Limits(attempts=1, reply_bytes=1_000_000))
    with pytest.raises(CloudUnavailable, match="larger than 1000000 bytes"):
        small.document("one.vmpool.info")
    small.close()


def test_a_compressed_answer_counts_unpacked(endpoint: Any) -> None:
    endpoint.answers(http(200, gzip.compress(bytes(5_000_000)), ("Content-Encoding", "gzip")))
    small = OnedTransport(endpoint.url, Credentials("a:b"), Limits(attempts=1, reply_bytes=1_000_000))
    with pytest.raises(CloudUnavailable, match="larger than 1000000 bytes"):
        small.document("one.vmpool.info")
    small.close()


def test_an_endpoint_where_nothing_listens_is_named_without_the_password_in_its_url() -> None:
    transport = OnedTransport("http://user:canary@127.0.0.1:1/RPC2", Credentials("a:b"), Limits(attempts=1))
    with pytest.raises(NothingSent) as caught:
        transport.call("one.system.version")
    assert str(caught.value) == (
        "one.system.version at http://127.0.0.1:1/RPC2: nothing listens there; does oned run, and is that its endpoint?"
    )
    transport.close()


@pytest.mark.parametrize("endpoint", ["https://one.invalid/RPC2", "https://localhost:1/RPC2"])
def test_certificates_that_are_not_there_are_named(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nonexistent/authorities.pem")
    transport = OnedTransport(endpoint, Credentials("a:b"), Limits(attempts=1))
    with pytest.raises(CloudUnavailable) as raised:
        transport.document("one.hostpool.info")
    transport.close()
    assert "/nonexistent/authorities.pem; look at REQUESTS_CA_BUNDLE" in str(raised.value)


def test_a_certificate_that_is_not_trusted_is_told_with_where_its_authority_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_asked: object, **_more: object) -> None:
        raise requests.exceptions.SSLError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate (_ssl.c:1002)")

    monkeypatch.setattr("requests.Session.post", refuse)
    transport = OnedTransport("https://one.invalid/RPC2", Credentials("a:b"), Limits(attempts=1))
    with pytest.raises(CloudUnavailable, match=r"is not trusted, or is for another name; .*REQUESTS_CA_BUNDLE"):
        transport.document("one.hostpool.info")
    transport.close()


def test_what_this_machine_lacks_is_not_laid_to_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_is_left(*_asked: object, **_more: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("requests.Session.post", none_is_left)
    transport = OnedTransport("https://one.invalid/RPC2", Credentials("a:b"), Limits(attempts=1))
    with pytest.raises(CloudUnavailable, match="Too many open files; the fault is of this machine"):
        transport.document("one.hostpool.info")
    transport.close()


def test_a_read_only_call_is_tried_three_times_with_growing_pauses(endpoint: Any) -> None:
    pauses: list[float] = []
    answers = [http(503, b""), http(503, b""), GOOD]
    endpoint.answer = lambda method, parameters: answers[len(endpoint.calls) - 1]
    transport = OnedTransport(endpoint.url, Credentials("a:b"), Limits(), pauses.append)
    assert transport.document("one.vmpool.info", -2, -1, -1, -1) == b"<VM_POOL></VM_POOL>"
    assert (len(endpoint.calls), pauses) == (3, [0.2, 0.4])
    transport.close()


def test_an_endpoint_that_takes_too_long_is_not_asked_again(endpoint: Any) -> None:
    endpoint.answers(lambda handler: endpoint.released.wait(20))
    transport = OnedTransport(endpoint.url, Credentials("a:b"), Limits(idle_s=0.2), lambda _: None)
    with pytest.raises(CloudUnavailable):
        transport.call("one.hostpool.info")
    assert len(endpoint.calls) == 1
    transport.close()


def test_a_read_only_call_is_not_tried_a_fourth_time(endpoint: Any, patient_transport: OnedTransport) -> None:
    endpoint.answers(http(503, b""))
    with pytest.raises(CloudUnavailable):
        patient_transport.call("one.hostpool.info")
    assert len(endpoint.calls) == 3


@pytest.mark.parametrize(
    "method",
    ["one.vm.deploy", "one.vm.action", "one.vm.migrate", "one.vm.update", "one.host.status", "one.vm.recover", "x"],
)
def test_a_state_changing_call_is_sent_once_whatever_happens(
    method: str, endpoint: Any, patient_transport: OnedTransport
) -> None:
    endpoint.answers(closed)
    with pytest.raises(CloudUnavailable) as caught:
        patient_transport.call(method, 1)
    assert len(endpoint.calls) == 1
    assert not isinstance(caught.value, NothingSent)


def test_whatever_is_read_may_be_asked_again() -> None:
    """Objects that a pool does not tell are read one by one, and each of these calls may be cut off."""
    read = {f"one.{name}" for name, _parameters in CALLS} | {pool.call for pool in POOLS.values()}
    assert read <= READ_ONLY_METHODS


def test_only_calls_that_read_are_in_the_list_of_repeatable_ones() -> None:
    verbs = {method.rpartition(".")[2] for method in READ_ONLY_METHODS}
    assert verbs == {"accounting", "info", "infoextended", "infoset", "monitoring", "raftstatus", "version", "config"}


def test_a_refusal_is_not_repeated(endpoint: Any, patient_transport: OnedTransport) -> None:
    endpoint.answers(xmlrpc.client.dumps(([False, "no", 0x100, -1, -1],), methodresponse=True).encode())
    with pytest.raises(OnedError):
        patient_transport.document("one.hostpool.info")
    assert len(endpoint.calls) == 1


def test_a_proxy_of_the_environment_is_not_used_on_the_same_machine(
    endpoint: Any, transport: OnedTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1/")
    assert transport.call("one.vm.action", "hold", 1) == Reply(True, 0)


@pytest.mark.parametrize("version", ["7.4.0", "6.10.0"])
@pytest.mark.parametrize("name", ["hostpool.info", "vmpool.info", "vmpool.infoextended", "system.version"])
def test_raw_http_bodies_carry_exactly_the_recorded_documents(
    version: str, name: str, endpoint: Any, patient_transport: OnedTransport
) -> None:
    folder = RECORDINGS / version
    endpoint.answers((folder / "raw" / f"{name}.http.xml").read_bytes())
    kind = "txt" if name == "system.version" else "xml"
    expected = (folder / f"{name}.{kind}").read_bytes().removesuffix(b"\n")
    assert patient_transport.document(f"one.{name}") == expected
    assert patient_transport.call(f"one.{name}").value == expected.decode()


def test_who_counts_requests_is_told_of_each_also_of_one_sent_again_and_of_other_threads(endpoint: Any) -> None:
    told: list[tuple[str, bool]] = []

    def on_call(method: str, duration_s: float, answered: bool) -> None:
        assert duration_s > 0
        told.append((method, answered))

    counted = OnedTransport(
        endpoint.url, Credentials("a:b"), Limits(attempts=2), sleep=lambda _pause_s: None, on_call=on_call
    )
    counted.call("one.vm.info", 1, False)
    # A refusal is an answer.
    endpoint.answers(xmlrpc.client.dumps(([False, "no", 0x8000, 17, 3],), methodresponse=True).encode())
    counted.another().call("one.vm.action", "stop", 1)
    endpoint.answers(b"<html>no</html>")
    with pytest.raises(CloudUnavailable):
        counted.call("one.vm.info", 1, False)
    assert told == [("one.vm.info", True), ("one.vm.action", True), ("one.vm.info", False), ("one.vm.info", False)]
