"""The administrator's command: real programs, run without a shell."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from one_preempt.adapters.power_control.command import CommandPowerControl
from one_preempt.configuration.power_control_settings import CommandSettings
from one_preempt.core.model.power import PowerAnswer, PowerStatus

HOST = "node-01"
Make = Callable[..., CommandPowerControl]

# Keeps the power of each host in a file, and writes down how it was called.
PROGRAM = """#!/bin/sh
printf '%s|' "$@" >> {folder}/calls; echo >> {folder}/calls
case $1 in
  on|off|hard) echo "$1" > {folder}/"$2";;
  status) [ "$(cat {folder}/"$2")" = on ] && echo ON || echo off;;
  *) echo "no outlet for $2" >&2; exit 3;;
esac
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    program = tmp_path / "power"
    program.write_text(PROGRAM.format(folder=tmp_path))
    program.chmod(0o755)
    return str(program)


@pytest.fixture
def make(program: str) -> Make:
    def make(**vectors: object) -> CommandPowerControl:
        usual = {key: (program, key, "{host}") for key in ("on", "off", "status")}
        return CommandPowerControl(CommandSettings(**(usual | vectors)))  # type: ignore[arg-type]

    return make


def calls(tmp_path: Path) -> list[str]:
    return (tmp_path / "calls").read_text().splitlines()


def test_a_host_is_switched_on_and_off_and_its_status_read(make: Make, program: str) -> None:
    control = make(hard_off=(program, "hard", "{host}"))
    assert control.switch_on(HOST).accepted
    assert control.status(HOST).status is PowerStatus.ON
    assert control.switch_off(HOST, hard=False).accepted
    assert control.status(HOST).status is PowerStatus.OFF
    assert control.switch_off(HOST, hard=True).accepted


def test_arguments_go_along_as_they_are_and_no_shell_reads_them(make: Make, program: str, tmp_path: Path) -> None:
    control = make(on=(program, "on", "{host}", "outlet={host}.{host}", "$HOME; touch x", "*"))
    assert control.switch_on(HOST).accepted
    assert calls(tmp_path) == ["on|node-01|outlet=node-01.node-01|$HOME; touch x|*|"]


@pytest.mark.parametrize(
    "name", ["", "-f", "--help", "a b", "a;reboot", "$(reboot)", "../x", "a/b", "a\nb", "{host}", "a.", "ü", "x" * 300]
)
def test_a_name_that_is_none_reaches_no_program(make: Make, tmp_path: Path, name: str) -> None:
    control = make()
    assert control.switch_on(name).answer is PowerAnswer.MISCONFIGURED
    assert control.switch_off(name, hard=False).answer is PowerAnswer.MISCONFIGURED
    assert control.status(name).status is PowerStatus.UNKNOWN
    assert not (tmp_path / "calls").exists()


def test_a_program_that_fails_refuses_in_its_own_words(make: Make, program: str) -> None:
    outcome = make(on=(program, "nothing", "{host}")).switch_on(HOST)
    assert outcome.answer is PowerAnswer.REFUSED
    assert "exit code 3: no outlet for node-01" in outcome.text


def test_a_status_that_is_no_status_is_unknown(make: Make) -> None:
    reading = make(status=("/bin/echo", "maybe\x07")).status(HOST)
    assert reading.status is PowerStatus.UNKNOWN
    assert "'maybe'" in reading.outcome.text


def test_without_hard_off_a_host_is_left_alone(make: Make, tmp_path: Path) -> None:
    outcome = make().switch_off(HOST, hard=True)
    assert outcome.answer is PowerAnswer.MISCONFIGURED
    assert "command.hard_off" in outcome.text
    assert not (tmp_path / "calls").exists()


def test_a_program_that_is_missing_is_named(make: Make) -> None:
    outcome = make(on=("/nonexistent/power",)).switch_on(HOST)
    assert outcome.answer is PowerAnswer.MISCONFIGURED
    assert "/nonexistent/power" in outcome.text


def test_a_program_that_does_not_end_is_not_waited_for(make: Make) -> None:
    assert make(on=("/bin/sleep", "60"), timeout_s=0.3).switch_on(HOST).answer is PowerAnswer.NO_ANSWER


def test_a_child_that_stays_behind_does_not_hold_the_answer_up(make: Make) -> None:
    started = time.monotonic()
    assert make(on=("/bin/sh", "-c", "sleep 5 & exit 0")).switch_on(HOST).accepted
    assert time.monotonic() - started < 4


def test_our_own_environment_stays_ours(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONE_AUTH_SECRET", "hunter-two")
    make(on=("/bin/sh", "-c", f"env > {tmp_path}/environment")).switch_on(HOST)
    written = (tmp_path / "environment").read_text()
    assert "PATH=" in written
    assert "hunter-two" not in written


def test_a_program_that_is_ended_by_a_signal_may_have_done_it(make: Make) -> None:
    killed = make(on=("/bin/sh", "-c", "kill -9 $$"), off=("/bin/sh", "-c", "exit 143"))
    assert killed.switch_on(HOST).answer is PowerAnswer.NO_ANSWER
    assert killed.switch_off(HOST, hard=False).answer is PowerAnswer.NO_ANSWER
