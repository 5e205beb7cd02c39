"""The emulator and the daemon as processes, as an administrator runs them; time stands still between steps.

Both are forked from one server process that has imported everything, so that a story costs milliseconds to start.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import pkgutil
import select
import signal
import socket
import sys
import threading
import xmlrpc.client
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import one_preempt.core
from one_preempt.simulation.emulator.server import EndpointServer
from one_preempt.simulation.emulator.serving import endpoint_server
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud

FORKSERVER = multiprocessing.get_context("forkserver")
FORKSERVER.set_forkserver_preload(
    [
        "one_preempt.entrypoints.daemon",
        "one_preempt.adapters.opennebula.enactor",
        "one_preempt.adapters.opennebula.host_enactor",
        "one_preempt.adapters.power_control.factory",
        "one_preempt.adapters.image_transfer.factory",
        "one_preempt.adapters.opennebula.stored_images",
        "one_preempt.adapters.lease_store.sql_lease_store",
        "one_preempt.adapters.lease_store.schema",
        "one_preempt.adapters.held_capacity",
        "one_preempt.adapters.opennebula.pool_reader",
        "one_preempt.configuration.chosen_policies",
        "one_preempt.simulation.emulator.described_cloud",
        "alembic.command",
        "sqlalchemy.dialects.sqlite",
        "pyone",
        *(module.name for module in pkgutil.walk_packages(one_preempt.core.__path__, "one_preempt.core.")),
    ]
)
PATIENCE_S = 60
# What a daemon's process is told before it starts, with the emulator's URL; a function of a module, or a part of one.
Prepare = Callable[[str], None]


class Emulator:
    """An emulator process with virtual time and its control methods."""

    def __init__(self, description: Path, folder: Path) -> None:
        mine, its = socket.socketpair()
        self._process = FORKSERVER.Process(target=_serve, args=(description, its, folder / "emulator.err"), daemon=True)
        self._process.start()
        its.close()
        self._socket = mine
        self._answers = mine.makefile("r")
        self._connect()

    def _connect(self) -> None:
        line = self._answers.readline().split()
        assert len(line) == 2, "the emulator ended before it served"
        self.url, self._pid = line[0], int(line[1])
        self._proxy = xmlrpc.client.ServerProxy(self.url)

    def copy(self) -> Emulator:
        """Another emulator whose cloud is as this one's is now. Closed with this one at the latest."""
        self._socket.sendall(b"copy\n")
        twin = object.__new__(Emulator)
        twin._process, twin._socket, twin._answers = self._process, self._socket, self._answers
        twin._connect()
        return twin

    def call(self, user: str, method: str, *parameters: Any) -> tuple[bool, Any]:
        """(accepted, value or text)."""
        answer = getattr(self._proxy, method)(f"{user}:{PASSWORDS.get(user, user)}", *parameters)
        return bool(answer[0]), answer[1]

    def must(self, user: str, method: str, *parameters: Any) -> Any:
        accepted, value = self.call(user, method, *parameters)
        assert accepted, f"{method}{parameters} by {user}: {value}"
        return value

    def control(self, method: str, *parameters: Any) -> Any:
        return self.must("oneadmin", f"one_preempt.emulator.{method}", *parameters)

    def advance(self, seconds: int) -> int:
        return int(self.control("advance", float(seconds)))

    @property
    def now_s(self) -> int:
        return int(self.control("now"))

    def audit(self) -> list[str]:
        found: list[str] = json.loads(self.control("audit"))
        return found

    def log(self, first: int = 0) -> list[dict[str, Any]]:
        calls: list[dict[str, Any]] = json.loads(self.control("log", first))
        return calls

    def close(self) -> None:
        """End the process; copies that are not closed yet end with it."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        if self._pid == self._process.pid:
            self._process.join()
            self._answers.close()
            self._socket.close()


PASSWORDS = {"oneadmin": "opennebula"}


def _serve(description: Path, connection: socket.socket, errors: Path) -> None:
    """Serve the described cloud, tell URL and process id, and make a copy for each line that arrives."""
    from one_preempt.simulation.emulator.described_cloud import described_cloud
    from one_preempt.simulation.emulator.description import read_description

    gc.freeze()  # what was imported before the fork need not be looked at, and its memory stays shared
    sys.stderr = errors.open("w", buffering=1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    cloud = described_cloud(read_description(description))
    server = _serve_in_thread(cloud, connection)
    for _ in connection.makefile("r"):
        if os.fork() == 0:
            server.socket.close()
            _serve_in_thread(cloud, connection)
            _wait_for_end(connection)


def _serve_in_thread(cloud: SimulatedCloud, connection: socket.socket) -> EndpointServer:
    server = endpoint_server(cloud, control=True)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": PATIENCE_S}, daemon=True).start()
    connection.sendall(f"{server.url} {os.getpid()}\n".encode())
    return server


def _wait_for_end(connection: socket.socket) -> None:
    """A copy must not take the orders of the process it was copied from; it ends when that one's client does."""
    ends = select.poll()
    ends.register(connection, 0)
    ends.poll()
    os._exit(0)


class Daemon:
    """A daemon process that takes one cycle for each step."""

    def __init__(
        self,
        configuration: Path,
        emulator_url: str,
        auth: Path,
        folder: Path,
        dies_at: int = 0,
        prepare: Prepare | None = None,
    ) -> None:
        """`dies_at`: the boundary (see `_arm`) at which it kills itself; 0 never. `prepare` is called there before."""
        self.log_file = folder / "daemon.log"
        self.boundary_file = folder / "boundaries"
        mine, its = socket.socketpair()
        self._process = FORKSERVER.Process(
            target=_schedule,
            args=(configuration, emulator_url, auth, self.log_file, its, dies_at, self.boundary_file, prepare),
            daemon=True,
        )
        self._process.start()
        its.close()
        self._socket = mine
        self._reports = mine.makefile("r")
        self.alive = True

    def step(self, now_s: int) -> dict[str, Any]:
        """One cycle at `now_s`; the daemon's report. Raises `DaemonDied` where it ended instead."""
        try:
            self._socket.sendall(f"{now_s}\n".encode())
            line = self._reports.readline()
        except OSError:
            line = ""
        if not line:
            self.alive = False
            raise DaemonDied(self.log_file.read_text() if self.log_file.exists() else "")
        report: dict[str, Any] = json.loads(line)
        return report

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.join()
        self.alive = False
        with suppress(OSError):
            self._reports.close()
            self._socket.close()

    @property
    def log(self) -> str:
        return self.log_file.read_text() if self.log_file.exists() else ""


class DaemonDied(Exception):
    """The daemon ended in the middle of a step; the text is its log."""


def _schedule(
    configuration: Path,
    url: str,
    auth: Path,
    log_file: Path,
    connection: socket.socket,
    dies_at: int,
    boundary_file: Path,
    prepare: Prepare | None,
) -> None:
    gc.freeze()
    os.environ["ONE_XMLRPC"] = url
    os.environ["ONE_AUTH"] = str(auth)
    sys.stderr = log_file.open("a", buffering=1)
    from one_preempt.configuration.settings import load_settings
    from one_preempt.entrypoints.daemon import run_stepwise

    if prepare is not None:
        prepare(url)
    if dies_at:
        _arm(dies_at, boundary_file)
    stream = connection.makefile("rw")
    run_stepwise(load_settings(configuration), stream, stream)


def _arm(dies_at: int, boundary_file: Path) -> None:
    """Count every effect that outlives the process: writes to the store and the file, calls to oned, orders to power
    control and for images. Die after the one asked for, which is the same as before the next."""
    from one_preempt.adapters.held_capacity import HeldCapacityFile
    from one_preempt.adapters.image_transfer.in_background import BackgroundImageTransfers
    from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore
    from one_preempt.adapters.opennebula.enactor import OpenNebulaEnactor
    from one_preempt.adapters.opennebula.host_enactor import OpenNebulaHostEnactor
    from one_preempt.adapters.power_control.in_background import BackgroundPowerCalls

    count = 0

    def boundary() -> None:
        nonlocal count
        count += 1
        boundary_file.write_text(str(count))
        if count == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def guarded(function: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            result = function(*arguments, **named)
            boundary()
            return result

        return call

    for owner, names in (
        (SqlLeaseStore, ("apply", "record_plan", "begin_attempt", "record_result")),
        (SqlLeaseStore, ("begin_power_step", "record_power_result", "record_host_use")),
        (OpenNebulaEnactor, ("_call",)),
        (OpenNebulaHostEnactor, ("perform",)),
        (BackgroundPowerCalls, ("put",)),
        (BackgroundImageTransfers, ("put",)),
        (HeldCapacityFile, ("replace",)),
    ):
        for name in names:
            setattr(owner, name, guarded(getattr(owner, name)))
