from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from one_preempt.adapters.clock import FixedClock
from one_preempt.adapters.power_control.factory import make_power_control
from one_preempt.configuration.power_control_settings import PowerControlSettings, doubts, endpoint_fault, faults
from one_preempt.core.model.power import PowerAnswer
from one_preempt.errors import OnePreemptError

HOST = "node-01"


def parsed(**content: Any) -> PowerControlSettings:
    return msgspec.convert(content, PowerControlSettings)


def test_as_shipped_nothing_is_switched_and_it_is_said_what_would_be() -> None:
    control = make_power_control(PowerControlSettings(), FixedClock(0))
    for outcome, word in (
        (control.switch_on(HOST), "would switch on node-01"),
        (control.switch_off(HOST, hard=False), "would shut down node-01"),
        (control.switch_off(HOST, hard=True), "would take the power of node-01"),
        (control.status(HOST).outcome, "no power control"),
    ):
        assert outcome.answer is PowerAnswer.ADVICE_ONLY
        assert word in outcome.text


@pytest.mark.parametrize(
    "content",
    [
        {"methods": "none"},
        {"method": "ilo"},
        {"hosts": {"-f": {}}},
        {"hosts": {"node": {"password": "hunter-two"}}},
        {"ipmitool": {"address": "-I"}},
        {"ipmitool": {"cipher_suites": []}},
        {"ipmitool": {"cipher_suites": [18]}},
        {"ipmitool": {"password_file": "relative"}},
        {"ipmitool": {"user": "-U"}},
        {"ipmitool": {"program": "ipmitool"}},
        {"wake_on_lan": {"broadcast_address": "host"}},
        {"wake_on_lan": {"host_address": "me@{host}"}},
        {"wake_on_lan": {"ssh_user": "-oProxyCommand=x"}},
        {"hosts": {"node": {"hardware_address": "01:23"}}},
        {"command": {"on": [""]}},
        {"patience": {"first_pause_s": 0}},
    ],
)
def test_what_cannot_be_meant_is_refused_when_it_is_read(content: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        parsed(**content)


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ({"method": "command"}, "command.on is missing"),
        ({"hosts": {"node": {"method": "command"}}}, "command.on is missing"),
        ({"command": {"on": ["power", "{host}"]}}, "command.on must begin"),
        ({"command": {"status": ["/bin/x", "{name}"]}}, "command.status holds {name}"),
        ({"redfish": {"endpoint": "http://bmc"}}, "redfish.endpoint must begin with https"),
        ({"method": "redfish", "hosts": {"node": {"address": "10.0.0.1"}}}, "hosts.node.address is no URL"),
        ({"method": "ipmitool", "hosts": {"node": {"address": "https://bmc"}}}, "hosts.node.address must be"),
        ({"method": "wake-on-lan", "hosts": {"node": {"address": "root@a"}}}, "hosts.node.address must be"),
        (
            {"method": "ipmitool", "hosts": {"a": {"address": "10.0.0.5"}, "b": {"address": "10.0.0.5", "user": "u"}}},
            "hosts.b and hosts.a have the same address",
        ),
        (
            {
                "method": "redfish",
                "hosts": {"a": {"address": "https://BMC/", "port": 1}, "b": {"address": "https://bmc"}},
            },
            "hosts.b and hosts.a have the same address",
        ),
        (
            {"hosts": {name: {"method": "wake-on-lan", "address": "10.0.0.5"} for name in "ab"}},
            "hosts.b and hosts.a have the same address",
        ),
        ({"wake_on_lan": {"broadcast_address": "10.0.0.256"}}, "wake_on_lan.broadcast_address"),
        ({"wake_on_lan": {"shutdown": []}}, "wake_on_lan.shutdown is empty"),
    ],
)
def test_what_cannot_work_is_named_with_its_key(content: dict[str, Any], key: str) -> None:
    settings = parsed(**content)
    assert any(key in fault for fault in faults(settings))
    with pytest.raises(OnePreemptError, match=r"^power\.control\."):
        make_power_control(settings, FixedClock(0))


def test_doubtful_settings_are_told() -> None:
    assert doubts(PowerControlSettings()) == []
    found = doubts(parsed(method="redfish", redfish={"verify_tls": False}))
    assert len(found) == 1
    assert "redfish.verify_tls" in found[0]
    assert "cipher_suites" in doubts(parsed(method="ipmitool", ipmitool={"cipher_suites": [2]}))[0]


@pytest.mark.parametrize(
    ("content", "doubt"),
    [
        ({"method": "ipmitool", "ipmitool": {"address": "10.0.0.5"}}, "ipmitool.address has {host} nowhere"),
        ({"method": "redfish", "redfish": {"endpoint": "https://bmc"}}, "redfish.endpoint has {host} nowhere"),
        (
            {"hosts": {"a": {"method": "wake-on-lan"}}, "wake_on_lan": {"host_address": "a"}},
            "wake_on_lan.host_address has {host} nowhere",
        ),
        (
            {"method": "redfish", "hosts": {"a": {"address": "https://bmc", "port": 8443}}},
            "hosts.a.port has no effect with redfish: see its address",
        ),
        ({"hosts": {"a": {"method": "wake-on-lan", "user": "u"}}}, "hosts.a.user has no effect with wake-on-lan"),
    ],
)
def test_what_would_switch_another_host_or_nothing_is_doubted(content: dict[str, Any], doubt: str) -> None:
    (found,) = doubts(parsed(**content))
    assert found.startswith(doubt)
    assert not faults(parsed(**content))


@pytest.mark.parametrize(
    "content",
    [
        # Several machines behind one address, told apart by port or system.
        {"ipmitool": {"address": "10.0.0.5"}, "hosts": {"a": {"port": 6231}, "b": {"port": 6232}}},
        {"hosts": {name: {"address": "10.0.0.5", "port": 6230 + number} for number, name in enumerate("ab")}},
        {
            "method": "redfish",
            "hosts": {name: {"address": "https://chassis", "system": name} for name in "ab"},
        },
        {"ipmitool": {"address": "{host}-bmc"}, "redfish": {"endpoint": "https://unused"}},
        {"hosts": {"a": {"address": "10.0.0.5"}, "b": {"method": "none", "address": "10.0.0.5", "system": "s"}}},
    ],
)
def test_controllers_that_are_told_apart_are_not_doubted(content: dict[str, Any]) -> None:
    settings = parsed(**({"method": "ipmitool"} | content))
    assert (faults(settings), doubts(settings)) == ([], [])


@pytest.mark.parametrize(
    "endpoint", ["https://bmc", "https://{host}-bmc:8443/", "http://127.0.0.1:8000", "http://[::1]"]
)
def test_endpoints_that_keep_the_password_safe_can_be_used(endpoint: str) -> None:
    assert endpoint_fault(endpoint) is None


@pytest.mark.parametrize(
    "endpoint", ["https://", "https://a:99999999", "https://[", "https://a b", "http://127.evil.org"]
)
def test_endpoints_that_are_none_cannot(endpoint: str) -> None:
    assert endpoint_fault(endpoint) is not None


def test_each_host_is_switched_in_its_own_way(tmp_path: Path) -> None:
    vector = ["/bin/sh", "-c", 'echo "$0" >> "$1"', "{host}", str(tmp_path / "calls")]
    settings = parsed(command={"on": vector, "off": vector, "status": vector}, hosts={"node-02": {"method": "command"}})
    control = make_power_control(settings, FixedClock(0))
    assert control.switch_on("node-01").answer is PowerAnswer.ADVICE_ONLY
    assert control.switch_on("node-02").accepted
    assert control.switch_off("node-02", hard=False).accepted
    control.status("node-02")
    assert (tmp_path / "calls").read_text() == "node-02\n" * 3
