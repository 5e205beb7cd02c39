"""The daemon's socket stands in its place again, whoever removed it or had it before."""

from __future__ import annotations

import errno
import logging
import os
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import cast

import pytest

from one_preempt.adapters.daemon_socket.client import ask_daemon
from one_preempt.adapters.daemon_socket.server import DaemonSocket
from one_preempt.adapters.lease_store.named_database import LeaseStoreError
from one_preempt.configuration.settings import Settings
from one_preempt.entrypoints.cycle_log import CycleLog
from one_preempt.entrypoints.daemon import Listeners
from one_preempt.entrypoints.daemon import _cycle as look
from one_preempt.entrypoints.daemon_desk import Desk
from one_preempt.entrypoints.daemon_metrics import DaemonMetrics
from one_preempt.entrypoints.gateway_service import _round as gateway_round
from one_preempt.entrypoints.kept_socket import KeptSocket
from one_preempt.errors import OnePreemptError
from one_preempt.gateway.upkeep import Upkeep
from one_preempt.ports import AnotherDaemonWrites
from one_preempt.scheduling_cycle import SchedulingCycle


def daemon(path: Path, name: str) -> KeptSocket:
    me = frozenset({os.geteuid()})
    return KeptSocket(lambda: DaemonSocket(lambda _message: {"ok": True, "is": name}, me).listening(path))


def who_answers(path: Path) -> object:
    answer = ask_daemon("status", {}, str(path))
    return answer and answer.get("is")


def test_a_daemon_that_takes_over_has_the_socket_once_the_first_has_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "daemon.sock"
    caplog.set_level(logging.INFO)
    with daemon(path, "second") as second:
        with daemon(path, "first") as first:
            first.keep()
            for _cycle in range(3):
                second.keep()
            assert who_answers(path) == "first"
        second.keep()
        assert who_answers(path) == "second"
    assert [record.message for record in caplog.records] == [
        f"no socket at {path}: another process answers there; going on without it",
        "the daemon's socket is open now",
    ]
    assert not path.exists()


@pytest.mark.parametrize("replaced", [False, True], ids=["removed", "replaced"])
def test_a_socket_that_is_gone_is_opened_again(
    replaced: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "daemon.sock"
    with daemon(path, "ours") as kept, ExitStack() as meanwhile:
        kept.keep()
        path.unlink()
        if replaced:
            other = meanwhile.enter_context(daemon(path, "another"))
            other.keep()
            kept.keep()
            assert who_answers(path) == "another"
            meanwhile.close()
        kept.keep()
        kept.keep()
        assert who_answers(path) == "ours"
    assert [record.message for record in caplog.records if record.levelno == logging.WARNING] == [
        "the daemon's socket was removed or replaced: it is opened again",
        *([f"no socket at {path}: another process answers there; going on without it"] if replaced else []),
    ]


def test_who_waits_for_the_database_leaves_the_socket_to_who_schedules(tmp_path: Path) -> None:
    path = tmp_path / "daemon.sock"
    with daemon(path, "waits") as waits, daemon(path, "schedules") as schedules:
        waits.keep()
        schedules.keep()
        assert who_answers(path) == "waits"
        waits.leave()
        schedules.keep()
        assert who_answers(path) == "schedules"


def test_a_cycle_that_finds_another_writer_leaves_the_socket_to_it(tmp_path: Path) -> None:
    class FindsAnotherWriter:
        def run(self) -> None:
            raise AnotherDaemonWrites("another daemon writes")

    path = tmp_path / "daemon.sock"
    with daemon(path, "waits") as waits:
        waits.keep()
        cycle = cast(SchedulingCycle, FindsAnotherWriter())
        log, desk = CycleLog(logging.getLogger("of a test")), Desk(30, lambda: None)
        found = look(cycle, Listeners(log, desk, waits, DaemonMetrics(Settings())))
        assert isinstance(found, AnotherDaemonWrites)
        assert who_answers(path) is None


def test_a_gateway_that_finds_another_writer_leaves_the_socket_to_it(tmp_path: Path) -> None:
    class Round:
        def __init__(self, error: OnePreemptError | None) -> None:
            self.error = error

        def round(self) -> None:
            if self.error is not None:
                raise self.error

    def after(error: OnePreemptError | None) -> str:
        return gateway_round(cast(Upkeep, Round(error)), kept, "")

    path = tmp_path / "daemon.sock"
    with daemon(path, "ours") as kept:
        assert after(LeaseStoreError("the disk is full")) == "the disk is full"
        assert who_answers(path) == "ours", "it goes on telling what there is"
        assert after(AnotherDaemonWrites("another gateway writes")) == "another gateway writes"
        assert who_answers(path) is None
        assert after(None) == ""
        assert who_answers(path) == "ours"


def test_without_a_descriptor_left_the_daemon_goes_on_without_its_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def none_is_left(*_asked: object) -> socket.socket:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    path = tmp_path / "daemon.sock"
    with daemon(path, "ours") as kept:
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr("one_preempt.adapters.daemon_socket.line_socket.socket.socket", none_is_left)
            kept.keep()
        assert [record.message for record in caplog.records] == [
            f"no socket at {path}: Too many open files; going on without it"
        ]
        kept.keep()
        assert who_answers(path) == "ours"
