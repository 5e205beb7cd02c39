"""`gateway list`, `show` and `cancel`: everybody sees and ends own requests, by the rights they have in the zone."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from one_preempt.adapters.daemon_socket import gateway_client, line_socket
from one_preempt.core.gateway.requests import RequestState
from one_preempt.gateway.desk import REQUESTS_AT_A_TIME
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN
from tests.adapters.daemon_socket.test_daemon_socket import full
from tests.gateway.federation import PATIENCE_S, Federation

GANG = ("--name", "sweep", "--size", "3")


@contextmanager
def as_unix_user(uid: int) -> Iterator[None]:
    """The kernel tells the gateway, and who asks it, that the process at the other end is this user's."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(line_socket, "peer_user", lambda _connection: uid)
        yield


def test_a_list_has_own_requests_newest_first(world: Federation) -> None:
    world.submitted(*GANG)
    with as_unix_user(4711):
        world.submitted("--name", "other")
        mine = world.told("eva", "list")
    assert [(request["number"], request["name"], request["state"]) for request in mine] == [(2, "other", "placed")]
    everything = world.run("oneadmin", "list")
    assert everything.exit_code == 0
    assert "2 requests" in everything.stdout
    assert "sweep" in everything.stdout


def test_long_lists_come_in_pieces(world: Federation) -> None:
    for number in range(REQUESTS_AT_A_TIME + 5):
        gateway_client.ask_gateway(
            str(world.socket), "open", {"type": "BE-CANCELLABLE", "size": 1}
        ) if number < 30 else (world.submitted())
    assert len(world.told("eva", "list")) == REQUESTS_AT_A_TIME
    numbers = [one["number"] for one in world.told("eva", "list", "--all")]
    assert numbers == list(range(REQUESTS_AT_A_TIME + 5, 0, -1))


def test_a_request_is_shown_with_its_vms_as_they_are_now(world: Federation) -> None:
    answer = world.submitted(*GANG)
    zone = world.zones[answer["zone"]]
    zone.living()[0].user_template["LEASE_STATUS"] = ["it waits for room"]
    shown = world.run("eva", "show", "1")
    assert shown.exit_code == 0, shown.output
    lines = shown.stdout.splitlines()
    assert lines[2:5] == ["lease     3 x BE-SUSPENDABLE sweep", "state     placed", f"zone      {zone.name} {zone.url}"]
    assert "VM        0 sweep-0, HOLD it waits for room" in lines
    document = world.told("eva", "show", "1")
    assert [vm["id"] for vm in document["vms"]] == [0, 1, 2]
    assert "token" not in document


def test_while_the_zone_is_away_the_rest_is_shown(world: Federation) -> None:
    answer = world.submitted()
    world.zones[answer["zone"]].fails()
    shown = world.run("eva", "show", "1")
    assert shown.exit_code == 0
    assert "state     placed" in shown.stdout
    assert "how its VMs are is not known" in shown.stderr


def test_nobody_is_told_of_the_requests_of_others(world: Federation) -> None:
    world.submitted()
    with as_unix_user(4711):
        for command in (("show", "1"), ("cancel", "1", "--yes"), ("show", "99")):
            result = world.run("evan", *command)
            assert result.exit_code == 1
            assert f"you have no request {command[1]}" in result.stderr


def test_what_is_cancelled_is_ended_in_its_zone_and_still_counts(world: Federation) -> None:
    world.submitted(*GANG)
    before = world.balances()
    asked = world.run("eva", "cancel", "1", typed="n\n")
    assert asked.exit_code == 1
    assert sum(world.vms().values()) == 3
    result = world.run("eva", "cancel", "1", typed="y\n")
    assert result.exit_code == 0, result.output
    assert "request 1: cancelled" in result.stdout
    assert sum(world.vms().values()) == 0
    assert (world.request(1).state, world.balances()) == (RequestState.CANCELLED, before)
    again = world.run("eva", "cancel", "1", "--yes")
    assert (again.exit_code, "is cancelled: there is nothing to cancel" in again.stderr) == (1, True)


def test_a_vm_that_its_zone_does_not_let_go_keeps_the_request_as_it_is(world: Federation) -> None:
    answer = world.submitted(*GANG)
    zone = world.zones[answer["zone"]]
    zone.cloud.vm_lock(ONEADMIN, 1, 1, True)
    result = world.run("eva", "cancel", "1", "--yes")
    assert result.exit_code == 1
    assert "VM 1 is still there" in result.stderr
    assert world.request(1).state is RequestState.PLACED
    zone.cloud.vm_unlock(ONEADMIN, 1)
    assert world.run("eva", "cancel", "1", "--yes", "--hard").exit_code == 0


def test_an_administrator_cancels_for_others(world: Federation) -> None:
    world.submitted(*GANG)
    result = world.run("oneadmin", "cancel", "1", "--yes")
    assert result.exit_code == 0, result.output
    assert sum(world.vms().values()) == 0


def test_with_other_credentials_nothing_counts_as_cancelled(world: Federation) -> None:
    world.submitted(*GANG)
    result = world.run("lea", "cancel", "1", "--yes")
    assert result.exit_code == 1
    assert "Was it submitted with another ONE_AUTH?" in result.stderr
    assert (world.request(1).state, sum(world.vms().values())) == (RequestState.PLACED, 3)


def test_what_somebody_else_lets_be_seen_and_oned_cannot_send_hides_nobodys_request(world: Federation) -> None:
    """One VM with an emoji, shown to everybody, kept all users of its zone from looking and cancelling."""
    answer = world.submitted(*GANG)
    zone = world.zones[answer["zone"]]
    intruder = zone.cloud.vm_allocate(zone.caller("evan"), 'CPU="1"\nMEMORY="64"\nNOTE="\U0001f600"', True)
    zone.cloud.vms[intruder].permissions.other_u = True
    assert [vm["id"] for vm in world.told("eva", "show", "1")["vms"]] == [0, 1, 2]
    result = world.run("eva", "cancel", "1", "--yes")
    assert result.exit_code == 0, result.output
    assert world.request(1).state is RequestState.CANCELLED


def test_a_vm_of_the_request_that_oned_cannot_send_is_not_taken_for_ended(world: Federation) -> None:
    answer = world.submitted(*GANG)
    world.zones[answer["zone"]].cloud.vms[1].user_template["NOTE"] = ["\U0001f600"]
    result = world.run("eva", "cancel", "1", "--yes")
    assert result.exit_code == 1
    assert "VM 1 is still there" in result.stderr
    assert world.request(1).state is RequestState.PLACED


def test_what_may_still_be_created_is_not_cancelled_yet(world: Federation) -> None:
    gateway_client.ask_gateway(str(world.socket), "open", {"type": "BE-CANCELLABLE", "size": 1})
    result = world.run("eva", "cancel", "1", "--yes")
    assert result.exit_code == 1
    assert f"cancel in {PATIENCE_S} s" in result.stderr
    with pytest.raises(gateway_client.GatewayDeclined, match="cancel in"):
        gateway_client.ask_gateway(str(world.socket), "cancelled", {"request": 1})
    world.clock.set(world.clock.now_s() + PATIENCE_S)
    assert world.run("eva", "cancel", "1", "--yes").exit_code == 0
    assert world.request(1).charges == {}


# -- who may ask, and what may be said -----------------------------------------------------------------------


def test_a_gateway_of_a_stranger_is_told_nothing(world: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_client, "peer_user", lambda _connection: 4711)
    monkeypatch.setattr(gateway_client, "_uid_of", lambda _name: 9869)
    result = world.submit()
    assert result.exit_code == 1
    assert "listens user 4711, who is neither root nor oneadmin" in result.stderr
    assert world.told("oneadmin", "rates")["in_force"] is not None
    assert sum(world.vms().values()) == 0


def test_everybody_of_the_machine_may_open_the_socket(world: Federation) -> None:
    assert world.socket.stat().st_mode & 0o777 == 0o666
    with as_unix_user(4711):
        assert world.submit().exit_code == 0


@contextmanager
def crowd(world: Federation, count: int = 20) -> Iterator[ExitStack]:
    """Half-open connections of one user, as long as nobody closes them; all have found a place, or none."""
    with ExitStack() as opened, pytest.MonkeyPatch.context() as patched:
        for _ in range(count):
            one = opened.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            one.connect(str(world.socket))
        patched.setattr(gateway_client, "ASK_AGAIN_S", 3600)
        with pytest.raises(gateway_client.GatewayUnavailable, match="16 others of the same user are being answered"):
            gateway_client.ask_gateway(str(world.socket), "status", {})
        patched.undo()
        yield opened


def test_who_keeps_places_busy_keeps_nobody_else_out(world: Federation) -> None:
    with ExitStack() as crowds:
        for uid in (4711, 4712, 4713):
            with as_unix_user(uid):
                assert world.told("eva", "list") == []
                crowds.enter_context(crowd(world))


def test_who_finds_no_place_asks_again(world: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    with crowd(world) as opened:
        one_leaves = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _seconds: opened.close())
        monkeypatch.setattr(gateway_client, "time", one_leaves)
        assert gateway_client.ask_gateway(str(world.socket), "status", {})["zones"] == list(world.zones)


WRONG: list[dict[str, Any]] = [
    {"kind": "open"},
    {"kind": "open", "type": "BE-SUSPENDABLE", "size": 0},
    {"kind": "open", "type": "BE-SUSPENDABLE", "size": 10**9},
    {"kind": "open", "type": "best", "size": 1},
    {"kind": "open", "type": "BE-SUSPENDABLE", "size": 1, "uid": 0},
    {"kind": "open", "type": "BE-SUSPENDABLE", "size": 1, "name": "x" * 300},
    {"kind": "placed", "request": 1, "zone": "north", "vm_ids": []},
    {"kind": "placed", "request": 1, "zone": "north", "vm_ids": ["1"]},
    {"kind": "placed", "request": -1, "zone": "north", "vm_ids": [1]},
    {"kind": "show", "request": 2**60},
    {"kind": "list", "before": 0},
    {"kind": "shutdown"},
    {},
]


@pytest.mark.parametrize("message", WRONG, ids=str)
def test_what_is_no_message_is_answered_in_words(message: dict[str, Any], world: Federation) -> None:
    kind = message.get("kind", "")
    with pytest.raises(gateway_client.GatewayUnavailable, match="does not do this: this message is not understood"):
        gateway_client.ask_gateway(
            str(world.socket), kind, {name: one for name, one in message.items() if name != "kind"}
        )


@pytest.mark.parametrize(
    "line", [b"\n", b"[]\n", b"nonsense\n", b"[" * 60_000 + b"\n", b"\xff\xfe\n", b'{"version": 2}\n']
)
def test_garbage_is_answered_and_forgotten(line: bytes, world: Federation) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(str(world.socket))
        connection.sendall(line)
        assert json.loads(connection.recv(4096))["ok"] is False
    assert world.submit().exit_code == 0


def test_a_request_cannot_be_moved_by_saying_so(world: Federation) -> None:
    answer = world.submitted(*GANG)
    elsewhere = next(name for name in world.zones if name != answer["zone"])
    say = str(world.socket)
    for kind, fields, told in (
        ("placed", {"request": 1, "zone": elsewhere, "vm_ids": [1, 2, 3]}, "is not at zone"),
        ("placed", {"request": 1, "zone": answer["zone"], "vm_ids": [1, 1, 2]}, "is for 3 VMs, not 2"),
        ("refused", {"request": 1, "zone": answer["zone"], "text": "no"}, "nothing is asked of it"),
        ("unanswered", {"request": 1, "zone": answer["zone"], "text": "?"}, "nothing is asked of it"),
        ("continue", {"request": 1}, "there is nothing to continue"),
    ):
        with pytest.raises(gateway_client.GatewayDeclined, match=told):
            gateway_client.ask_gateway(say, kind, fields)
    assert world.request(1).state is RequestState.PLACED


def test_words_of_users_control_no_terminal(world: Federation) -> None:
    turn = gateway_client.ask_gateway(
        str(world.socket), "open", {"type": "BE-CANCELLABLE", "size": 1, "name": "\x1b[2J"}
    )
    evil = "\x1b]0;owned\x07 " + "x" * 3000
    gateway_client.ask_gateway(str(world.socket), "refused", {"request": 1, "zone": turn["zone"], "text": evil})
    for command in (("list",), ("show", "1")):
        shown = world.run("oneadmin", *command)
        assert shown.exit_code == 0, shown.output
        assert "\x1b" not in shown.stdout
    assert len(world.request(1).attempts[0].text) <= 400


def test_only_who_asked_continues_a_request(world: Federation) -> None:
    """With other credentials its VMs would not be found as own ones, and be made once more."""
    with as_unix_user(4711):
        turn = gateway_client.ask_gateway(str(world.socket), "open", {"type": "BE-SUSPENDABLE", "size": 1})
    world.clock.set(world.clock.now_s() + PATIENCE_S)
    result = world.submit("--continue", str(turn["number"]), user="oneadmin")
    assert result.exit_code == 1
    assert "request 1 is 4711's, who alone can continue it; you can cancel it" in result.stderr
    assert sum(world.vms().values()) == 0


def test_long_words_of_one_user_hide_no_list(world: Federation) -> None:
    path = str(world.socket)
    for _ in range(32):
        turn = gateway_client.ask_gateway(
            path, "open", {"type": "BE-SUSPENDABLE", "size": 1, "name": "\U0001f600" * 255}
        )
        told = {"request": turn["number"], "zone": turn["zone"], "text": "\u4e2d" * 1000}
        gateway_client.ask_gateway(path, "unanswered", told)
    assert len(world.told("oneadmin", "list")) == 32


def test_who_finds_a_crowd_before_the_gateway_is_told_so(tmp_path: Path) -> None:
    with full(tmp_path), pytest.raises(gateway_client.GatewayUnavailable, match="more ask the gateway at"):
        gateway_client.ask_gateway(str(tmp_path / "daemon.sock"), "status", {}, 0.05)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"", "it ended the connection before it answered"),
        (b"hello\n", "its answer cannot be read"),
        (b"[]\n", "its answer cannot be read"),
    ],
)
def test_what_is_no_gateway_is_told_as_that(answer: bytes, told: str, tmp_path: Path) -> None:
    path = str(tmp_path / "other.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def let_one_in() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=let_one_in)
        thread.start()
        with pytest.raises(gateway_client.GatewayUnavailable, match=told):
            gateway_client.ask_gateway(path, "status", {})
        thread.join()
