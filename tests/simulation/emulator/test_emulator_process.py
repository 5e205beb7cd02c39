"""The emulator as a process of its own, commanded through its control methods."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import xmlrpc.client
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ADMIN = "oneadmin:opennebula"
COMMAND = [sys.executable, "-m", "one_preempt", "emulator", "--port", "0"]
RECORDINGS = Path(__file__).parents[2] / "recordings"


@contextmanager
def emulator_process(*arguments: str) -> Iterator[Any]:
    """A proxy of the endpoint; the process is ended by SIGTERM and must then end well."""
    command = [*COMMAND, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        try:
            assert line.startswith("listening on http://127.0.0.1:"), process.stderr.read()
            yield xmlrpc.client.ServerProxy(line.split()[-1])
        finally:
            process.send_signal(signal.SIGTERM)
            _, complaints = process.communicate(timeout=10)
        assert (process.returncode, complaints) == (0, "")


def test_time_moves_by_command_and_faults_strike_on_demand() -> None:
    with emulator_process("--virtual-time", "--control") as one:
        control = one.one_preempt.emulator
        assert one.one.vm.action(ADMIN, "stop", 0) == [True, 0, 0]
        before_s = control.now(ADMIN)[1]
        assert "<STATE>3</STATE><LCM_STATE>5</LCM_STATE>" in one.one.vm.info(ADMIN, 0)[1]
        assert control.advance(ADMIN, 3600)[1] == before_s + 3600
        assert "<STATE>4</STATE>" in one.one.vm.info(ADMIN, 0)[1]

        control.fault(ADMIN, "lost_reply", "one.vm.deploy", 2)  # this client calls a second time by itself
        with pytest.raises(http.client.RemoteDisconnected):
            one.one.vm.deploy(ADMIN, 0, 0, True)
        assert "<STATE>3</STATE>" in one.one.vm.info(ADMIN, 0)[1]

        control.cloud_fault(ADMIN, "save", "fail", 1)
        assert one.one.vm.action(ADMIN, "suspend", 1)[0]
        control.advance(ADMIN, 3600.5)
        assert "<STATE>3</STATE><LCM_STATE>3</LCM_STATE>" in one.one.vm.info(ADMIN, 1)[1]

        control.kill_host(ADMIN, 2)
        control.advance(ADMIN, 600)
        assert "<STATE>3</STATE>" in one.one.host.info(ADMIN, 2)[1]
        assert "<LCM_STATE>16</LCM_STATE>" in one.one.vm.info(ADMIN, 8)[1]
        assert json.loads(control.audit(ADMIN)[1]) == []
        calls = json.loads(control.log(ADMIN)[1])
        assert [call["method"] for call in calls if call["method"] != "one.vm.info"] == [
            "one.vm.action",
            "one.vm.deploy",
            "one.vm.deploy",
            "one.vm.action",
            "one.host.info",
        ]
        assert json.loads(control.log(ADMIN, len(calls))[1]) == []


def test_control_is_for_administrators_and_only_where_it_was_asked_for() -> None:
    with emulator_process("--virtual-time", "--control") as one:
        control = one.one_preempt.emulator
        assert control.advance("local1:local1", 1)[0] is False
        wrong: list[tuple[Any, ...]] = [
            ("advance", -1), ("advance", "soon"), ("advance", float("inf")), ("raft", 2.0), ("fly", 1),
            ("fault", "earthquake"), ("fault", "slow", "one.vm.info", "many"),
            ("fault", "slow", "one.vm.info", 1, 0, float("nan")), ("fault", "slow", "one.vm.info", 1, 0, "long"),
        ]  # fmt: skip
        for name, *arguments in wrong:
            with pytest.raises(xmlrpc.client.Fault):
                getattr(control, name)(ADMIN, *arguments)
        assert one.one.vm.info(ADMIN, 0)[0]
    with emulator_process("--virtual-time") as one, pytest.raises(xmlrpc.client.Fault, match="not defined"):
        one.one_preempt.emulator.advance(ADMIN, 1)


def test_a_recording_is_served() -> None:
    with emulator_process("--recording", str(RECORDINGS / "6.10.0"), "--virtual-time") as one:
        assert one.one.system.version("oneadmin:oneadmin") == [True, "6.10.0", 0]
        expected = (RECORDINGS / "6.10.0" / "vmpool.info.xml").read_text().strip()
        assert one.one.vmpool.info("oneadmin:oneadmin", -2, -1, -1, -1)[1] == expected


def test_the_wall_clock_drives_the_cloud_at_the_speed_asked_for() -> None:
    with emulator_process("--speed", "1000000") as one:
        one.one.vm.action(ADMIN, "terminate-hard", 0)
        assert "<STATE>6</STATE>" in one.one.vm.info(ADMIN, 0)[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--description", "/nowhere/cloud.yaml"), "/nowhere/cloud.yaml: cannot be read"),
        (("--recording", "/nowhere"), "/nowhere"),
        (("--host", "203.0.113.1"), "cannot listen there"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_1(arguments: tuple[str, str], message: str) -> None:
    command = [*COMMAND, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, env=os.environ)
    assert ended.returncode == 1
    assert message in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
