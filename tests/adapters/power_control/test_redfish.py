"""Redfish against a real service: the emulator of sushy-tools on loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from urllib3.exceptions import InsecureRequestWarning

from one_preempt.adapters.clock import FixedClock
from one_preempt.adapters.power_control.controllers import Controllers, UsualLogin
from one_preempt.adapters.power_control.guarded import GuardedPowerControl
from one_preempt.adapters.power_control.redfish import RedfishPowerControl
from one_preempt.configuration.power_control_settings import HostSettings, PatienceSettings, RedfishSettings
from one_preempt.core.model.power import PowerAnswer, PowerReading, PowerStatus
from tests.adapters.power_control.real_parts import installed
from tests.adapters.power_control.redfish_emulator import NEVER_S, PASSWORD, USER, RedfishEmulator

HOST = "node-01"
Make = Callable[..., RedfishPowerControl]


@pytest.fixture(scope="module")
def emulator_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedfishEmulator]:
    with RedfishEmulator(tmp_path_factory.mktemp("emulator")) as emulator:
        yield emulator


@pytest.fixture
def emulator(emulator_of_module: RedfishEmulator, make: Make) -> RedfishEmulator:
    """The emulator with its one system off."""
    emulator_of_module.take_effect_after(0)
    assert make(emulator_of_module.endpoint).switch_off(HOST, hard=True).accepted
    return emulator_of_module


@pytest.fixture(scope="module")
def tls_emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RedfishEmulator, Path]]:
    """An emulator that speaks TLS, and its certificate, which is signed by itself and made out to 127.0.0.1."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        [
            installed("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-subj", "/CN=controller", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2",
            "-keyout", str(key), "-out", str(certificate),
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    with RedfishEmulator(folder, certificate=(certificate, key)) as emulator:
        yield emulator, certificate


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def make(
        endpoint: str, password: str = PASSWORD, system: str | None = None, **options: object
    ) -> RedfishPowerControl:
        secret = tmp_path / "password"
        secret.write_text(password + "\n")
        secret.chmod(0o600)
        controllers = Controllers(UsualLogin(endpoint, USER, str(secret), system), {})
        return RedfishPowerControl(controllers, RedfishSettings(**options))  # type: ignore[arg-type]

    return make


def test_a_host_is_switched_on_and_off_and_its_status_read(emulator: RedfishEmulator, make: Make) -> None:
    control = make(emulator.endpoint)
    assert control.status(HOST).status is PowerStatus.OFF
    assert control.switch_on(HOST).accepted
    assert control.status(HOST).status is PowerStatus.ON
    assert control.switch_off(HOST, hard=False).accepted
    assert control.status(HOST).status is PowerStatus.OFF


def test_soft_and_hard_off_are_the_resets_of_that_name(emulator: RedfishEmulator, make: Make) -> None:
    control = make(emulator.endpoint)
    control.switch_on(HOST)
    assert "GracefulShutdown" in control.switch_off(HOST, hard=False).text
    assert "ForceOff" in control.switch_off(HOST, hard=True).text


def test_a_change_that_takes_a_while_shows_when_it_is_there(emulator: RedfishEmulator, make: Make) -> None:
    emulator.take_effect_after(1)
    control = make(emulator.endpoint)
    assert control.switch_on(HOST).accepted
    gives_up_at = time.monotonic() + 5
    while control.status(HOST).status is not PowerStatus.ON:
        assert time.monotonic() < gives_up_at


def test_a_controller_that_says_yes_and_does_nothing_is_found_out(emulator: RedfishEmulator, make: Make) -> None:
    emulator.take_effect_after(NEVER_S)
    clock, patience = FixedClock(0), PatienceSettings(on_effect_s=60, first_pause_s=15)
    guarded = GuardedPowerControl(make(emulator.endpoint), clock, patience)
    assert guarded.switch_on(HOST).accepted
    clock.set(60)
    assert guarded.status(HOST).status is PowerStatus.OFF
    assert guarded.switch_on(HOST).answer is PowerAnswer.HELD_BACK
    clock.set(75)
    assert guarded.switch_on(HOST).accepted


def test_a_wrong_password_is_denied(emulator: RedfishEmulator, make: Make) -> None:
    control = make(emulator.endpoint, password="not this one")
    outcome = control.switch_on(HOST)
    assert outcome.answer is PowerAnswer.DENIED
    assert USER in outcome.text
    assert control.status(HOST).status is PowerStatus.UNKNOWN
    assert make(emulator.endpoint).status(HOST).status is PowerStatus.OFF


def test_no_password_is_in_any_answer(emulator: RedfishEmulator, make: Make) -> None:
    control = make(emulator.endpoint, password="not this one")
    said = [control.switch_on(HOST), control.status(HOST), make(emulator.endpoint).switch_on(HOST)]
    assert "not this one" not in repr(said) + emulator.log
    assert PASSWORD not in repr(said) + emulator.log


def test_a_controller_that_is_gone_is_unreachable(make: Make, tmp_path: Path) -> None:
    with RedfishEmulator(tmp_path) as emulator:
        control = make(emulator.endpoint)
        assert control.switch_on(HOST).accepted
    assert control.switch_on(HOST).answer is PowerAnswer.UNREACHABLE
    reading = control.status(HOST)
    assert (reading.status, reading.outcome.answer) == (PowerStatus.UNKNOWN, PowerAnswer.UNREACHABLE)


def test_a_controller_that_hangs_is_given_up_and_obeyed_once_it_goes_on(emulator: RedfishEmulator, make: Make) -> None:
    control = make(emulator.endpoint, read_timeout_s=0.3)
    os.kill(emulator.process.pid, signal.SIGSTOP)
    try:
        reading = control.status(HOST)
    finally:
        os.kill(emulator.process.pid, signal.SIGCONT)
    assert reading.status is PowerStatus.UNKNOWN
    assert "0.3 s" in reading.outcome.text
    assert make(emulator.endpoint).switch_on(HOST).accepted


@pytest.fixture(scope="module")
def emulator_of_two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedfishEmulator]:
    with RedfishEmulator(tmp_path_factory.mktemp("two"), systems=2) as emulator:
        yield emulator


def test_of_two_systems_none_is_guessed(emulator_of_two: RedfishEmulator, make: Make) -> None:
    outcome = make(emulator_of_two.endpoint).switch_on(HOST)
    assert outcome.answer is PowerAnswer.MISCONFIGURED
    assert "hosts.node-01.system" in outcome.text
    assert [status(make, emulator_of_two, name).status for name in ("system1", "system2")] == [PowerStatus.OFF] * 2


def test_of_two_systems_the_named_one_is_switched(emulator_of_two: RedfishEmulator, make: Make) -> None:
    assert make(emulator_of_two.endpoint, system="system2").switch_on(HOST).accepted
    assert status(make, emulator_of_two, "system1").status is PowerStatus.OFF
    assert status(make, emulator_of_two, "system2").status is PowerStatus.ON
    assert make(emulator_of_two.endpoint, system="system2").switch_off(HOST, hard=True).accepted


def status(make: Make, emulator: RedfishEmulator, system: str) -> PowerReading:
    return make(emulator.endpoint, system=system).status(HOST)


def test_a_certificate_of_nobody_we_know_is_refused_before_the_password_goes_out(
    tls_emulator: tuple[RedfishEmulator, Path], make: Make
) -> None:
    emulator, _ = tls_emulator
    outcome = make(emulator.endpoint).switch_on(HOST)
    assert outcome.answer is PowerAnswer.MISCONFIGURED
    assert "redfish.ca_file" in outcome.text
    assert "GET" not in emulator.log


def test_a_certificate_of_the_configured_authority_is_taken(
    tls_emulator: tuple[RedfishEmulator, Path], make: Make
) -> None:
    emulator, certificate = tls_emulator
    assert make(emulator.endpoint, ca_file=str(certificate)).status(HOST).status is PowerStatus.OFF


def test_a_certificate_for_another_name_is_refused(tls_emulator: tuple[RedfishEmulator, Path], make: Make) -> None:
    emulator, certificate = tls_emulator
    reading = make(emulator.endpoint.replace("127.0.0.1", "localhost"), ca_file=str(certificate)).status(HOST)
    assert reading.outcome.answer is PowerAnswer.MISCONFIGURED


def test_verification_can_be_left_out_with_a_warning(tls_emulator: tuple[RedfishEmulator, Path], make: Make) -> None:
    emulator, _ = tls_emulator
    with pytest.warns(InsecureRequestWarning):
        assert make(emulator.endpoint, verify_tls=False).status(HOST).status is PowerStatus.OFF


@pytest.mark.parametrize(
    "endpoint", ["http://10.0.0.1", "ftp://10.0.0.1", "https://a:b@10.0.0.1", "10.0.0.1", "https://10.0.0.1/x?y"]
)
def test_a_password_goes_only_to_a_plain_https_url(make: Make, endpoint: str) -> None:
    controllers = Controllers(
        UsualLogin(None, None, None), {HOST: HostSettings(address=endpoint, user=USER, password_file="/dev/null")}
    )
    outcome = RedfishPowerControl(controllers, RedfishSettings()).switch_on(HOST)
    assert outcome.answer is PowerAnswer.MISCONFIGURED
    assert "https://" in outcome.text or "plain URL" in outcome.text
