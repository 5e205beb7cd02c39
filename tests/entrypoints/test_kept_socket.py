"""The daemon's socket stands in its place again, whoever removed it or had it before."""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from one_preempt.adapters.daemon_socket.client import ask_daemon
from one_preempt.adapters.daemon_socket.server import DaemonSocket
from one_preempt.entrypoints.kept_socket import KeptSocket


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
        f"no socket at {path}: another daemon answers there; going on without it",
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
        *([f"no socket at {path}: another daemon answers there; going on without it"] if replaced else []),
    ]
