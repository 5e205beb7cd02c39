"""Magic packets read from a real socket, the real ssh against a real server, and probes of real ports."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from one_preempt.adapters.power_control.secret import Secret
from one_preempt.adapters.power_control.wake_on_lan import WakeOnLanPowerControl, magic_packet
from one_preempt.configuration.power_control_settings import HostSettings, WakeOnLanSettings
from one_preempt.core.model.power import PowerAnswer, PowerOutcome, PowerStatus
from tests.adapters.power_control.real_parts import installed, python_with_asyncssh

HOST = "node-01"
HARDWARE_ADDRESS = "01:23:45:67:89:ab"
LOOPBACK_BROADCAST = "127.255.255.255"
PACKET = bytes.fromhex("ff" * 6 + "0123456789ab" * 16)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Hears what is broadcast on loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind((LOOPBACK_BROADCAST, 0))
        listener.settimeout(2)
        yield listener


def control(listener: socket.socket, own: HostSettings, **options: object) -> WakeOnLanPowerControl:
    settings = {"broadcast_address": LOOPBACK_BROADCAST, "port": listener.getsockname()[1]} | options
    return WakeOnLanPowerControl(WakeOnLanSettings(**settings), {HOST: own})


def heard(listener: socket.socket) -> list[bytes]:
    """All packets that came, and nothing more is coming."""
    packets = [listener.recv(2000)]
    listener.setblocking(False)
    try:
        while True:
            packets.append(listener.recv(2000))
    except BlockingIOError:
        return packets


def test_the_packet_that_is_broadcast_is_the_magic_one_as_often_as_configured(listener: socket.socket) -> None:
    outcome = control(listener, HostSettings(hardware_address=HARDWARE_ADDRESS), packets=2).switch_on(HOST)
    assert outcome.accepted
    assert heard(listener) == [PACKET, PACKET]


def test_the_secure_on_password_ends_the_packet_and_is_in_no_answer(listener: socket.socket, tmp_path: Path) -> None:
    file = tmp_path / "secure_on"
    file.write_text("de-ad-be-ef-00-01\n")
    file.chmod(0o600)
    own = HostSettings(hardware_address=HARDWARE_ADDRESS, secure_on_file=str(file))
    outcome = control(listener, own, packets=1).switch_on(HOST)
    assert heard(listener) == [PACKET + bytes.fromhex("deadbeef0001")]
    assert "de-ad" not in repr(outcome)


def test_a_secure_on_password_of_another_form_is_refused_without_showing_it(
    listener: socket.socket, tmp_path: Path
) -> None:
    file = tmp_path / "secure_on"
    file.write_text("my dear password\n")
    file.chmod(0o600)
    own = HostSettings(hardware_address=HARDWARE_ADDRESS, secure_on_file=str(file))
    outcome = control(listener, own).switch_on(HOST)
    assert outcome.answer is PowerAnswer.MISCONFIGURED
    assert "dear" not in repr(outcome)


def test_the_hardware_address_may_come_from_the_hosts_template(listener: socket.socket) -> None:
    settings = WakeOnLanSettings(broadcast_address=LOOPBACK_BROADCAST, port=listener.getsockname()[1], packets=1)
    attributes = {"POWER_HARDWARE_ADDRESS": HARDWARE_ADDRESS.upper()}
    assert WakeOnLanPowerControl(settings, {}, lambda host: attributes).switch_on(HOST).accepted
    assert heard(listener) == [PACKET]


def test_a_host_without_a_hardware_address_is_told_where_to_write_one(listener: socket.socket) -> None:
    outcome = control(listener, HostSettings()).switch_on(HOST)
    assert outcome.answer is PowerAnswer.MISCONFIGURED
    assert f"hosts.{HOST}.hardware_address" in outcome.text


def test_a_packet_has_six_ff_and_sixteen_times_the_address() -> None:
    assert magic_packet("01-23-45-67-89-AB") == PACKET
    assert len(magic_packet(HARDWARE_ADDRESS, Secret("00:00:00:00:00:01"))) == 108


def probing(port: int, address: str = "127.0.0.1") -> WakeOnLanPowerControl:
    settings = WakeOnLanSettings(host_address=address, ssh_port=port, connect_timeout_s=0.05, silent_probes=3)
    return WakeOnLanPowerControl(settings, {})


def test_a_host_whose_port_is_open_is_on() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert probing(server.getsockname()[1]).status(HOST).status is PowerStatus.ON


def test_a_host_that_refuses_the_connection_is_on_all_the_same() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert probing(port).status(HOST).status is PowerStatus.ON


def test_a_host_that_is_silent_each_time_counts_as_off() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        place = server.getsockname()
        with socket.create_connection(place):  # the queue is full: from now on nobody answers
            reading = probing(place[1]).status(HOST)
    assert reading.status is PowerStatus.OFF
    assert "3 times" in reading.outcome.text


@pytest.mark.parametrize("address", ["nonexistent.invalid", "a..b", "a" * 64])
def test_a_host_whose_name_nobody_knows_is_neither_on_nor_off(address: str) -> None:
    reading = probing(22, address=address).status(HOST)
    assert (reading.status, reading.outcome.answer) == (PowerStatus.UNKNOWN, PowerAnswer.MISCONFIGURED)


ShutDown = Callable[..., PowerOutcome]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    """A server for ssh that lets in one key: its folder and port."""
    folder = tmp_path_factory.mktemp("ssh")
    for name in ("client", "stranger"):
        subprocess.run([installed("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    program = Path(__file__).with_name("ssh_server.py")
    with subprocess.Popen(
        [python_with_asyncssh(), str(program), str(folder)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        (folder / "known").write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
        (folder / "forged").write_text(f"[127.0.0.1]:{port} {(folder / 'client.pub').read_text()}")
        (folder / "none").touch()
        yield folder, port
        process.kill()


@pytest.fixture
def shut_down(server: tuple[Path, int]) -> ShutDown:
    """Shuts a host down with the words given."""
    folder, port = server

    def shut_down(*words: str, known: str = "known", key: str = "client", **options: object) -> PowerOutcome:
        settings = {
            "host_address": "127.0.0.1",
            "ssh_program": installed("ssh"),
            "ssh_port": port,
            "ssh_user": "oneadmin",
            "ssh_identity_file": str(folder / key),
            "ssh_known_hosts_file": str(folder / known),
            "shutdown": words,
            "hard_shutdown": ("done", "hard"),
        } | options
        control = WakeOnLanPowerControl(WakeOnLanSettings(**settings), {})  # type: ignore[arg-type]
        return control.switch_off(HOST, hard=not words)

    return shut_down


def asked(server: tuple[Path, int]) -> list[str]:
    return (server[0] / "asked").read_text().splitlines()


def test_a_host_shuts_down_by_the_configured_words_as_the_configured_user(
    server: tuple[Path, int], shut_down: ShutDown
) -> None:
    assert shut_down("done", "a word; reboot", "$HOME").accepted
    assert asked(server)[-1] == "oneadmin: done 'a word; reboot' '$HOME'"


def test_a_hard_shutdown_has_words_of_its_own(server: tuple[Path, int], shut_down: ShutDown) -> None:
    assert shut_down().accepted
    assert asked(server)[-1] == "oneadmin: done hard"


def test_a_refusal_on_the_host_is_told_in_its_own_words(shut_down: ShutDown) -> None:
    outcome = shut_down("fail")
    assert outcome.answer is PowerAnswer.REFUSED
    assert "sudo: a password is required" in outcome.text


def test_a_host_that_closes_the_connection_while_it_goes_down_took_the_order(shut_down: ShutDown) -> None:
    assert shut_down("go_down").accepted


def test_a_program_whose_end_is_not_told_may_have_done_it(shut_down: ShutDown) -> None:
    assert shut_down("vanish").answer is PowerAnswer.NO_ANSWER


def test_an_ssh_that_does_not_come_back_is_killed(shut_down: ShutDown) -> None:
    assert shut_down("hang", timeout_s=1.0).answer is PowerAnswer.NO_ANSWER


def test_a_key_that_is_not_let_in_is_denied_without_a_question(server: tuple[Path, int], shut_down: ShutDown) -> None:
    before = asked(server) if (server[0] / "asked").exists() else []
    assert shut_down("done", key="stranger").answer is PowerAnswer.DENIED
    assert (asked(server) if (server[0] / "asked").exists() else []) == before


@pytest.mark.parametrize("known", ["none", "forged"])
def test_a_host_whose_key_is_not_the_known_one_gets_no_order(shut_down: ShutDown, known: str) -> None:
    outcome = shut_down("done", known=known)
    assert outcome.answer is PowerAnswer.MISCONFIGURED
    assert "known_hosts" in outcome.text


def test_a_host_where_nobody_serves_ssh_is_unreachable(shut_down: ShutDown) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert shut_down("done", ssh_port=port).answer is PowerAnswer.UNREACHABLE
    assert shut_down("done", host_address="nonexistent.invalid").answer is PowerAnswer.UNREACHABLE


def test_a_missing_ssh_is_named(shut_down: ShutDown) -> None:
    outcome = shut_down("done", ssh_program="/nonexistent/ssh")
    assert outcome.answer is PowerAnswer.MISCONFIGURED
    assert "wake_on_lan.ssh_program" in outcome.text


SAID_AND_MEANT = [
    ("ssh: connect to host node-01 port 22: No route to host", 255, PowerAnswer.UNREACHABLE),
    ("ssh: Could not resolve hostname node-01: Name or service not known", 255, PowerAnswer.UNREACHABLE),
    ("kex_exchange_identification: Connection closed by remote host", 255, PowerAnswer.UNREACHABLE),
    ("oneadmin@node-01: Permission denied (publickey,password).", 255, PowerAnswer.DENIED),
    # The rest may be said of a session in which the order was taken.
    ("Read from remote host node-01: Connection reset by peer", 255, PowerAnswer.NO_ANSWER),
    ("Connection reset by 10.0.0.1 port 22", 255, PowerAnswer.NO_ANSWER),
    ("Connection closed by 10.0.0.1 port 22", 255, PowerAnswer.NO_ANSWER),
    ("/etc/cron.d/x: Permission denied", 255, PowerAnswer.NO_ANSWER),
    ("Failed: ssh: connect to host proxy port 22", 255, PowerAnswer.NO_ANSWER),
    ("Terminated", 143, PowerAnswer.NO_ANSWER),
    ("sudo: a password is required", 1, PowerAnswer.REFUSED),
]


@pytest.mark.parametrize(("said", "code", "meant"), SAID_AND_MEANT)
def test_only_what_ssh_says_before_it_has_logged_in_means_that_nothing_was_done(
    said: str, code: int, meant: PowerAnswer, tmp_path: Path
) -> None:
    program = tmp_path / "ssh"
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit {code}\n")
    program.chmod(0o755)
    control = WakeOnLanPowerControl(WakeOnLanSettings(ssh_program=str(program)), {})
    assert control.switch_off(HOST, hard=False).answer is meant


def test_an_ssh_that_is_killed_under_way_may_have_done_it(tmp_path: Path) -> None:
    program = tmp_path / "ssh"
    program.write_text("#!/bin/sh\nkill -9 $$\n")
    program.chmod(0o755)
    control = WakeOnLanPowerControl(WakeOnLanSettings(ssh_program=str(program)), {})
    assert control.switch_off(HOST, hard=False).answer is PowerAnswer.NO_ANSWER
