"""The daemon's socket under honest, slow, broken and hostile clients."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from one_preempt.adapters.daemon_socket.client import MAX_MESSAGE_BYTES, ask_daemon
from one_preempt.adapters.daemon_socket.line_socket import SocketUnavailable
from one_preempt.adapters.daemon_socket.messages import Message
from one_preempt.adapters.daemon_socket.server import DaemonSocket, trusted_users

ME = frozenset({os.geteuid()})
PATIENCE_S = 20


@contextmanager
def listening(
    folder: Path, users: frozenset[int] = ME, timeout_s: float = PATIENCE_S, max_clients: int = 16
) -> Iterator[tuple[str, list[Message]]]:
    heard: list[Message] = []

    def answer(message: Message) -> dict[str, object]:
        heard.append(message)
        return {"ok": True, "schedules": True}

    path = folder / "daemon.sock"
    with DaemonSocket(answer, users, timeout_s, max_clients).listening(path):
        yield str(path), heard


@contextmanager
def connected(path: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE_S)
        client.connect(path)
        yield client


def raw(path: str, *pieces: bytes) -> bytes:
    """What comes back for these bytes; nothing where the connection is closed without an answer."""
    with connected(path) as client:
        try:
            for piece in pieces:
                client.sendall(piece)
            return client.makefile("rb").readline()
        except ConnectionError:
            return b""


def test_a_question_is_answered_and_its_payload_checked(tmp_path: Path) -> None:
    with listening(tmp_path) as (path, heard):
        assert ask_daemon("place", {"version": 99, "kind": "hook"}, path) == {"ok": True, "schedules": True}
        assert ask_daemon("hook", {"type": "VM", "id": 7, "document": "<VM>"}, path) == {"ok": True, "schedules": True}
    assert heard == [Message.PLACE, Message.HOOK]


def test_the_socket_is_for_its_owner_alone_and_goes_with_the_daemon(tmp_path: Path) -> None:
    with listening(tmp_path) as (path, _heard):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert list(tmp_path.iterdir()) == []
    assert ask_daemon("status", {}, path) is None


def test_users_who_are_not_trusted_are_refused(tmp_path: Path) -> None:
    with listening(tmp_path, users=frozenset({os.geteuid() + 1})) as (path, heard):
        answer = ask_daemon("place", {}, path)
    assert answer is not None
    assert not answer["ok"]
    assert heard == []
    assert trusted_users() == {0, os.geteuid()}


def test_who_may_not_open_the_socket_is_told_so_and_does_not_count_the_daemon_as_away(tmp_path: Path) -> None:
    with listening(tmp_path) as (path, heard):
        os.chmod(path, 0)
        answer = as_somebody_else(lambda: ask_daemon("place", {}, path))
    assert isinstance(answer, dict)
    assert answer["ok"] is False
    assert f"this user may not open {path}" in answer["error"]
    assert heard == []


def as_somebody_else(ask: Callable[[], object]) -> object:
    """What `ask` returns in a process that may do no more than others."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            os.write(writing, json.dumps(ask()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        answer: object = json.loads(told.read())
    os.waitpid(child, 0)
    return answer


NOISE = [
    b"\n",
    b"hello\n",
    b"[]\n",
    b"null\n",
    b'{"version": 1}\n',
    b'{"version": 2, "kind": "place"}\n',
    b'{"version": 1, "kind": ["place"]}\n',
    b'{"version": 1, "kind": "hook", "type": "VM"}\n',
    b'{"version": 1, "kind": "hook", "type": "VM", "id": true}\n',
    b'{"version": 1, "kind": "hook", "type": "IMAGE", "id": 1}\n',
    b'{"version": 1, "kind": "hook", "type": {}, "id": 1}\n',
    b"\xff\xfe\x00\n",
    b"[" * 50_000 + b"\n",
    b"1" * 50_000 + b"\n",
]


@pytest.mark.parametrize("line", NOISE, ids=range(len(NOISE)))
def test_noise_is_refused_with_a_reason_and_the_next_question_answered(tmp_path: Path, line: bytes) -> None:
    with listening(tmp_path) as (path, heard):
        answer = json.loads(raw(path, line))
        assert answer["ok"] is False
        assert answer["error"]
        assert ask_daemon("wake", {}, path)
    assert heard == [Message.WAKE]


def test_a_message_that_is_too_long_is_refused_and_the_daemon_lives(tmp_path: Path) -> None:
    with listening(tmp_path) as (path, heard):
        answer = raw(path, b"x" * (3 * MAX_MESSAGE_BYTES))
        assert b'"ok": true' not in answer
        assert ask_daemon("wake", {"much": "x" * MAX_MESSAGE_BYTES}, path) is None
        assert ask_daemon("wake", {}, path)
    assert heard == [Message.WAKE]


def test_a_message_in_pieces_is_put_together(tmp_path: Path) -> None:
    with listening(tmp_path) as (path, heard):
        assert json.loads(raw(path, b'{"version": 1,', b' "kind": "wa', b'ke"}\n'))["ok"]
    assert heard == [Message.WAKE]


def test_half_a_message_ends_with_its_time_and_a_client_that_leaves_does_no_harm(tmp_path: Path) -> None:
    with listening(tmp_path, timeout_s=0.05) as (path, heard):
        assert raw(path, b'{"version": 1, "kind":') == b""
        with connected(path) as leaving:
            leaving.sendall(b'{"version"')
        with connected(path):
            pass
        assert ask_daemon("wake", {}, path)
    assert heard == [Message.WAKE]


def test_one_client_too_many_is_refused_at_once_and_a_free_place_is_used_again(tmp_path: Path) -> None:
    with listening(tmp_path, max_clients=2) as (path, heard), connected(path) as first, connected(path) as second:
        for waiting in (first, second):
            waiting.sendall(b"{")
        refused = raw(path)
        assert refused == b"" or b"others are being answered" in refused
        for waiting in (first, second):
            waiting.sendall(b'"version": 1, "kind": "wake"}\n')
            assert json.loads(waiting.makefile("rb").read())["ok"]
        assert ask_daemon("place", {}, path) == {"ok": True, "schedules": True}
    assert heard == [Message.WAKE, Message.WAKE, Message.PLACE]


def test_clients_that_hang_do_not_keep_the_daemon_from_ending(tmp_path: Path) -> None:
    with listening(tmp_path) as (path, _heard), connected(path) as silent:
        silent.sendall(b"{")
        began_s = time.monotonic()
    assert time.monotonic() - began_s < PATIENCE_S / 2


def test_a_socket_left_behind_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "daemon.sock"))
    with listening(tmp_path) as (path, _heard):
        assert ask_daemon("wake", {}, path)


def test_a_second_daemon_is_refused_and_does_not_disturb_the_first(tmp_path: Path) -> None:
    with listening(tmp_path) as (path, _heard):
        with pytest.raises(SocketUnavailable, match="another process"), listening(tmp_path):
            pass
        assert ask_daemon("wake", {}, path)


def test_a_file_in_the_place_of_the_socket_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "daemon.sock").write_text("precious")
    with pytest.raises(SocketUnavailable, match="something else"), listening(tmp_path):
        pass
    assert (tmp_path / "daemon.sock").read_text() == "precious"


@pytest.mark.parametrize("name", ["missing/daemon.sock", "x" * 200])
def test_a_place_where_no_socket_can_be_is_told_in_one_line(tmp_path: Path, name: str) -> None:
    with (
        pytest.raises(SocketUnavailable, match=r"see socket\.path"),
        DaemonSocket(lambda message: {}, ME).listening(tmp_path / name),
    ):
        pass


ANSWERS = [b"", b"{", b"\n", b"nonsense\n", b"[]\n", b"{}\n", b'{"ok": 1}\n', b"[" * 60_000 + b"\n", b"x" * 200_000]


@pytest.mark.parametrize("answer", ANSWERS, ids=range(len(ANSWERS)))
def test_the_client_takes_nonsense_for_no_answer(tmp_path: Path, answer: bytes) -> None:
    path = str(tmp_path / "false.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def give() -> None:
            connection, _ = listener.accept()
            with connection:
                try:
                    connection.recv(4096)
                    connection.sendall(answer)
                except ConnectionError:
                    pass

        thread = threading.Thread(target=give)
        thread.start()
        assert ask_daemon("place", {}, path, PATIENCE_S) is None
        thread.join()


def test_the_client_waits_no_longer_than_it_was_told(tmp_path: Path) -> None:
    path = str(tmp_path / "slow.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        began_s = time.monotonic()
        assert ask_daemon("place", {}, path, 0.05) is None
        assert time.monotonic() - began_s < PATIENCE_S


def test_a_question_that_the_daemon_leaves_open_is_no_answer_at_once(tmp_path: Path) -> None:
    path = tmp_path / "daemon.sock"
    with DaemonSocket(lambda message: None, ME, PATIENCE_S).listening(path):
        began_s = time.monotonic()
        assert ask_daemon("place", {}, str(path), PATIENCE_S) is None
    assert time.monotonic() - began_s < PATIENCE_S / 2


@contextmanager
def full(folder: Path) -> Iterator[socket.socket]:
    """A socket at which as many wait as can, and nobody is let in yet."""
    with socket.socket(socket.AF_UNIX) as listener, ExitStack() as waiting:
        listener.bind(str(folder / "daemon.sock"))
        listener.listen(0)
        with suppress(BlockingIOError):
            while True:
                client = waiting.enter_context(socket.socket(socket.AF_UNIX))
                client.setblocking(False)
                client.connect(str(folder / "daemon.sock"))
                client.shutdown(socket.SHUT_WR)
        yield listener


def test_a_daemon_that_is_asked_by_too_many_does_not_count_as_away(tmp_path: Path) -> None:
    with full(tmp_path):
        answer = ask_daemon("place", {}, str(tmp_path / "daemon.sock"), 0.05)
    told = f"more ask at {tmp_path / 'daemon.sock'} than the daemon can answer in 0.05 s"
    assert answer == {"ok": False, "error": told}


def test_who_finds_others_waiting_waits_as_well_and_is_answered(tmp_path: Path) -> None:
    with full(tmp_path) as listener:

        def let_all_in() -> None:
            line = b""
            while not line:
                connection, _ = listener.accept()
                with connection:
                    line = connection.recv(4096)
                    connection.sendall(b'{"ok": true}\n')

        thread = threading.Thread(target=let_all_in)
        thread.start()
        assert ask_daemon("place", {}, str(tmp_path / "daemon.sock"), PATIENCE_S) == {"ok": True}
        thread.join()


def test_who_is_refused_before_it_has_asked_is_told_why(tmp_path: Path) -> None:
    with listening(tmp_path, max_clients=0) as (path, heard):
        for _ in range(100):
            assert ask_daemon("place", {}, path) == {"ok": False, "busy": True, "error": "0 others are being answered"}
    assert heard == []


def test_no_daemon_is_no_answer(tmp_path: Path) -> None:
    assert ask_daemon("place", {}, str(tmp_path / "nothing")) is None
    assert ask_daemon("place", {}, "/" + "x" * 300) is None
    assert ask_daemon("place", {}, "\0") is None


def test_the_client_needs_the_standard_library_alone() -> None:
    code = "import sys; import one_preempt.adapters.daemon_socket.client; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    foreign = {"numpy", "msgspec", "lxml", "yaml", "sqlalchemy", "requests", "click", "asyncio", "dataclasses"}
    assert foreign.isdisjoint(modules)
