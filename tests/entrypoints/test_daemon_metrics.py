"""The metrics of a running daemon: read by whoever comes, and never in its way."""

from __future__ import annotations

import logging
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from one_preempt.adapters.metrics.instruments import Instruments
from one_preempt.configuration.settings import MetricsSettings, Settings
from one_preempt.core.model.pool_snapshot import RaftState
from one_preempt.entrypoints.cycle_metrics import CycleMetrics
from one_preempt.entrypoints.daemon_metrics import DaemonMetrics
from one_preempt.scheduling_cycle import CycleReport
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN
from tests.entrypoints.test_daemon_process import FOLLOWER, RunningDaemon
from tests.scraped import PATIENCE_S, Samples, by_label, fetched, free_port, samples_of, value

HUNDRED = 100


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.fixture
def port() -> int:
    return free_port()


def served_by(folder: Path, stack: ExitStack, port: int) -> RunningDaemon:
    listen = {"listen": f"127.0.0.1:{port}"}
    daemon = RunningDaemon(folder, stack, events={"enabled": False}, metrics=listen)
    assert daemon.is_ready(), daemon.log.read_text()
    return daemon


def read(port: int) -> Samples:
    status, kind, page = fetched(port)
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8"), page
    return samples_of(page)


def cycle(daemon: RunningDaemon) -> None:
    daemon.asked("wake")
    assert daemon.has_run_a_cycle()


# -- a daemon as systemd starts it -----------------------------------------------------------------------------


def test_what_a_daemon_does_is_read_from_its_port_until_it_ends(tmp_path: Path, stack: ExitStack, port: int) -> None:
    daemon = served_by(tmp_path, stack, port)
    found = read(port)
    assert by_label(found, "cycles_total", "result") == {"done": 1}
    assert by_label(found, "leases", "state") == {"running": len(daemon.cloud.vms)}
    assert value(found, "oned_call_duration_seconds_count", method="one.vmpool.infoextended") == 1
    assert by_label(found, "oned_calls_unanswered_total", "method") == {}
    assert found["process_resident_memory_bytes", ()] > 0

    with daemon.lock:
        daemon.cloud.vm_allocate(ONEADMIN, "CPU=999\nMEMORY=1")
    told = value(found, "actions_total", kind="message", outcome="accepted")
    cycle(daemon)
    found = read(port)
    assert by_label(found, "cycles_total", "result") == {"done": 2}
    assert value(found, "waiting_leases", code="hosts-too-small") == 1
    assert value(found, "actions_total", kind="message", outcome="accepted") == (told or 0) + 1
    assert value(found, "oned_call_duration_seconds_count", method="one.vmpool.infoextended") == 2

    with daemon.lock:
        daemon.cloud.raft_state = FOLLOWER
    cycle(daemon)
    found = read(port)
    assert by_label(found, "cycles_total", "result") == {"done": 2, "standing-by": 1}
    assert value(found, "leads") == 0
    assert by_label(found, "leases", "state") == {}

    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(PATIENCE_S) == 0
    with pytest.raises(ConnectionRefusedError):
        fetched(port)


def test_clients_that_mean_harm_disturb_no_cycle_and_no_reader_after_them(
    tmp_path: Path, stack: ExitStack, port: int
) -> None:
    daemon = served_by(tmp_path, stack, port)
    with ExitStack() as crowd:
        clients = [crowd.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(HUNDRED)]
        for client, noise in zip(clients, 25 * (b"", b"GET /met", b"G" * 5000, b"\x00\xff"), strict=True):
            client.setblocking(False)
            client.send(noise)
        endless = crowd.enter_context(socket.create_connection(("127.0.0.1", port)))
        endless.settimeout(0.1)
        with pytest.raises(OSError):
            endless.sendall(b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 5_000_000)
        for _ in range(3):
            cycle(daemon)
        assert daemon.asked("status")["schedules"]
    while fetched(port)[0] != 200:
        pass
    assert by_label(read(port), "cycles_total", "result") == {"done": 4}
    assert "ERROR" not in daemon.log.read_text()
    assert "Traceback" not in daemon.log.read_text()


def test_a_port_that_is_taken_is_one_line_and_is_opened_once_it_is_free(
    tmp_path: Path, stack: ExitStack, port: int
) -> None:
    with socket.create_server(("127.0.0.1", port)):
        daemon = served_by(tmp_path, stack, port)
        cycle(daemon)
        assert daemon.asked("status")["schedules"]
    cycle(daemon)
    assert by_label(read(port), "cycles_total", "result") == {"done": 3}
    lines = [line.partition(" ")[2].partition(" ")[2] for line in daemon.log.read_text().splitlines()]
    taken = f"no metrics at 127.0.0.1 port {port}: Address already in use; see metrics.listen; going on without it"
    assert [line for line in lines if "metrics" in line] == [
        f"WARNING {taken}",
        "INFO the port for metrics is open now",
    ]


# -- what stands against it ------------------------------------------------------------------------------------


def served_at(port: int) -> Settings:
    return Settings(metrics=MetricsSettings(listen=f"127.0.0.1:{port}"))


STANDS_BY = CycleReport(RaftState.FOLLOWER)


def test_as_shipped_nothing_is_counted_and_nobody_listens() -> None:
    with DaemonMetrics(Settings()) as metrics:
        metrics.keep()
        metrics.report(STANDS_BY, 0.1)
        metrics.failed()
        assert metrics.on_call is None
        assert metrics.page() is None


def test_a_daemon_without_metrics_does_not_load_their_library() -> None:
    code = "import sys, one_preempt.entrypoints.daemon, one_preempt.composition; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "one_preempt.entrypoints.daemon_metrics" in loaded
    assert not [name for name in loaded if name.startswith(("prometheus_client", "one_preempt.adapters.metrics"))]


def test_without_the_library_one_line_says_how_to_install_it_and_the_daemon_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, port: int
) -> None:
    monkeypatch.delitem(sys.modules, "one_preempt.adapters.metrics.instruments", raising=False)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with DaemonMetrics(served_at(port)) as metrics:
        for _ in range(3):
            metrics.keep()
            metrics.report(STANDS_BY, 0.1)
        with pytest.raises(ConnectionRefusedError):
            fetched(port)
    (record,) = caplog.records
    assert record.message == (
        f"no metrics are counted: prometheus_client is not installed; install it ({sys.executable} -m pip install "
        "'prometheus-client>=0.20'), or take metrics.listen out; going on without them"
    )


def test_a_library_that_is_too_old_is_told_of_in_one_line_too(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, port: int
) -> None:
    monkeypatch.delitem(sys.modules, "one_preempt.adapters.metrics.instruments", raising=False)
    monkeypatch.delattr("prometheus_client.disable_created_metrics")
    with DaemonMetrics(served_at(port)) as metrics:
        metrics.keep()
        assert metrics.on_call is None
    (record,) = caplog.records
    assert "prometheus_client cannot be used (cannot import name 'disable_created_metrics'" in record.message


@pytest.mark.parametrize("what", ["report", "count_call"], ids=["a cycle", "a call to oned"])
def test_what_cannot_be_counted_is_told_once_and_nothing_wrong_is_served(
    what: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, port: int
) -> None:
    def broken(*_told: object) -> None:
        raise ValueError("a defect")

    monkeypatch.setattr(CycleMetrics if what == "report" else Instruments, what, broken)
    with DaemonMetrics(served_at(port)) as metrics:
        metrics.keep()
        assert fetched(port)[0] == 200
        on_call = metrics.on_call
        assert on_call is not None
        for _ in range(3):
            on_call("one.vm.info", 0.1, True)
            metrics.report(STANDS_BY, 0.1)
            metrics.keep()
        with pytest.raises(ConnectionRefusedError):
            fetched(port)
    assert [(record.levelno, record.message) for record in caplog.records] == [
        (logging.ERROR, "metrics could not be counted: there are none until the daemon is restarted")
    ]


def test_a_page_that_cannot_be_written_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, port: int
) -> None:
    def broken(*_asked: object) -> None:
        raise ValueError("a defect")

    monkeypatch.setattr(CycleMetrics, "_look", broken)
    with DaemonMetrics(served_at(port)) as metrics:
        metrics.keep()
        assert [fetched(port)[0] for _ in range(3)] == [500, 500, 500]
    assert [record.message for record in caplog.records] == ["metrics cannot be written, and are not served"]
