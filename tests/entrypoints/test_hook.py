"""`one-preempt-hook`, in this process and as OpenNebula starts it."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from one_preempt.adapters.daemon_socket.messages import Message
from one_preempt.adapters.daemon_socket.server import DaemonSocket
from one_preempt.entrypoints.driver.daemon_address import daemon_socket_path
from one_preempt.entrypoints.hook import BrokenInput, changed_object

RECORDINGS = Path(__file__).parents[1] / "recordings"
EXECUTABLE = Path(sys.executable).with_name("one-preempt-hook")
RECORDED = RECORDINGS / "7.4.0" / "hook.vm_state.stdin.base64.txt"


def encoded(document: bytes) -> bytes:
    return base64.b64encode(document)


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    path = tmp_path / "one_preempt.conf"
    path.write_text(f"socket:\n  path: {tmp_path}/daemon.sock\n")
    return path


def run(standard_input: bytes, configuration: Path) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "ONE_PREEMPT_CONF": str(configuration)}
    return subprocess.run(
        [EXECUTABLE], input=standard_input, env=environment, capture_output=True, timeout=60, check=False
    )


@pytest.mark.parametrize("version", ["7.4.0", "6.10.0"])
def test_the_recorded_input_names_its_vm(version: str) -> None:
    text = (RECORDINGS / version / "hook.vm_state.stdin.base64.txt").read_bytes()
    assert changed_object(text) == ("VM", 0)


def test_the_recorded_host_document_names_its_host() -> None:
    document = (RECORDINGS / "7.4.0" / "hook.host_state.xml").read_bytes()
    assert changed_object(encoded(document)) == ("HOST", 4)


@pytest.mark.parametrize(
    "written",
    [
        "socket:\n  path: /tmp/it.sock\n",
        "socket: {path: /tmp/it.sock}\n",
        'socket: { path: "/tmp/it.sock" }  # there\n',
    ],
)
def test_the_socket_is_found_however_it_is_written(
    written: str, configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration.write_text(f"cycle_interval_s: 15\n{written}store:\n  keep_log_days: 9\n")
    monkeypatch.setenv("ONE_PREEMPT_CONF", str(configuration))
    assert daemon_socket_path() == "/tmp/it.sock"


BROKEN = [
    b"",
    b"\n",
    b"$TEMPLATE",
    b"not base64!",
    encoded(b"<VM><ID>1</ID></VM>") + b" " + encoded(b"<VM><ID>2</ID></VM>"),
    encoded(b"<VM><ID>1</ID></VM>")[:-3],
    encoded(b""),
    encoded(b"<VM><ID>1</ID>"),
    encoded(b"<VM><ID></ID></VM>"),
    encoded(b"<VM><ID>-1</ID></VM>"),
    encoded(b"<VM><ID>99999999999</ID></VM>"),
    encoded(b"<VM><ID>4294967296</ID></VM>"),
    encoded(b"<VM><NAME>x</NAME><ID>1</ID></VM>"),
    encoded(b"<IMAGE><ID>1</ID></IMAGE>"),
    encoded(b"<VM><ID>1</ID></HOST>"),
    encoded(b"<CALL_INFO><RESULT>1</RESULT></CALL_INFO>"),
    encoded(b"\xff\xfe\x00"),
]


@pytest.mark.parametrize("text", BROKEN, ids=range(len(BROKEN)))
def test_broken_input_is_refused(text: bytes) -> None:
    with pytest.raises(BrokenInput):
        changed_object(text)


def test_what_a_user_wrote_cannot_name_another_object() -> None:
    document = b"<VM><ID>5</ID><NAME>x</NAME><USER_TEMPLATE><A><![CDATA[<VM><ID>6</ID></VM>]]></A></USER_TEMPLATE></VM>"
    assert changed_object(encoded(document)) == ("VM", 5)


def test_the_daemon_hears_of_a_hook_whose_object_it_takes_for_one(configuration: Path) -> None:
    heard: list[Message] = []

    def answer(message: Message) -> dict[str, object]:
        heard.append(message)
        return {"ok": True}

    with DaemonSocket(answer, frozenset({os.geteuid()})).listening(configuration.parent / "daemon.sock"):
        done = run(RECORDED.read_bytes(), configuration)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert heard == [Message.HOOK]


def test_a_daemon_that_is_away_is_no_failure(configuration: Path) -> None:
    done = run(RECORDED.read_bytes(), configuration)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_daemon_that_refuses_is_told_and_is_no_failure(configuration: Path) -> None:
    nobody: frozenset[int] = frozenset()
    with DaemonSocket(lambda message: {"ok": True}, nobody).listening(configuration.parent / "daemon.sock"):
        done = run(RECORDED.read_bytes(), configuration)
    assert done.returncode == 0
    assert b"the daemon refused" in done.stderr


@pytest.mark.parametrize("text", [b"", b"\x00\xff", b"x" * (17 << 20)], ids=["nothing", "noise", "too long"])
def test_broken_input_ends_with_one_line_and_code_1(configuration: Path, text: bytes) -> None:
    done = run(text, configuration)
    assert done.returncode == 1
    assert done.stderr.startswith(b"one-preempt-hook: standard input")
    assert done.stderr.count(b"\n") == 1


def test_a_closed_standard_input_is_told_in_one_line_and_a_closed_error_stream_is_no_matter() -> None:
    done = subprocess.run(["sh", "-c", '"$0" <&-', EXECUTABLE], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"one-preempt-hook: standard input cannot be read: Bad file descriptor\n"
    done = subprocess.run(["sh", "-c", '"$0" <&- 2>&-', EXECUTABLE], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")


def test_input_that_never_ends_does_not_hold_up_oned(configuration: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"PFZN")
    began_s = time.monotonic()
    with subprocess.Popen([EXECUTABLE], stdin=reading, stderr=subprocess.PIPE) as process:
        _output, errors = process.communicate(timeout=60)
    os.close(reading)
    os.close(writing)
    assert process.returncode == 1
    assert b"does not end" in errors
    assert time.monotonic() - began_s < 10


def test_a_hook_imports_what_it_needs_and_no_more(configuration: Path) -> None:
    """What costs most at its start; the time itself is measured by benchmarks/start_up.py."""
    program = (
        "import sys; before = set(sys.modules)\n"
        "from one_preempt.entrypoints.hook import main\n"
        "assert main() == 0\n"
        "print(*set(sys.modules) - before)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program],
        input=RECORDED.read_bytes(),
        env={**os.environ, "ONE_PREEMPT_CONF": str(configuration)},
        capture_output=True,
        timeout=60,
        check=True,
    )
    imported = set(done.stdout.decode().split())
    ours = {name for name in imported if name.partition(".")[0] == "one_preempt"}
    packages = {"one_preempt", "one_preempt.adapters", "one_preempt.adapters.daemon_socket"}
    packages |= {"one_preempt.entrypoints", "one_preempt.entrypoints.driver"}
    assert ours - packages == {
        "one_preempt.adapters.daemon_socket.client",
        "one_preempt.entrypoints.driver.daemon_address",
        "one_preempt.entrypoints.hook",
    }
    assert {name for name in imported - ours if name.partition(".")[0] not in sys.stdlib_module_names} == set()
    heavy = {"argparse", "asyncio", "dataclasses", "inspect", "logging", "pathlib", "subprocess", "typing"}
    assert not imported & heavy
