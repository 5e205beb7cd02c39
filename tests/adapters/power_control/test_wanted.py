"""What is dropped while the way to a host is still being found is not given out any more, by no kind of control."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import responses

from one_preempt.adapters.power_control.controllers import Controllers, UsualLogin
from one_preempt.adapters.power_control.guarded import GuardedPowerControl
from one_preempt.adapters.power_control.in_background import BackgroundPowerCalls
from one_preempt.adapters.power_control.ipmitool import IpmitoolPowerControl
from one_preempt.adapters.power_control.redfish import RedfishPowerControl
from one_preempt.adapters.power_control.wake_on_lan import WakeOnLanPowerControl
from one_preempt.adapters.power_control.wanted import NotWanted, demand_wanted, while_wanted
from one_preempt.configuration.power_control_settings import (
    IpmitoolSettings,
    PatienceSettings,
    RedfishSettings,
    WakeOnLanSettings,
)
from one_preempt.core.model.power_sequence import HostPowerStep, PowerStepKind
from one_preempt.ports import PowerControl

ORIGIN = "https://node1-bmc"
RESET = "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"
ATTRIBUTES = {
    "POWER_ADDRESS": ORIGIN,
    "POWER_USER": "operator",
    "POWER_PASSWORD": "secret",
    "POWER_HARDWARE_ADDRESS": "01:23:45:67:89:ab",
}
NOBODY = UsualLogin(None, None, None)


class FixedClock:
    def now_s(self) -> int:
        return 1_800_000_000


class SteppingDown:
    """oned answers who is where only after its daemon has stepped down."""

    def __init__(self, address: str = ORIGIN) -> None:
        self.address = address
        self.calls: BackgroundPowerCalls | None = None
        self.asked = 0

    def attributes_of(self, host: str) -> Mapping[str, str]:
        self.asked += 1
        self.drop()
        return ATTRIBUTES | {"POWER_ADDRESS": self.address}

    def drop(self) -> None:
        if self.calls is not None:
            self.calls.drop()


@contextmanager
def put_off(control: PowerControl, kind: PowerStepKind, during: SteppingDown) -> Iterator[GuardedPowerControl]:
    """One order is put, and over when the block is entered."""
    guarded = GuardedPowerControl(control, FixedClock(), PatienceSettings())
    with closing(BackgroundPowerCalls(guarded, 1)) as calls:
        during.calls = calls
        calls.put(HostPowerStep(1, "node1", kind, "idle", "nobody is on it"), 0)
        while calls.is_busy(1):
            pass
        assert calls.take_reports() == []
        yield guarded


@pytest.mark.parametrize("steps_down", [True, False])
def test_no_program_is_started(tmp_path: Path, steps_down: bool) -> None:
    begun, program, during = tmp_path / "begun", tmp_path / "ipmitool", SteppingDown("node1-bmc")
    program.write_text(f'#!/bin/sh\necho "$@" >> {begun}\necho "Chassis Power Control: Soft"\n')
    program.chmod(0o755)
    controllers = Controllers(NOBODY, {}, during.attributes_of)
    control = IpmitoolPowerControl(controllers, IpmitoolSettings(program=str(program)))
    if steps_down:
        with put_off(control, PowerStepKind.SWITCH_OFF, during) as guarded:
            assert not begun.exists()
            # The host has done nothing wrong.
            assert guarded.standings() == {}
    else:
        control.switch_off("node1", hard=False)
        assert begun.exists()
    assert during.asked > 0


@pytest.mark.parametrize("last", ["Systems/1", "Systems"])
def test_no_reset_is_posted_and_the_session_is_closed(last: str) -> None:
    during = SteppingDown()
    with responses.RequestsMock(assert_all_requests_are_fired=False) as service:
        _offer(service, {f"/redfish/v1/{last}": during.drop})
        control = RedfishPowerControl(
            Controllers(NOBODY, {}, lambda host: ATTRIBUTES), RedfishSettings(login="session")
        )
        with put_off(control, PowerStepKind.SWITCH_OFF, during):
            sent = [(call.request.method, call.request.path_url) for call in service.calls]
    assert ("POST", RESET) not in sent
    assert sent[-2:] == [("GET", f"/redfish/v1/{last}"), ("DELETE", "/redfish/v1/SessionService/Sessions/7")]


def _offer(service: responses.RequestsMock, during: Mapping[str, Callable[[], None]]) -> None:
    sessions = {"X-Auth-Token": "token", "Location": "/redfish/v1/SessionService/Sessions/7"}
    service.post(f"{ORIGIN}/redfish/v1/SessionService/Sessions", json={}, headers=sessions)
    service.delete(f"{ORIGIN}/redfish/v1/SessionService/Sessions/7", json={})
    service.post(ORIGIN + RESET, json={})
    reset = {"#ComputerSystem.Reset": {"target": RESET}}
    documents: dict[str, dict[str, Any]] = {
        "/redfish/v1/": {"Systems": {"@odata.id": "/redfish/v1/Systems"}},
        "/redfish/v1/Systems": {"Members": [{"@odata.id": "/redfish/v1/Systems/1"}]},
        "/redfish/v1/Systems/1": {"Id": "1", "PowerState": "On", "Actions": reset},
    }

    def answered(path: str) -> Callable[[Any], tuple[int, dict[str, str], str]]:
        def answer(_: Any) -> tuple[int, dict[str, str], str]:
            during.get(path, lambda: None)()
            return 200, {}, json.dumps(documents[path])

        return answer

    for path in documents:
        service.add_callback(responses.GET, ORIGIN + path, callback=answered(path))


def test_no_magic_packet_is_sent() -> None:
    during = SteppingDown()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.255.255.255", 0))
        listener.setblocking(False)
        settings = WakeOnLanSettings(broadcast_address="127.255.255.255", port=listener.getsockname()[1])
        control = WakeOnLanPowerControl(settings, {}, during.attributes_of)
        with put_off(control, PowerStepKind.SWITCH_ON, during), pytest.raises(BlockingIOError):
            listener.recv(2000)
    assert during.asked == 1


def test_who_says_nothing_wants_it() -> None:
    demand_wanted()
    with while_wanted(lambda: False), pytest.raises(NotWanted):
        demand_wanted()
    demand_wanted()
