"""The gateway as systemd starts it: it answers, is killed, comes back, and ends when it is told."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from one_preempt.core.gateway.requests import RequestState
from tests.gateway.federation import Federation

EXECUTABLE = Path(sys.executable).with_name("one-preempt")
PATIENCE_S = 60


@contextmanager
def running(world: Federation, name: str = "gateway") -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A process, once it has told systemd that it is ready; and its log."""
    ear = world.folder / "notify"
    log = world.folder / f"{name}.log"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard, log.open("w") as errors:
        heard.bind(str(ear))
        heard.settimeout(PATIENCE_S)
        environment = {
            **os.environ,
            "ONE_PREEMPT_CONF": str(world.configuration),
            "NOTIFY_SOCKET": str(ear),
        }
        process = subprocess.Popen([EXECUTABLE, "gateway", "run"], env=environment, stderr=errors)
        try:
            assert heard.recv(100) == b"READY=1", log.read_text()
            yield process, log
        finally:
            process.kill()
            process.wait(PATIENCE_S)
            ear.unlink()


def test_it_serves_is_killed_and_goes_on(world: Federation) -> None:
    world.stop()
    with running(world) as (process, log):
        assert world.submitted("--name", "sweep", "--size", "3")["number"] == 1
        process.send_signal(signal.SIGHUP)
        process.kill()
        process.wait(PATIENCE_S)
        assert "gateway between north, south, west" in log.read_text()
    assert world.submit().exit_code == 1
    assert "does not run" in world.submit().stderr
    with running(world, "again") as (process, log):
        assert world.submitted()["number"] == 2
        listed = world.told("eva", "list")
        assert [(one["number"], one["state"]) for one in listed] == [(2, "placed"), (1, "placed")]
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
        assert log.read_text().endswith("stopped\n")
    assert not world.socket.exists()
    assert world.request(1).state is RequestState.PLACED
    world.start()


def test_a_gateway_that_nobody_could_ask_does_not_start(world: Federation) -> None:
    world.stop()
    text = world.configuration.read_text().replace(str(world.socket), "/nowhere/gateway.sock")
    world.configuration.write_text(text)
    environment = {**os.environ, "ONE_PREEMPT_CONF": str(world.configuration)}
    done = subprocess.run(
        [EXECUTABLE, "gateway", "run"], env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stderr) == (
        1,
        "Error: no socket at /nowhere/gateway.sock: No such file or directory; see gateway.socket\n",
    )
    world.start()


def test_a_second_gateway_on_the_same_ledger_ends_with_a_line(world: Federation) -> None:
    environment = {**os.environ, "ONE_PREEMPT_CONF": str(world.configuration)}
    done = subprocess.run(
        [EXECUTABLE, "gateway", "run"], env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "only one may" in done.stderr
