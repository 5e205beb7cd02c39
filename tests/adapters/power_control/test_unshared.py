"""One controller for several hosts: an order for one would switch another, and goes nowhere."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from one_preempt.adapters.clock import FixedClock
from one_preempt.adapters.power_control.factory import make_power_control
from one_preempt.adapters.power_control.guarded import GuardedPowerControl
from one_preempt.configuration.power_control_settings import PowerControlSettings
from one_preempt.core.model.power import ListedHost, PowerAnswer, PowerOutcome, PowerStatus
from one_preempt.ports import CloudUnavailable

Templates = Mapping[str, Mapping[str, str]]


class Site:
    """Hosts whose controllers are asked by a program that writes down where it was sent."""

    def __init__(self, folder: Path) -> None:
        self.asked, self._folder = folder / "asked", folder
        self.asked.touch()
        (folder / "ipmitool").write_text(
            f'#!/bin/sh\necho "$5:$7" >> {self.asked}\necho "Chassis Power is on"\necho "Chassis Power Control: Soft"\n'
        )
        (folder / "ipmitool").chmod(0o755)
        (folder / "password").write_text("hunter-two\n")
        (folder / "password").chmod(0o600)

    def control(
        self,
        templates: Templates,
        address: str = "{host}-bmc",
        handed_over: Collection[str] = ("node1", "node2"),
        **content: Any,
    ) -> GuardedPowerControl:
        login = {
            "program": str(self._folder / "ipmitool"),
            "user": "u",
            "password_file": str(self._folder / "password"),
        }
        settings = {"method": "ipmitool", "ipmitool": {"address": address} | login} | content
        listed = {name: ListedHost(name in handed_over, template) for name, template in templates.items()}
        return make_power_control(
            msgspec.convert(settings, PowerControlSettings), FixedClock(0), templates.__getitem__, lambda _host: listed
        )


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def answers(control: GuardedPowerControl, host: str) -> list[PowerOutcome]:
    reading = control.status(host)
    assert reading.status is PowerStatus.UNKNOWN or reading.outcome.accepted
    return [reading.outcome, control.switch_off(host, hard=False), control.switch_on(host)]


def login_at(address: str) -> Mapping[str, str]:
    return {"POWER_ADDRESS": address, "POWER_USER": "own", "POWER_PASSWORD": "hunter-two"}


SHARED: list[tuple[Templates, dict[str, Any]]] = [
    ({"node1": {}, "node2": {}}, {"address": "10.0.0.5"}),
    ({"node1": login_at("BMC5"), "node2": login_at("bmc5")}, {}),
    ({"node1": {}, "node2": login_at("10.0.0.5")}, {"hosts": {"node1": {"address": "10.0.0.5"}}}),
    ({"node1": {}, "node2": {}}, {"method": "wake-on-lan", "wake_on_lan": {"host_address": "127.0.0.1"}}),
]


@pytest.mark.parametrize(("templates", "content"), SHARED)
def test_what_two_hosts_have_is_asked_for_none_of_them(site: Site, templates: Templates, content: Any) -> None:
    control = site.control(templates, **content)
    for outcome in [*answers(control, "node1"), *answers(control, "node2")]:
        assert outcome.answer is PowerAnswer.MISCONFIGURED
        assert "node1" in outcome.text
        assert "node2" in outcome.text
    assert site.asked.read_text() == ""


NODE2_IN_USE: list[tuple[Templates, dict[str, Any]]] = [
    ({"node1": login_at("10.0.0.2"), "node2": {}}, {"hosts": {"node2": {"address": "10.0.0.2"}}}),
    ({"node1": login_at("Node2-bmc"), "node2": {}}, {}),
    ({"node1": {}, "node2": login_at("node1-bmc")}, {}),
    ({"node1": {}, "node2": {}}, {"method": "wake-on-lan", "hosts": {"node1": {"address": "node2"}}}),
    (
        {"node1": {}, "node2": {}},
        {"address": "10.0.0.5", "hosts": {"node1": {"port": 6231}, "node2": {"port": 6231}}},
    ),
]


@pytest.mark.parametrize(("templates", "content"), NODE2_IN_USE)
def test_what_a_host_has_that_is_not_handed_over_is_asked_for_no_other(
    site: Site, templates: Templates, content: Any
) -> None:
    for outcome in answers(site.control(templates, handed_over=["node1"], **content), "node1"):
        assert outcome.answer is PowerAnswer.MISCONFIGURED
        assert "its address for power control is that of node2 as well" in outcome.text
    assert site.asked.read_text() == ""


OWN: list[tuple[Templates, dict[str, Any]]] = [
    ({"node1": {}}, {"address": "10.0.0.5"}),
    ({"node1": {}, "node2": {}}, {}),
    ({"node1": login_at("10.0.0.5"), "node2": login_at("10.0.0.6")}, {"address": "10.0.0.5"}),
    (
        {"node1": {}, "node2": {}},
        {"address": "10.0.0.5", "hosts": {"node1": {"port": 6231}, "node2": {"port": 6232}}},
    ),
    ({"node1": {}, "node2": login_at("10.0.0.5")}, {"address": "10.0.0.5", "hosts": {"node2": {"method": "none"}}}),
]


@pytest.mark.parametrize(("templates", "content"), OWN)
def test_what_a_host_has_for_itself_is_asked(site: Site, templates: Templates, content: Any) -> None:
    assert all(outcome.accepted for outcome in answers(site.control(templates, **content), "node1"))
    assert len(site.asked.read_text().splitlines()) == 3


def test_who_is_not_handed_over_and_says_nowhere_where_it_is_has_no_part_in_an_address_for_all(site: Site) -> None:
    templates = {"node1": {}, "node2": {"POWER_CIRCUIT": "B7"}}
    control = site.control(templates, address="10.0.0.5", handed_over=["node1"])
    assert all(outcome.accepted for outcome in answers(control, "node1"))


def test_nothing_is_asked_while_nobody_can_tell_the_others(site: Site) -> None:
    def silent(*_host: str) -> Templates:
        raise CloudUnavailable("one.hostpool.info at http://one: no complete answer in time")

    settings = {"method": "ipmitool", "ipmitool": {"address": "{host}-bmc", "user": "u", "password_file": "/p"}}
    control = make_power_control(msgspec.convert(settings, PowerControlSettings), FixedClock(0), silent, silent)  # type: ignore[arg-type]
    for outcome in answers(control, "node1"):
        assert outcome.answer is PowerAnswer.UNREACHABLE
        assert "no complete answer in time" in outcome.text
