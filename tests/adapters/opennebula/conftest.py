"""An endpoint on loopback that answers what a test tells it to."""

from __future__ import annotations

import threading
import xmlrpc.client
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from one_preempt.adapters.opennebula.credentials import Credentials
from one_preempt.adapters.opennebula.transport import Limits, OnedTransport

RECORDINGS = Path(__file__).resolve().parents[2] / "recordings"
VERSIONS = ("7.4.0", "6.10.0")
SESSION = "oneadmin:canary-password"

Answer = bytes | Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Endpoint:
    """`answer` gets the method and its parameters without the session; `calls` and `sessions` are what came."""

    url: str = ""
    answer: Callable[[str, tuple[Any, ...]], Answer] = lambda method, parameters: reply(True, 0)
    calls: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    sessions: list[str] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    def answers(self, answer: Answer) -> None:
        """Give the same answer to everything."""
        self.answer = lambda method, parameters: answer

    def plays(self, version: str) -> None:
        """Answer pool calls as the recorded oned of `version` did."""

        def recorded(method: str, parameters: tuple[Any, ...]) -> bytes:
            name = method.removeprefix("one.")
            if name == "vm.info":
                return vm_info(version, parameters[0])
            file = RECORDINGS / version / (name + (".txt" if name == "system.version" else ".xml"))
            return reply(True, file.read_text().rstrip("\n"))

        self.answer = recorded


def reply(*items: bool | str | int) -> bytes:
    """The items as an XML-RPC answer."""
    return xmlrpc.client.dumps((list(items),), methodresponse=True).encode()


def vm_info(version: str, vm_id: int) -> bytes:
    for file in sorted((RECORDINGS / version).glob("vm.info.*.xml")):
        text = file.read_text()
        if text.startswith(f"<VM><ID>{vm_id}</ID>"):
            return reply(True, text.rstrip("\n"))
    return reply(False, f"[one.vm.info] Error getting virtual machine [{vm_id}].", 0x400, vm_id, -1)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    told = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            parameters, method = xmlrpc.client.loads(body)
            told.sessions.append(str(parameters[0]))
            told.calls.append((str(method), tuple(parameters[1:])))
            answer = told.answer(str(method), tuple(parameters[1:]))
            if callable(answer):
                answer(self)
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/xml")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    told.url = f"http://127.0.0.1:{server.server_port}/RPC2"
    yield told
    told.released.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def transport(endpoint: Endpoint) -> Iterator[OnedTransport]:
    """Tries once, with time enough on a busy machine."""
    made = OnedTransport(endpoint.url, Credentials(SESSION), Limits(attempts=1))
    yield made
    made.close()


@pytest.fixture
def hasty_transport(endpoint: Endpoint) -> Iterator[OnedTransport]:
    """For endpoints that never finish."""
    made = OnedTransport(endpoint.url, Credentials(SESSION), Limits(idle_s=0.3, total_s=0.4, attempts=1))
    yield made
    made.close()


@pytest.fixture
def patient_transport(endpoint: Endpoint) -> Iterator[OnedTransport]:
    """With three attempts."""
    made = OnedTransport(endpoint.url, Credentials(SESSION), Limits(), sleep=lambda _: None)
    yield made
    made.close()
