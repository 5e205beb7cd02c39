from __future__ import annotations

from pathlib import Path

import pytest

from one_preempt.adapters.power_control.controllers import Controllers, UsualLogin
from one_preempt.adapters.power_control.failure import PowerFailure
from one_preempt.adapters.power_control.secret import Secret
from one_preempt.configuration.power_control_settings import HostSettings
from one_preempt.core.model.power import PowerAnswer
from one_preempt.ports import CloudUnavailable

HOST = "node-01"
USUAL = UsualLogin("{host}-bmc", "admin", "/etc/one/bmc_password")
ATTRIBUTES = {"POWER_ADDRESS": "10.0.0.9", "POWER_USER": "own", "POWER_PASSWORD": "hunter-two"}


def test_the_usual_login_holds_for_every_host() -> None:
    controller = Controllers(USUAL, {}).of(HOST)
    assert (controller.address, controller.user) == ("node-01-bmc", "admin")
    assert controller.password == Path("/etc/one/bmc_password")


def test_what_is_said_of_one_host_wins() -> None:
    own = HostSettings(address="10.0.0.1", user="root", port=6230)
    controller = Controllers(USUAL, {HOST: own}).of(HOST)
    assert (controller.address, controller.user, controller.port) == ("10.0.0.1", "root", 6230)
    assert controller.password == Path("/etc/one/bmc_password")


def test_attributes_of_the_host_win_over_the_usual_as_a_whole() -> None:
    controller = Controllers(USUAL, {}, lambda host: ATTRIBUTES).of(HOST)
    assert (controller.address, controller.user) == ("10.0.0.9", "own")
    assert controller.password == Secret("hunter-two")
    assert "hunter-two" not in repr(controller)


def test_the_configuration_wins_over_attributes() -> None:
    own = HostSettings(address="10.0.0.1")
    controller = Controllers(USUAL, {HOST: own}, lambda host: ATTRIBUTES).of(HOST)
    assert (controller.address, controller.user) == ("10.0.0.1", "admin")


def test_opennebula_is_not_asked_for_what_the_configuration_says() -> None:
    def silent(host: str) -> dict[str, str]:
        raise CloudUnavailable(f"{host}: no complete answer in time")

    assert Controllers(USUAL, {HOST: HostSettings(address="10.0.0.1")}, silent).of(HOST).address == "10.0.0.1"
    with pytest.raises(CloudUnavailable):
        Controllers(USUAL, {HOST: HostSettings(user="root")}, silent).of(HOST)


@pytest.mark.parametrize("missing", ["POWER_USER", "POWER_PASSWORD"])
def test_a_configured_password_is_never_sent_to_an_address_out_of_the_attributes(missing: str) -> None:
    attributes = {name: value for name, value in ATTRIBUTES.items() if name != missing}
    own = HostSettings(user="root", password_file="/etc/one/other")
    with pytest.raises(PowerFailure, match=missing):
        Controllers(USUAL, {HOST: own}, lambda host: attributes).of(HOST)


@pytest.mark.parametrize("password", ["two\nlines", "\x00"])
def test_a_password_out_of_the_attributes_that_is_none_is_told_with_its_host_and_not_shown(password: str) -> None:
    attributes = ATTRIBUTES | {"POWER_PASSWORD": password}
    with pytest.raises(PowerFailure) as caught:
        Controllers(USUAL, {}, lambda host: attributes).of(HOST)
    assert str(caught.value).startswith(f"{HOST}: POWER_PASSWORD in its template cannot be used: ")
    assert password not in str(caught.value)
    assert caught.value.outcome.answer is PowerAnswer.MISCONFIGURED


def test_a_configured_password_does_not_follow_a_user_out_of_the_attributes() -> None:
    controller = Controllers(USUAL, {}, lambda host: {"POWER_USER": "own"}).of(HOST)
    assert (controller.address, controller.user) == ("node-01-bmc", "admin")


def test_what_nobody_says_is_named() -> None:
    with pytest.raises(PowerFailure, match="no user and no password_file"):
        Controllers(UsualLogin("{host}-bmc", None, None), {}).of(HOST)
