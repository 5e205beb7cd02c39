"""The daemon as systemd starts it, beside an emulated cloud: what wakes it, what it says, how it ends.

The daemon schedules once an hour here; every further cycle is one that something woke. It tells a socket of the test,
as it would tell systemd, after each cycle, so nobody has to guess how long to wait.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from one_preempt.adapters.daemon_socket.client import ask_daemon
from one_preempt.simulation.emulator.event_bus import publishing
from one_preempt.simulation.emulator.process import shipped_cloud
from one_preempt.simulation.emulator.serving import running_emulator
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN

EXECUTABLE = Path(sys.executable).with_name("one-preempt")
PATIENCE_S = 60
FOLLOWER, LEADER = 2, 3


class RunningDaemon:
    """A daemon process, an emulated cloud with its event bus, and the ear that systemd has."""

    def __init__(self, folder: Path, stack: ExitStack, **more: object) -> None:
        self.folder = folder
        self.cloud = shipped_cloud("demo")
        self.lock = threading.RLock()
        url = stack.enter_context(running_emulator(self.cloud, lock=self.lock))
        bus = stack.enter_context(publishing(self.cloud, "tcp://127.0.0.1:*", self.lock))
        self.socket = str(folder / "daemon.sock")
        self.auth = folder / "one_auth"
        self.auth.write_text("oneadmin:opennebula")
        self.log = folder / "daemon.log"
        configuration = folder / "one_preempt.conf"
        settings = {
            "store": {"url": f"sqlite:///{folder}/leases.db"},
            "socket": {"path": self.socket},
            "events": {"endpoint": bus},
            "cycle_interval_s": 3600,
        }
        configuration.write_text(yaml.safe_dump({**settings, **more}))
        self._ear = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        self._ear.bind(str(folder / "notify"))
        environment = {
            **os.environ,
            "ONE_XMLRPC": url,
            "ONE_AUTH": str(self.auth),
            "ONE_PREEMPT_CONF": str(configuration),
            "NOTIFY_SOCKET": str(folder / "notify"),
        }
        self.process = subprocess.Popen(
            [EXECUTABLE, "daemon"], env=environment, stderr=stack.enter_context(self.log.open("w"))
        )
        stack.callback(self.process.wait, PATIENCE_S)
        stack.callback(self.process.terminate)

    def told(self, within_s: float = PATIENCE_S) -> str:
        """The next thing it tells systemd, or nothing."""
        self._ear.settimeout(within_s)
        try:
            return self._ear.recv(100).decode()
        except TimeoutError:
            return ""

    def is_ready(self) -> bool:
        return self.told() == "READY=1" and self.has_run_a_cycle()

    def has_run_a_cycle(self, within_s: float = PATIENCE_S) -> bool:
        return self.told(within_s) == "WATCHDOG=1"

    def asked(self, kind: str) -> dict[str, object]:
        answer = ask_daemon(kind, {"type": "VM", "id": 1}, self.socket, PATIENCE_S)
        assert answer is not None, self.log.read_text()
        return answer


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def start(cloud: SimulatedCloud) -> None:
    """Bring a VM into another state, twice."""
    vm_id = cloud.vm_allocate(ONEADMIN, "CPU=1\nMEMORY=1", hold=True)
    cloud.vm_action(ONEADMIN, "terminate", vm_id)


def test_it_is_woken_by_place_by_hooks_and_by_events_and_ends_when_told(tmp_path: Path, stack: ExitStack) -> None:
    daemon = RunningDaemon(tmp_path, stack)
    assert daemon.is_ready(), daemon.log.read_text()
    for kind in ("place", "hook", "wake"):
        answer = daemon.asked(kind)
        assert answer["ok"]
        assert kind != "place" or answer["schedules"]
        assert daemon.has_run_a_cycle()
    status = daemon.asked("status")
    assert isinstance(status["last_cycle"], dict)
    assert status["last_cycle"]["error"] == ""
    for _ in range(PATIENCE_S):  # until the bus has found its listener
        with daemon.lock:
            start(daemon.cloud)
        if daemon.has_run_a_cycle(within_s=2):
            break
    else:
        pytest.fail("no event woke the daemon")
    daemon.process.send_signal(signal.SIGTERM)
    while daemon.told() != "STOPPING=1":
        pass
    assert daemon.process.wait(PATIENCE_S) == 0
    assert not Path(daemon.socket).exists()


def test_who_hangs_up_is_told_to_restart_it_and_it_goes_on(tmp_path: Path, stack: ExitStack) -> None:
    daemon = RunningDaemon(tmp_path, stack, events={"enabled": False})
    assert daemon.is_ready(), daemon.log.read_text()
    daemon.process.send_signal(signal.SIGHUP)
    assert daemon.has_run_a_cycle()
    assert "SIGHUP is ignored: restart the daemon to have the configuration read" in daemon.log.read_text()
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(PATIENCE_S) == 0
    assert daemon.log.read_text().endswith("stopped\n")


def test_a_front_end_that_follows_leaves_placing_to_others_until_it_leads(tmp_path: Path, stack: ExitStack) -> None:
    daemon = RunningDaemon(tmp_path, stack, events={"enabled": False})
    assert daemon.is_ready(), daemon.log.read_text()
    schedules = []
    for state in (FOLLOWER, LEADER):
        with daemon.lock:
            daemon.cloud.raft_state = state
        daemon.asked("wake")
        assert daemon.has_run_a_cycle()
        schedules.append(daemon.asked("status")["schedules"])
    assert schedules == [False, True]
    assert "FOLLOWER: another one schedules" in daemon.log.read_text()


def test_a_new_password_is_found_without_a_restart(tmp_path: Path, stack: ExitStack) -> None:
    daemon = RunningDaemon(tmp_path, stack, cycle_interval_s=1)
    assert daemon.is_ready(), daemon.log.read_text()
    with daemon.lock:
        daemon.cloud.users[0].password = "another"
    while daemon.asked("status")["schedules"]:
        assert daemon.has_run_a_cycle()
    daemon.auth.write_text("oneadmin:another")
    while not daemon.asked("status")["schedules"]:
        assert daemon.has_run_a_cycle()
    assert "AUTHENTICATION" in daemon.log.read_text()


def test_it_goes_on_without_a_socket_and_without_a_bus(tmp_path: Path, stack: ExitStack) -> None:
    nowhere = str(tmp_path / "missing" / "daemon.sock")
    too_long = "ipc:///" + "x" * 200
    daemon = RunningDaemon(tmp_path, stack, socket={"path": nowhere}, events={"endpoint": too_long})
    assert daemon.is_ready(), daemon.log.read_text()
    lines = [line for line in daemon.log.read_text().splitlines() if "going on without it" in line]
    assert len(lines) == 2
    assert "see socket.path" in lines[0]
    assert "see events.endpoint" in lines[1]


def test_a_socket_that_is_removed_is_opened_again_after_the_next_cycle(tmp_path: Path, stack: ExitStack) -> None:
    daemon = RunningDaemon(tmp_path, stack)
    assert daemon.is_ready(), daemon.log.read_text()
    Path(daemon.socket).unlink()
    with daemon.lock:
        start(daemon.cloud)
    assert daemon.has_run_a_cycle()
    assert daemon.asked("status")["schedules"]
    assert "the daemon's socket was removed or replaced" in daemon.log.read_text()


def test_the_log_holds_every_name_whatever_the_language_of_the_machine(tmp_path: Path) -> None:
    file = tmp_path / "daemon.log"
    program = (
        "from one_preempt.entrypoints.daemon_log import LOGGER, log_to; "
        "from one_preempt.configuration.settings import LogSettings; "
        f"log_to(LogSettings(file={str(file)!r})); LOGGER.warning('the group \\u65e5\\u672c \\ud800')"
    )
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
    assert ended.stderr == b""
    assert file.read_text(encoding="utf-8").endswith("WARNING the group \u65e5\u672c \\ud800\n")
