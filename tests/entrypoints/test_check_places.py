"""What `check` makes of the places that the configuration names: files, the daemon's lock, the event bus."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import zmq

from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore
from one_preempt.adapters.metrics.server import MetricsServer
from one_preempt.configuration.settings import EventSettings, LogSettings, MetricsSettings, Settings, StoreSettings
from one_preempt.entrypoints.cli import check_places
from one_preempt.entrypoints.cli.check import judge_database, running_programs
from one_preempt.entrypoints.cli.check_places import judge_events, judge_files, judge_metrics, running_daemon
from one_preempt.entrypoints.cli.set_up import Finding, Grade, judge_daemon
from one_preempt.entrypoints.daemon_metrics import DaemonMetrics
from tests.other_users import closed
from tests.scraped import free_port


def keeping(folder: Path) -> Settings:
    return Settings(store=StoreSettings(url=f"sqlite:///{folder}/leases.db"))


def logging_to(file: Path) -> Settings:
    return Settings(log=LogSettings(file=str(file)))


def promising_in(file: Path) -> Settings:
    return Settings(store=StoreSettings(held_capacity_file=str(file)))


def test_a_database_in_a_folder_that_is_closed_is_graded_as_failed(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    with closed(folder):
        finding = judge_database(keeping(folder))
    assert finding.grade is Grade.FAIL
    assert "Permission denied; run this as the user that runs the scheduler" in finding.text


def test_a_database_that_the_daemon_can_make_is_only_missing(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "new"):
        finding = judge_database(keeping(folder))
        assert (finding.grade, finding.text) == (Grade.WARN, "there is none yet")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("below", "why"), [("far/away", "does not exist"), ("file", "is no folder")])
def test_a_database_that_cannot_be_made_is_graded_as_failed(below: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    finding = judge_database(keeping(tmp_path / below))
    assert finding.grade is Grade.FAIL
    assert f"{tmp_path / below} {why}" in finding.text
    assert "store.url" in finding.mend


@pytest.mark.parametrize(
    ("settings_of", "below", "told"),
    [
        (logging_to, "missing/daemon.log", "missing does not exist"),
        (logging_to, "", "a folder is there"),
        (promising_in, "file/held_capacity.json", "file is no folder"),
    ],
)
def test_a_file_that_the_daemon_cannot_write_is_graded_as_failed(
    settings_of: Callable[[Path], Settings], below: str, told: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    (finding,) = judge_files(settings_of(tmp_path / below))
    assert finding.grade is Grade.FAIL
    assert told in finding.text
    assert "make its folder" in finding.mend


@pytest.mark.parametrize("settings_of", [logging_to, promising_in])
def test_a_file_in_a_folder_that_is_closed_is_graded_as_failed(
    settings_of: Callable[[Path], Settings], tmp_path: Path
) -> None:
    with closed(tmp_path):
        (finding,) = judge_files(settings_of(tmp_path / "file"))
    assert finding.grade is Grade.FAIL
    assert "Permission denied" in finding.text
    assert "run this as the user that runs the scheduler" in finding.mend


def test_a_process_whose_name_is_no_utf8_is_among_those_that_run() -> None:
    with TemporaryDirectory() as folder:
        named = os.path.join(os.fsencode(folder), b"caf\xe9")
        os.symlink("/bin/cat", named)
        with subprocess.Popen([named], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            # Once it answers it bears its name, which it does not when the call that starts it returns.
            process.stdin.write(b"x")
            assert process.stdout.read(1) == b"x"
            assert "caf\ufffd" in running_programs()


def test_a_process_that_has_ended_does_not_run_though_its_parent_took_no_note() -> None:
    with TemporaryDirectory() as folder:
        named = os.path.join(folder, "ended (1) S 2")
        os.symlink("/bin/true", named)
        with subprocess.Popen([named]) as process:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            assert "ended (1) S 2" not in running_programs()


def test_files_that_the_daemon_can_write_need_no_word(tmp_path: Path) -> None:
    (tmp_path / "old.log").touch()
    assert not list(judge_files(logging_to(tmp_path / "old.log")))
    assert not list(judge_files(logging_to(tmp_path / "new.log")))
    assert not list(judge_files(promising_in(tmp_path / "made/by/the/daemon/held_capacity.json")))
    assert not list(judge_files(Settings()))


def test_a_daemon_that_runs_without_its_socket_is_graded_as_failed(tmp_path: Path) -> None:
    settings = keeping(tmp_path)
    assert running_daemon(settings) == ""
    with closing(SqlLeaseStore(settings.store.url)) as store:
        store.acquire_writer()
        finding = judge_daemon("/run/x", None, running_daemon(settings))
    assert finding.grade is Grade.FAIL
    assert f"it runs (process {os.getpid()} on {socket.gethostname()}) and does not answer at /run/x" in finding.text
    # Who held the lock stands in its file still.
    assert judge_daemon("/run/x", None, running_daemon(settings)).grade is Grade.OK


def events_at(endpoint: str) -> list[Finding]:
    return list(judge_events(EventSettings(endpoint=endpoint)))


@contextmanager
def listening(kind: int, endpoint: str) -> Iterator[str]:
    """A socket of ZeroMQ, and where it is reached."""
    with zmq.Context() as context, context.socket(kind) as bound:
        bound.setsockopt(zmq.IPV6, 1)
        bound.bind(endpoint)
        yield bound.getsockopt_string(zmq.LAST_ENDPOINT)


@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1:*", "tcp://[::1]:*", "ipc://{}/bus"])
def test_an_event_bus_is_looked_for_where_it_is_to_be_heard(endpoint: str, tmp_path: Path) -> None:
    with listening(zmq.PUB, endpoint.format(tmp_path)) as published:
        assert events_at(published) == []
    (finding,) = events_at(published)
    assert finding.grade is Grade.WARN
    assert f"nothing can be heard at {published} (" in finding.text
    # The service opennebula-hem listens there as well; what publishes is a driver of oned.
    assert "oned publishes where HM_MAD in oned.conf says" in finding.mend
    assert not list(judge_events(EventSettings(enabled=False, endpoint=published)))


def test_what_listens_at_the_endpoint_of_events_and_publishes_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_places, "LISTENS_WITHIN_S", 0.2)
    # As where the hook manager takes the results of hooks, a port further.
    with listening(zmq.REP, "tcp://127.0.0.1:*") as other:
        (finding,) = events_at(other)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        (another,) = events_at(f"tcp://127.0.0.1:{silent.getsockname()[1]}")
    for found in (finding, another):
        assert found.grade is Grade.WARN
        assert "(what listens there publishes nothing): changes are seen a cycle later" in found.text


# -- metrics -------------------------------------------------------------------------------------------------


def judged(listen: str | None, *, is_there: bool = True) -> list[Finding]:
    return list(judge_metrics(MetricsSettings(listen=listen), is_there=is_there))


def test_metrics_that_are_not_configured_or_whose_daemon_is_not_started_are_nothing_to_judge() -> None:
    assert judged(None) == []
    assert judged("127.0.0.1:9640", is_there=False) == []


def test_metrics_that_are_read_are_as_they_should_be() -> None:
    port = free_port()
    with DaemonMetrics(Settings(metrics=MetricsSettings(listen=f"0.0.0.0:{port}"))) as metrics:
        metrics.keep()
        assert judged(f"0.0.0.0:{port}") == [
            Finding("metrics", Grade.OK, f"they are read at http://127.0.0.1:{port}/metrics")
        ]


def test_a_port_at_which_nobody_or_somebody_else_answers_is_a_warning() -> None:
    port = free_port()
    (finding,) = judged(f"127.0.0.1:{port}")
    assert finding.grade is Grade.WARN
    assert finding.text.endswith("Connection refused")
    with MetricsServer(lambda: b"another_exporter 1\n").listening("127.0.0.1", port):
        (finding,) = judged(f"127.0.0.1:{port}")
    assert finding.grade is Grade.WARN
    assert "(HTTP 200) is something else" in finding.text


def test_check_does_not_wait_for_ever_for_whoever_has_the_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """It sends a byte now and then, and its answer never ends."""
    monkeypatch.setattr(check_places, "ANSWERS_WITHIN_S", 0.3)
    over = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection, _address = listener.accept()
        with connection, suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            while not over.wait(0.02):
                connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        dripping = threading.Thread(target=drip, args=(listener,), daemon=True)
        dripping.start()
        # Else this test would never end.
        too_late = threading.Timer(5.0, over.set)
        too_late.start()
        (finding,) = judged(f"127.0.0.1:{listener.getsockname()[1]}")
        was_over = over.is_set()
        too_late.cancel()
        over.set()
        dripping.join()
    assert finding.grade is Grade.WARN
    assert "no metrics are read at" in finding.text
    assert not was_over


def test_without_the_library_check_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "one_preempt.adapters.metrics.instruments", raising=False)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    (finding,) = judged("127.0.0.1:9640")
    assert finding.grade is Grade.WARN
    assert "prometheus_client is not installed; install it (" in finding.text
