"""Steps of a power sequence at oned: the host is read again before each, and what changed hands is left alone."""

from __future__ import annotations

from typing import Any
from xmlrpc.client import dumps

import pytest

from one_preempt.adapters.opennebula.host_enactor import LastLook, OpenNebulaHostEnactor
from one_preempt.adapters.opennebula.transport import OnedTransport
from one_preempt.core.model.host import HostState
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.power_sequence import HostPowerStep, PowerStepKind
from tests.adapters.opennebula.conftest import RECORDINGS, reply

EMPTY, USED = "node05", "node01"


class Hosts:
    """The recorded hosts of 7.4.0; `answer` is what one.host.status gets."""

    def __init__(self, endpoint: Any) -> None:
        self.endpoint = endpoint
        self.answer: Any = reply(True, 0, 0)
        endpoint.answer = self._answer

    def _answer(self, method: str, parameters: tuple[Any, ...]) -> Any:
        if method == "one.host.status":
            return self.answer
        if method == "one.hostpool.info":
            return reply(True, (RECORDINGS / "7.4.0/hostpool.info.xml").read_text().rstrip("\n"))
        for name in (EMPTY, USED):
            document = (RECORDINGS / f"7.4.0/host.info.{name}.xml").read_text().rstrip("\n")
            if f"<ID>{parameters[0]}</ID><NAME>" in document:
                return reply(True, document)
        return reply(False, "no such host", 0x400, parameters[0], -1)

    @property
    def changed(self) -> list[tuple[Any, ...]]:
        return [parameters for method, parameters in self.endpoint.calls if method == "one.host.status"]


def identity(name: str) -> tuple[int, str]:
    document = (RECORDINGS / f"7.4.0/host.info.{name}.xml").read_text()
    host_id = document.partition("<ID>")[2].partition("</ID>")[0]
    return int(host_id), document.partition("<NAME>")[2].partition("</NAME>")[0]


def step(name: str, kind: PowerStepKind, *states: HostState, must_be_empty: bool = False) -> HostPowerStep:
    host_id, host_name = identity(name)
    return HostPowerStep(host_id, host_name, kind, "idle", "nobody is on it", states, must_be_empty)


@pytest.fixture
def hosts(endpoint: Any) -> Hosts:
    return Hosts(endpoint)


@pytest.mark.parametrize(
    ("kind", "number"), [(PowerStepKind.ENABLE, 0), (PowerStepKind.DISABLE, 1), (PowerStepKind.PUT_OFFLINE, 2)]
)
def test_the_status_is_set_once_after_the_host_was_read(
    hosts: Hosts, transport: OnedTransport, kind: PowerStepKind, number: int
) -> None:
    result = OpenNebulaHostEnactor(transport).perform(step(EMPTY, kind))
    assert result.outcome is Outcome.ACCEPTED
    assert hosts.changed == [(identity(EMPTY)[0], number)]


def test_power_control_is_not_for_oned_and_is_only_checked(hosts: Hosts, transport: OnedTransport) -> None:
    checked = OpenNebulaHostEnactor(transport).perform(step(EMPTY, PowerStepKind.SWITCH_OFF))
    assert checked.outcome is Outcome.ACCEPTED
    assert hosts.changed == []


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (step(USED, PowerStepKind.PUT_OFFLINE, must_be_empty=True), "is on host"),
        (step(EMPTY, PowerStepKind.PUT_OFFLINE, HostState.ERROR), "expected was ERROR"),
        (HostPowerStep(999, "gone", PowerStepKind.DISABLE, "", ""), "does not exist any more"),
        (HostPowerStep(identity(EMPTY)[0], "other", PowerStepKind.DISABLE, "", ""), "is named"),
    ],
)
def test_a_host_that_changed_hands_is_left_alone(
    hosts: Hosts, transport: OnedTransport, asked: HostPowerStep, why: str
) -> None:
    result = OpenNebulaHostEnactor(transport).perform(asked)
    assert (result.outcome, result.error_code) == (Outcome.DROPPED, "CHANGED_HANDS")
    assert why in result.error_text
    assert hosts.changed == []


def test_the_last_look_says_why_a_host_is_to_keep_its_power(hosts: Hosts, transport: OnedTransport) -> None:
    look = LastLook(transport)
    assert look(step(EMPTY, PowerStepKind.CUT_POWER, HostState.DISABLED, must_be_empty=True)) == ""
    assert "expected was ERROR" in look(step(EMPTY, PowerStepKind.CUT_POWER, HostState.ERROR))
    assert "is on host" in look(step(USED, PowerStepKind.SWITCH_OFF, must_be_empty=True))
    hosts.endpoint.answer = lambda *_asked: dumps(("garbage",), methodresponse=True).encode()
    assert look(step(EMPTY, PowerStepKind.CUT_POWER, HostState.DISABLED)) != ""
    assert hosts.changed == []


def test_a_refusal_and_no_answer_are_told_apart(hosts: Hosts, transport: OnedTransport) -> None:
    hosts.answer = reply(False, "not yours", 0x200, 0, -1)
    refused = OpenNebulaHostEnactor(transport).perform(step(EMPTY, PowerStepKind.DISABLE))
    assert (refused.outcome, refused.error_code) == (Outcome.REFUSED, "AUTHORIZATION")
    hosts.answer = dumps(("garbage",), methodresponse=True).encode()
    assert OpenNebulaHostEnactor(transport).perform(step(EMPTY, PowerStepKind.DISABLE)).outcome is Outcome.UNKNOWN
