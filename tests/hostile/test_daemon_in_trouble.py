"""The daemon as a process beside an endpoint that is late or sick: it lives, says each trouble once, and goes on."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
import yaml

from one_preempt.simulation.emulator.described_cloud import described_cloud
from one_preempt.simulation.emulator.description import Description
from one_preempt.simulation.emulator.endpoint_faults import EndpointFault, EndpointFaults, FaultKind
from one_preempt.simulation.emulator.serving import endpoint_server
from one_preempt.simulation.simulated_cloud.states import LcmState
from tests.hostile.corpus import INJECTION, TERMINAL
from tests.stories.world import SETTINGS, World, description

EXECUTABLE = Path(sys.executable).with_name("one-preempt")
PATIENCE_S = 60
ATTEMPTS = 3
HOST = {"name": "node", "cpu": 8, "memory_mib": 16384}
STRUCK = {
    FaultKind.HANG: "no complete answer in time",
    FaultKind.HTML: "content type 'text/html'",
}


class TroubledDaemon:
    """A daemon process that says after each cycle that it lives; at first nothing listens at its endpoint."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._stack = stack
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._socket = str(folder / "daemon.sock")
        self._log = folder / "daemon.log"
        (folder / "one_auth").write_text("oneadmin:opennebula")
        (folder / "one_preempt.conf").write_text(
            yaml.safe_dump({
                **SETTINGS, "store": {"url": f"sqlite:///{folder}/leases.db"}, "socket": {"path": self._socket},
                "events": {"enabled": False}, "cycle_interval_s": 1, "opennebula": {"read_timeout_s": 0.5},
            })
        )  # fmt: skip
        self._ear = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        self._ear.bind(str(folder / "notify"))
        self._ear.settimeout(PATIENCE_S)
        environment = {
            **os.environ, "ONE_XMLRPC": f"http://127.0.0.1:{self._port}/RPC2", "ONE_AUTH": str(folder / "one_auth"),
            "ONE_PREEMPT_CONF": str(folder / "one_preempt.conf"), "NOTIFY_SOCKET": str(folder / "notify"),
        }  # fmt: skip
        self.process = subprocess.Popen(
            [EXECUTABLE, "daemon"], env=environment, stderr=stack.enter_context(self._log.open("w"))
        )
        stack.callback(self.process.wait, PATIENCE_S)
        stack.callback(self.process.terminate)
        assert self._ear.recv(100) == b"READY=1"

    def log(self) -> list[str]:
        return self._log.read_text().splitlines()

    def wait_for(self, words: str, times: int = 1) -> None:
        """Cycles pass until the log has a line with these words."""
        while sum(words in line for line in self.log()) < times:
            assert self._ear.recv(100) == b"WATCHDOG=1"

    def serve_endpoint(self) -> EndpointFaults:
        """At last somebody listens; the faults that it can have."""
        self.cloud = described_cloud(msgspec.convert(description([HOST], instant=True), Description))
        faults, self.lock = EndpointFaults(), threading.RLock()
        server = endpoint_server(self.cloud, port=self._port, faults=faults, lock=self.lock)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        self._stack.callback(server.server_close)
        self._stack.callback(server.shutdown)
        return faults


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[TroubledDaemon]:
    with ExitStack() as stack:
        yield TroubledDaemon(tmp_path, stack)


def test_an_endpoint_that_comes_late_and_falls_ill_is_lived_with(daemon: TroubledDaemon) -> None:
    daemon.wait_for("nothing listens there; does oned run, and is that its endpoint?")
    faults = daemon.serve_endpoint()
    paul = daemon.cloud.caller(next(user.id for user in daemon.cloud.users.values() if user.name == "paul"))
    hostile = [daemon.cloud.vm_allocate(paul, "CPU=1\nMEMORY=64", False) for _ in range(2)]
    daemon.cloud.vms[hostile[0]].user_template["SCHED_REQUIREMENTS"] = [TERMINAL]
    daemon.cloud.vms[hostile[1]].user_template["LEASE"] = [{"TYPE": INJECTION}]
    plain = daemon.cloud.vm_allocate(paul, "CPU=1\nMEMORY=64", False)
    daemon.wait_for(f"deploy VM {plain}")

    for number, (kind, words) in enumerate(STRUCK.items(), start=2):
        faults.add(EndpointFault(kind, "one.hostpool.info", count=1 if kind is FaultKind.HANG else ATTEMPTS, delay_s=2))
        daemon.wait_for(words)
        daemon.wait_for("the trouble is over: cycles go on", number)
    with daemon.lock:
        daemon.cloud.advance(30)
        assert daemon.cloud.vms[plain].lcm_state == LcmState.RUNNING

    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(PATIENCE_S) == 0
    for line in daemon.log():
        assert re.match(r"\d{4}-\d\d-\d\d [\d:,]+ (INFO|WARNING|ERROR) ", line), line
        assert line.isprintable()


def test_stepwise_it_reports_each_trouble_and_goes_on(tmp_path: Path) -> None:
    world = World.begin(tmp_path, description([HOST]), {**SETTINGS, "opennebula": {"read_timeout_s": 0.5}})
    try:
        plain = world.submit("paul")
        for kind in STRUCK:
            world.emulator.control("fault", kind.value, "one.vmpool.infoextended", ATTEMPTS, 0, 2.0)
            assert STRUCK[kind] in world.cycle()["error"]
            world.emulator.control("clear_faults")
        world.until(lambda: world.is_running(plain))
        assert world.daemon.alive
        assert "Traceback" not in world.daemon.log
    finally:
        world.close()
