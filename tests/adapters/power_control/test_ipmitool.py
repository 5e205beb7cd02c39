"""The real ipmitool against a real controller: OpenIPMI's ipmi_sim on loopback."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from one_preempt.adapters.clock import FixedClock
from one_preempt.adapters.power_control.controllers import Controllers, UsualLogin
from one_preempt.adapters.power_control.guarded import GuardedPowerControl
from one_preempt.adapters.power_control.ipmitool import IpmitoolPowerControl
from one_preempt.configuration.power_control_settings import HostSettings, IpmitoolSettings, PatienceSettings
from one_preempt.core.model.power import PowerAnswer, PowerStatus
from tests.adapters.power_control.ipmi_simulator import (
    PASSWORD,
    USER,
    IpmiSimulator,
    free_udp_port,
)
from tests.adapters.power_control.real_parts import ipmi_program

HOST = "node-01"
Make = Callable[..., IpmitoolPowerControl]


@pytest.fixture
def simulator(tmp_path: Path) -> Iterator[IpmiSimulator]:
    folder = tmp_path / "simulator"
    folder.mkdir()
    with IpmiSimulator(folder) as simulator:
        yield simulator


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes a control that writes down how it called ipmitool."""
    recorder = tmp_path / "ipmitool"
    recorder.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\nexec {ipmi_program("ipmitool")} "$@"\n')
    recorder.chmod(0o755)
    secret = tmp_path / "password"

    def make(port: int, password: str = PASSWORD, user: str = USER, **options: object) -> IpmitoolPowerControl:
        secret.write_text(password + "\n")
        secret.chmod(0o600)
        settings = {"program": str(recorder), "port": port, "message_timeout_s": 1, "message_retries": 1} | options
        controllers = Controllers(UsualLogin("127.0.0.1", user, str(secret)), {})
        return IpmitoolPowerControl(controllers, IpmitoolSettings(**settings))  # type: ignore[arg-type]

    return make


def calls(tmp_path: Path) -> list[str]:
    return (tmp_path / "calls").read_text().splitlines()


def suites(tmp_path: Path) -> list[str]:
    return [call.split(" -C ")[1].split()[0] for call in calls(tmp_path)]


def test_a_host_is_switched_on_and_hard_off_and_its_status_read(simulator: IpmiSimulator, make: Make) -> None:
    control = make(simulator.port)
    assert control.status(HOST).status is PowerStatus.OFF
    assert control.switch_on(HOST).accepted
    assert simulator.power
    assert control.status(HOST).status is PowerStatus.ON
    assert control.switch_off(HOST, hard=True).accepted
    assert control.status(HOST).status is PowerStatus.OFF
    assert "set power 0" in simulator.asked


def test_a_soft_switching_off_asks_for_a_shutdown_and_leaves_the_power(simulator: IpmiSimulator, make: Make) -> None:
    simulator.set_power(True)
    assert make(simulator.port).switch_off(HOST, hard=False).accepted
    assert "set shutdown 1" in simulator.asked
    assert "set power 0" not in simulator.asked


def test_suite_17_is_tried_first_then_3_and_what_worked_is_kept(
    simulator: IpmiSimulator, make: Make, tmp_path: Path
) -> None:
    control = make(simulator.port)
    control.status(HOST)
    control.status(HOST)
    assert suites(tmp_path) == ["17", "3", "3"]


def test_a_controller_that_knows_none_of_the_suites_is_named(simulator: IpmiSimulator, make: Make) -> None:
    outcome = make(simulator.port, cipher_suites=[17]).switch_on(HOST)
    assert outcome.answer is PowerAnswer.UNREACHABLE
    assert "cipher suite 17" in outcome.text
    assert not simulator.power


def test_a_wrong_password_is_denied_with_one_login_a_suite(
    simulator: IpmiSimulator, make: Make, tmp_path: Path
) -> None:
    control = make(simulator.port, password="not this one")
    outcome = control.switch_on(HOST)
    assert outcome.answer is PowerAnswer.DENIED
    assert USER in outcome.text
    assert suites(tmp_path) == ["17", "3"]
    assert control.status(HOST).status is PowerStatus.UNKNOWN
    assert not simulator.power


def test_an_unknown_user_is_denied(simulator: IpmiSimulator, make: Make) -> None:
    assert make(simulator.port, user="nobody").switch_on(HOST).answer is PowerAnswer.DENIED


def test_after_a_wrong_password_the_controller_is_not_asked_again_for_a_while(
    simulator: IpmiSimulator, make: Make, tmp_path: Path
) -> None:
    clock = FixedClock(1000)
    guarded = GuardedPowerControl(make(simulator.port, password="not this one"), clock, PatienceSettings())
    assert guarded.status(HOST).outcome.answer is PowerAnswer.DENIED
    before = len(calls(tmp_path))
    assert guarded.status(HOST).outcome.answer is PowerAnswer.HELD_BACK
    assert guarded.switch_on(HOST).answer is PowerAnswer.HELD_BACK
    assert guarded.switch_off(HOST, hard=True).answer is PowerAnswer.HELD_BACK
    assert len(calls(tmp_path)) == before
    clock.set(1000 + PatienceSettings().login_pause_s)
    assert guarded.status(HOST).outcome.answer is PowerAnswer.DENIED


def test_a_user_without_the_right_is_refused_and_told_which_one_is_missing(
    simulator: IpmiSimulator, make: Make, tmp_path: Path
) -> None:
    # ipmi_sim grants whatever level a session asks for, so the session is made to ask for less.
    lowered = tmp_path / "lowered"
    lowered.write_text(f'#!/bin/sh\nexec {ipmi_program("ipmitool")} $(echo "$*" | sed s/ADMINISTRATOR/USER/)\n')
    lowered.chmod(0o755)
    outcome = make(simulator.port, program=str(lowered)).switch_on(HOST)
    assert outcome.answer is PowerAnswer.REFUSED
    assert "OPERATOR" in outcome.text
    assert not simulator.power


def test_a_controller_that_is_gone_is_unreachable_and_asked_once(make: Make, tmp_path: Path) -> None:
    control = make(free_udp_port())
    assert control.switch_on(HOST).answer is PowerAnswer.UNREACHABLE
    assert len(calls(tmp_path)) == 1


def test_a_controller_that_comes_back_is_obeyed_again(simulator: IpmiSimulator, make: Make) -> None:
    control = make(simulator.port)
    assert control.switch_on(HOST).accepted
    simulator.stop()
    reading = control.status(HOST)
    assert (reading.status, reading.outcome.answer) == (PowerStatus.UNKNOWN, PowerAnswer.UNREACHABLE)
    simulator.start()
    assert control.status(HOST).status is PowerStatus.ON


def test_a_controller_that_says_yes_and_does_nothing_is_found_out(simulator: IpmiSimulator, make: Make) -> None:
    simulator.behave("ignore")
    clock, patience = FixedClock(0), PatienceSettings(on_effect_s=120, failures=1, open_s=3600)
    guarded = GuardedPowerControl(make(simulator.port), clock, patience)
    assert guarded.switch_on(HOST).accepted
    clock.set(119)
    assert guarded.status(HOST).status is PowerStatus.OFF
    assert guarded.switch_on(HOST).accepted
    clock.set(120)
    assert guarded.status(HOST).status is PowerStatus.OFF
    outcome = guarded.switch_on(HOST)
    assert outcome.answer is PowerAnswer.HELD_BACK
    assert outcome.retry_at_s == 120 + 3600
    assert "still off" in outcome.text


def test_a_chassis_that_fails_is_a_refusal_in_the_controllers_words(simulator: IpmiSimulator, make: Make) -> None:
    simulator.behave("fail")
    outcome = make(simulator.port).switch_on(HOST)
    assert outcome.answer is PowerAnswer.REFUSED
    assert "Unspecified error" in outcome.text


def test_a_slow_controller_is_waited_for(simulator: IpmiSimulator, make: Make) -> None:
    simulator.behave("dawdle")
    assert make(simulator.port, message_timeout_s=3).switch_on(HOST).accepted
    assert simulator.power


def test_an_order_to_a_controller_that_hangs_may_have_been_done(simulator: IpmiSimulator, make: Make) -> None:
    simulator.behave("hang")
    outcome = make(simulator.port).switch_on(HOST)
    assert outcome.answer is PowerAnswer.NO_ANSWER
    simulator.behave("obey")
    assert make(simulator.port, message_timeout_s=3).status(HOST).status is PowerStatus.ON


def test_an_ipmitool_that_does_not_end_is_killed(simulator: IpmiSimulator, make: Make) -> None:
    os.kill(simulator.process.pid, signal.SIGSTOP)
    outcome = make(simulator.port, timeout_s=0.2, message_timeout_s=60).switch_on(HOST)
    assert outcome.answer is PowerAnswer.NO_ANSWER
    assert "0.2 s" in outcome.text


def test_the_password_is_on_no_command_line_and_in_no_answer(
    simulator: IpmiSimulator, make: Make, tmp_path: Path
) -> None:
    control = make(simulator.port)
    said = [control.switch_on(HOST), control.status(HOST), make(simulator.port, password="other word").switch_on(HOST)]
    assert len(calls(tmp_path)) > 3
    for text in (*calls(tmp_path), repr(said), repr(control), repr(vars(control))):
        assert PASSWORD not in text
        assert "other word" not in text


def refusing(folder: Path, reason: str) -> str:
    """An ipmitool that tells the answer of a controller."""
    program = folder / "refusing"
    program.write_text(f'#!/bin/sh\necho "Set Chassis Power Control to Soft failed: {reason}" >&2\nexit 1\n')
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize("reason", ["Timeout", "Cannot execute duplicated request"])
def test_a_controller_that_does_not_know_may_have_done_it(make: Make, tmp_path: Path, reason: str) -> None:
    outcome = make(623, program=refusing(tmp_path, reason)).switch_off(HOST, hard=False)
    assert outcome.answer is PowerAnswer.NO_ANSWER
    assert outcome.text.endswith(f"does not say whether it did it: {reason}")


def test_a_password_that_comes_back_in_an_answer_is_not_shown(make: Make, tmp_path: Path) -> None:
    outcome = make(623, program=refusing(tmp_path, "$IPMI_PASSWORD is worn out")).switch_on(HOST)
    assert outcome.text.endswith("refuses: *** is worn out")


def test_a_password_longer_than_ipmi_knows_is_refused_here(make: Make, tmp_path: Path) -> None:
    outcome = make(1, password="x" * 21).switch_on(HOST)
    assert outcome.answer is PowerAnswer.MISCONFIGURED
    assert not (tmp_path / "calls").exists()


def test_without_ipmitool_the_mend_is_said(make: Make) -> None:
    outcome = make(1, program="/nonexistent/ipmitool").switch_on(HOST)
    assert outcome.answer is PowerAnswer.MISCONFIGURED
    assert "install ipmitool" in outcome.text


@pytest.mark.parametrize("address", ["-I", "10.0.0.1; reboot", "a b", ""])
def test_addresses_that_are_none_reach_no_program(make: Make, tmp_path: Path, address: str) -> None:
    secret = tmp_path / "password"
    make(1)
    controllers = Controllers(
        UsualLogin(None, None, None), {HOST: HostSettings(address=address, user=USER, password_file=str(secret))}
    )
    control = IpmitoolPowerControl(controllers, IpmitoolSettings(program=str(tmp_path / "ipmitool")))
    assert control.switch_on(HOST).answer is PowerAnswer.MISCONFIGURED
    assert not (tmp_path / "calls").exists()
