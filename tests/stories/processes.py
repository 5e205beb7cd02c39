"""The emulator and the daemon as processes, as an administrator runs them; time stands still between steps.

Both are forked from one server process that has imported everything, so that a story costs milliseconds to start.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import socket
import time
import xmlrpc.client
from contextlib import suppress
from pathlib import Path
from typing import Any

FORKSERVER = multiprocessing.get_context("forkserver")
FORKSERVER.set_forkserver_preload(
    [
        "one_preempt.entrypoints.daemon",
        "one_preempt.adapters.opennebula.enactor",
        "one_preempt.adapters.lease_store.sql_lease_store",
        "one_preempt.adapters.lease_store.schema",
        "one_preempt.simulation.emulator.process",
        "alembic.command",
        "pyone",
    ]
)
PATIENCE_S = 60


class Emulator:
    """An emulator process with virtual time and its control methods."""

    def __init__(self, description: Path, folder: Path) -> None:
        self._lines = folder / "emulator.out"
        self._process = FORKSERVER.Process(target=_serve, args=(description, self._lines), daemon=True)
        self._process.start()
        self.url = self._announced()
        self._proxy = xmlrpc.client.ServerProxy(self.url)

    def _announced(self) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if self._lines.exists() and "\n" in self._lines.read_text():
                return self._lines.read_text().split()[-1]
            assert self._process.is_alive(), f"the emulator ended: {self._lines.with_suffix('.err').read_text()}"
            self._process.join(0.005)
        raise AssertionError("the emulator did not say where it listens")

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
        self._process.kill()
        self._process.join()


PASSWORDS = {"oneadmin": "opennebula"}


def _serve(description: Path, lines: Path) -> None:
    import sys

    from one_preempt.simulation.emulator.process import run_emulator

    sys.stderr = lines.with_suffix(".err").open("w")
    sys.stdout = lines.open("w")
    run_emulator(description, None, port=0, virtual_time=True, control=True)


class Daemon:
    """A daemon process that takes one cycle for each step."""

    def __init__(self, configuration: Path, emulator_url: str, auth: Path, folder: Path, dies_at: int = 0) -> None:
        """`dies_at`: the boundary (see `boundaries`) at which it kills itself; 0 never."""
        self.log_file = folder / "daemon.log"
        self.boundary_file = folder / "boundaries"
        mine, its = socket.socketpair()
        self._process = FORKSERVER.Process(
            target=_schedule,
            args=(configuration, emulator_url, auth, self.log_file, its, dies_at, self.boundary_file),
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
) -> None:
    import sys

    os.environ["ONE_XMLRPC"] = url
    os.environ["ONE_AUTH"] = str(auth)
    sys.stderr = log_file.open("a", buffering=1)
    from one_preempt.entrypoints.daemon import run_stepwise
    from one_preempt.settings import load_settings

    if dies_at:
        _arm(dies_at, boundary_file)
    stream = connection.makefile("rw")
    run_stepwise(load_settings(configuration), stream, stream)


def _arm(dies_at: int, boundary_file: Path) -> None:
    """Count every write to the store and every call to oned, before and after; die at the one asked for."""
    from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore
    from one_preempt.adapters.opennebula.enactor import OpenNebulaEnactor

    count = 0

    def boundary() -> None:
        nonlocal count
        count += 1
        boundary_file.write_text(str(count))
        if count == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def guarded(function: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            boundary()
            result = function(*arguments, **named)
            boundary()
            return result

        return call

    for owner, names in (
        (SqlLeaseStore, ("apply", "record_plan", "begin_attempt", "record_result")),
        (OpenNebulaEnactor, ("_call",)),
    ):
        for name in names:
            setattr(owner, name, guarded(getattr(owner, name)))
