"""What every implementation of the port keeps to, whatever is given to it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from one_preempt.adapters.clock import FixedClock
from one_preempt.adapters.power_control.factory import make_power_control
from one_preempt.configuration.power_control_settings import PowerControlSettings
from one_preempt.core.model.power import PowerAnswer, PowerStatus
from one_preempt.ports import PowerControl

HOST = "node-01"
METHODS = ("none", "ipmitool", "redfish", "wake-on-lan", "command")


def control_for(method: str, password_file: str = "/nonexistent/password") -> PowerControl:
    """A control whose programs, if they were run at all, would only fail."""
    login = {"user": "admin", "password_file": password_file}
    content = {
        "method": method,
        "ipmitool": {"program": "/bin/false", "address": "{host}", **login},
        "redfish": {"endpoint": "https://{host}.invalid", "connect_timeout_s": 0.1, "read_timeout_s": 0.1, **login},
        "wake_on_lan": {"ssh_program": "/bin/false", "host_address": "{host}.invalid", "silent_probes": 1},
        "command": {"on": ["/bin/false"], "off": ["/bin/false"], "status": ["/bin/false"]},
    }
    return make_power_control(msgspec.convert(content, PowerControlSettings), FixedClock(0))


@pytest.mark.parametrize("method", METHODS)
def test_failures_are_values_with_a_sentence(method: str) -> None:
    control = control_for(method)
    reading = control.status(HOST)
    assert reading.status is PowerStatus.UNKNOWN
    for outcome in (control.switch_on(HOST), control.switch_off(HOST, False), control.switch_off(HOST, True)):
        assert not outcome.accepted
        assert outcome.text.isprintable()
        assert len(outcome.text) > 10


@pytest.mark.parametrize("method", [method for method in METHODS if method != "none"])
@settings(max_examples=40)
@given(name=st.text(alphabet=st.characters(exclude_categories=["L", "N"]), max_size=8))
def test_names_that_are_none_go_nowhere(method: str, name: str) -> None:
    control = control_for(method)
    for outcome in (control.switch_on(name), control.switch_off(name, True), control.status(name).outcome):
        assert outcome.answer is PowerAnswer.MISCONFIGURED
        assert outcome.text.isprintable()


@pytest.mark.parametrize("method", ["ipmitool", "redfish"])
def test_a_password_file_that_others_can_read_is_not_used(method: str, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("hunter-two\n")
    file.chmod(0o644)
    outcome = control_for(method, str(file)).switch_on(HOST)
    assert outcome.answer is PowerAnswer.MISCONFIGURED
    assert f"chmod 600 {file}" in outcome.text


def test_outcomes_can_be_written_down() -> None:
    outcome = control_for("none").switch_on(HOST)
    assert json.loads(msgspec.json.encode(outcome))["answer"] == "advice_only"
