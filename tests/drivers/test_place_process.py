"""The installed executables as oned starts them: what they print, how they end, and what they import."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.drivers.documents import EMPTY_PLAN, RECORDED, RECORDED_LINE, line, placed, places

EXECUTABLES = Path(sys.executable).parent
PLACE = EXECUTABLES / "one-preempt-place"
OPTIMIZE = EXECUTABLES / "one-preempt-optimize"


@contextmanager
def daemon(path: Path, answer: bytes | None) -> Iterator[list[bytes]]:
    """Somebody at the daemon's socket who takes one question; no answer at all for None."""
    asked: list[bytes] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen(1)

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                asked.append(connection.recv(65536))
                if answer is not None:
                    connection.sendall(answer)
                else:
                    connection.recv(1)  # until the other end gives up

        thread = threading.Thread(target=serve)
        thread.start()
        yield asked
        thread.join()


def run(command: list[str | Path], stdin: bytes, configuration: Path) -> subprocess.CompletedProcess[bytes]:
    environment = {"PATH": os.environ["PATH"], "ONE_PREEMPT_CONF": str(configuration)}
    return subprocess.run(command, input=stdin, capture_output=True, check=False, env=environment)


def test_without_a_daemon_place_places(configuration: Path) -> None:
    ran = run([PLACE], RECORDED_LINE, configuration)
    plan, said = placed(RECORDED_LINE)
    assert (ran.returncode, ran.stdout.decode()) == (0, plan + "\n")
    assert ran.stderr.decode().splitlines() == said
    assert len(places(plan)) == 4


def test_while_the_daemon_answers_place_prints_an_empty_plan(configuration: Path, tmp_path: Path) -> None:
    with daemon(tmp_path / "daemon.sock", b'{"ok": true}\n') as asked:
        ran = run([PLACE], RECORDED_LINE, configuration)
    assert (ran.returncode, ran.stdout.decode(), ran.stderr) == (0, EMPTY_PLAN + "\n", b"")
    assert json.loads(asked[0])["kind"] == "place"


@pytest.mark.parametrize(
    "written",
    ["socket: {{path: {}}}\n", "socket:\n  path :\n    {}\n", '"socket":\n  path: {}\n'],
    ids=["in one line", "the value below", "the key in quotation marks"],
)
def test_a_daemon_whose_socket_is_written_in_another_way_is_asked_before_anything_is_placed(
    written: str, configuration: Path, tmp_path: Path
) -> None:
    configuration.write_text(written.format(tmp_path / "daemon.sock"))
    with daemon(tmp_path / "daemon.sock", b'{"ok": true}\n') as asked:
        ran = run([PLACE], RECORDED_LINE, configuration)
        if not asked:  # let the one who waits for a question go
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as unasked:
                unasked.connect(str(tmp_path / "daemon.sock"))
    assert (ran.returncode, ran.stdout.decode(), ran.stderr) == (0, EMPTY_PLAN + "\n", b"")


def test_a_daemon_that_refuses_is_told_of_and_still_the_only_one_that_places(
    configuration: Path, tmp_path: Path
) -> None:
    with daemon(tmp_path / "daemon.sock", b'{"ok": false, "error": "2 versions\\nERROR: 7 x"}\n'):
        ran = run([PLACE], RECORDED_LINE, configuration)
    assert (ran.returncode, ran.stdout.decode()) == (0, EMPTY_PLAN + "\n")
    assert re.fullmatch(rb"ERROR: the daemon [^\n]*\n", ran.stderr)


def test_a_daemon_that_hangs_is_waited_for_two_seconds(configuration: Path, tmp_path: Path) -> None:
    with daemon(tmp_path / "daemon.sock", None):
        ran = run([PLACE], RECORDED_LINE, configuration)
    assert len(places(ran.stdout.decode())) == 4


def test_what_asks_the_daemon_imports_the_standard_library_alone(configuration: Path, tmp_path: Path) -> None:
    """What costs most at its start; the time itself is measured by benchmarks/start_up.py."""
    code = (
        "import os, sys; os._exit = sys.exit; own = {*sys.modules}\n"
        "from one_preempt.entrypoints.driver.place import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(*sorted(name for name in sys.modules if name.partition('.')[0] not in sys.stdlib_module_names"
        " and name not in own), file=sys.stderr)"
    )
    with daemon(tmp_path / "daemon.sock", b'{"ok": true}\n'):
        ran = run([sys.executable, "-I", "-c", code], RECORDED_LINE, configuration)
    modules = ran.stderr.decode().split()
    assert ran.stdout.decode() == EMPTY_PLAN + "\n"
    assert "one_preempt.adapters.daemon_socket.client" in modules
    assert [name for name in modules if not name.startswith("one_preempt")] == []
    assert not [name for name in modules if name.startswith(("one_preempt.core.matching", "one_preempt.configuration"))]


@pytest.mark.parametrize("stdin", [b"", b"!", RECORDED_LINE[:999], line(b"<A/>")])
def test_broken_input_ends_well(configuration: Path, stdin: bytes) -> None:
    commands: dict[str, list[str | Path]] = {EMPTY_PLAN: [PLACE], "<PLAN><ID>100</ID></PLAN>": [OPTIMIZE, "100"]}
    for plan, command in commands.items():
        ran = run(command, stdin, configuration)
        assert (ran.returncode, ran.stdout.decode()) == (0, plan + "\n")
        assert re.fullmatch(rb"ERROR: [^0-9\n][^\n]*\n", ran.stderr)


@pytest.mark.parametrize("executable", [PLACE, OPTIMIZE], ids=["place", "optimize"])
def test_where_nobody_wants_the_plan_there_is_no_traceback(executable: Path, configuration: Path) -> None:
    ran = run(["/bin/sh", "-c", '"$0" 100 >&-', executable], RECORDED_LINE, configuration)
    assert (ran.returncode, ran.stderr) == (0, b"")


@pytest.mark.parametrize("arguments", [[], ["x"], ["1", "2"], ["-1"]])
def test_optimize_needs_the_number_of_a_cluster(configuration: Path, arguments: list[str | Path]) -> None:
    ran = run([OPTIMIZE, *arguments], RECORDED_LINE, configuration)
    assert (ran.returncode, ran.stdout.decode()) == (0, EMPTY_PLAN + "\n")
    assert ran.stderr.startswith(b"ERROR: one-preempt-optimize takes one argument")


def test_optimize_reads_the_recorded_document(configuration: Path) -> None:
    document = line((RECORDED / "optimize.stdin.xml").read_bytes())
    ran = run([OPTIMIZE, "100"], document, configuration)
    assert (ran.returncode, ran.stdout.decode(), ran.stderr) == (0, "<PLAN><ID>100</ID></PLAN>\n", b"")
    ran = run([OPTIMIZE, "101"], document, configuration)
    assert (ran.stdout, ran.stderr) == (
        b"<PLAN><ID>101</ID></PLAN>\n",
        b"ERROR: cluster 101 is not in the document\n",
    )


def test_messages_that_nobody_takes_do_not_cost_the_plan(configuration: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "ONE_PREEMPT_CONF": str(configuration)}
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as deaf:
        ran = subprocess.run(
            [PLACE], input=RECORDED_LINE, stdout=subprocess.PIPE, stderr=deaf, check=False, env=environment
        )
    plan, said = placed(RECORDED_LINE)
    assert said, "there is something to tell"
    assert (ran.returncode, ran.stdout.decode()) == (0, plan + "\n")


def test_nobody_at_the_other_end_is_no_failure(configuration: Path) -> None:
    ran = run(["bash", "-c", '"$0" 2>&- | true; exit ${PIPESTATUS[0]}', PLACE], RECORDED_LINE, configuration)
    assert ran.returncode == 0
