from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from xmlrpc.client import Fault, dumps

import pyone
import pytest

from one_preempt.adapters.opennebula.enactor import OpenNebulaEnactor
from one_preempt.adapters.opennebula.oned_errors import ActionError, NoExistsError
from one_preempt.adapters.opennebula.pool_reader import OpenNebulaPoolReader
from one_preempt.adapters.opennebula.pyone_server import pyone_server
from one_preempt.adapters.opennebula.transport import OnedTransport
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import Action, ActionKind, Reason
from one_preempt.ports import CallResult

RECORDINGS = Path(__file__).resolve().parents[2] / "recordings"
LOCKED_BY_US = 10
ACCEPTED = CallResult(Outcome.ACCEPTED)


class FixedClock:
    def now_s(self) -> int:
        return 0


def as_locked_by_us(document: Any) -> Any:
    """The recorded lock of oneadmin (on VM 10 alone) at the level at which the scheduler locks."""
    return document.replace(b"&lt;LOCKED&gt;1&lt;", b"&lt;LOCKED&gt;2&lt;") if isinstance(document, bytes) else document


class Cloud:
    """The recorded 7.4.0; `answer` is what state-changing calls get, `acted` are those that came."""

    def __init__(self, endpoint: Any) -> None:
        self.endpoint = endpoint
        self.answer: Any = dumps(([True, 0, 0],), methodresponse=True).encode()
        endpoint.plays("7.4.0")
        recorded = endpoint.answer
        endpoint.answer = lambda method, parameters: (
            as_locked_by_us(recorded(method, parameters)) if method == "one.vm.info" else self.answer
        )

    @property
    def acted(self) -> list[tuple[str, tuple[Any, ...]]]:
        return [call for call in self.endpoint.calls if call[0] != "one.vm.info"]


@pytest.fixture
def cloud(endpoint: Any) -> Cloud:
    return Cloud(endpoint)


@pytest.fixture
def enactor(patient_transport: OnedTransport) -> OpenNebulaEnactor:
    return OpenNebulaEnactor(patient_transport, OpenNebulaPoolReader(patient_transport, FixedClock()))


def action(kind: ActionKind, vm_id: int, **details: Any) -> Action:
    return Action("a1", kind, vm_id, lease_id=vm_id, reason=Reason("TEST", "a test"), **details)


CALLS = {
    "deploy": (
        action(ActionKind.DEPLOY, 16, host_id=2, expected_states=("PENDING",)),
        ("one.vm.deploy", (16, 2, True, -1, "")),
    ),
    "deploy without enforcing, to a datastore, with networks": (
        action(
            ActionKind.DEPLOY, 14, host_id=1, datastore_id=100, nics=((0, 3), (1, 4)), enforce_capacity=False
        ),
        (
            "one.vm.deploy",
            (
                14, 1, False, 100,
                'NIC=[NIC_ID="0",NETWORK_MODE="auto",NETWORK_ID="3"]\nNIC=[NIC_ID="1",NETWORK_MODE="auto",NETWORK_ID="4"]',
            ),
        ),
    ),
    "suspend": (action(ActionKind.SUSPEND, 0, expected_states=("RUNNING",)), ("one.vm.action", ("suspend", 0))),
    "lock": (
        action(ActionKind.LOCK, 1, expected_states=("SUSPENDED",), lock_owner_uid=0), ("one.vm.lock", (1, 2)),
    ),
    "unlock": (action(ActionKind.UNLOCK, LOCKED_BY_US, lock_owner_uid=0), ("one.vm.unlock", (LOCKED_BY_US,))),
    "stop": (action(ActionKind.STOP, 0, expected_states=("RUNNING", "SUSPENDED")), ("one.vm.action", ("stop", 0))),
    "undeploy": (action(ActionKind.UNDEPLOY, 2), ("one.vm.action", ("undeploy", 2))),
    "terminate": (action(ActionKind.TERMINATE, 0), ("one.vm.action", ("terminate", 0))),
    "resume": (action(ActionKind.RESUME, 1, expected_states=("SUSPENDED",)), ("one.vm.action", ("resume", 1))),
    "hold": (action(ActionKind.HOLD, 16), ("one.vm.action", ("hold", 16))),
    "migrate": (action(ActionKind.MIGRATE, 0, host_id=3), ("one.vm.migrate", (0, 3, False, True, -1, 0))),
    "live-migrate": (
        action(ActionKind.LIVE_MIGRATE, 0, host_id=3, datastore_id=100),
        ("one.vm.migrate", (0, 3, True, True, 100, 0)),
    ),
    "message": (
        action(ActionKind.MESSAGE, 16, attributes=(("LEASE_STATUS", "full: a < b & \"c\""),)),
        ("one.vm.update", (16, "<TEMPLATE><LEASE_STATUS><![CDATA[full: a < b & \"c\"]]></LEASE_STATUS></TEMPLATE>", 1)),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("step", "call"), CALLS.values(), ids=CALLS.keys())
def test_each_action_looks_at_the_vm_and_makes_exactly_one_call(
    step: Action, call: tuple[str, tuple[Any, ...]], cloud: Cloud, enactor: OpenNebulaEnactor
) -> None:
    assert enactor.perform(step) == ACCEPTED
    assert cloud.endpoint.calls == [("one.vm.info", (step.vm_id, False)), call]
    assert set(cloud.endpoint.sessions) == {"oneadmin:canary-password"}


def test_every_kind_of_action_is_carried_out_by_some_call() -> None:
    assert {step.kind for step, _ in CALLS.values()} == set(ActionKind)


@pytest.mark.parametrize(
    ("vm_id", "text"),
    [
        (1, "VM 1 is SUSPENDED, expected was RUNNING or SAVE_STOP"),
        (15, "VM 15 is BOOT_FAILURE, expected was RUNNING or SAVE_STOP"),
        (8, "VM 8 does not exist any more"),
        (4711, "VM 4711 does not exist any more"),
    ],
)
def test_a_vm_that_changed_hands_is_left_alone(vm_id: int, text: str, cloud: Cloud, enactor: OpenNebulaEnactor) -> None:
    result = enactor.perform(action(ActionKind.STOP, vm_id, expected_states=("RUNNING", "SAVE_STOP")))
    assert result == CallResult(Outcome.DROPPED, "CHANGED_HANDS", text)
    assert cloud.acted == []


def test_every_recorded_refusal_comes_back_by_name_after_one_call(cloud: Cloud, enactor: OpenNebulaEnactor) -> None:
    rows = [row for row in json.loads((RECORDINGS / "7.4.0" / "errors.json").read_text()) if "reply" in row]
    names = {0x100: "AUTHENTICATION", 0x200: "AUTHORIZATION", 0x400: "NO_EXISTS", 0x800: "ACTION",
             0x1000: "XML_RPC_API", 0x2000: "INTERNAL"}  # fmt: skip
    for row in rows:
        cloud.endpoint.calls.clear()
        cloud.answer = dumps((row["reply"],), methodresponse=True).encode()
        result = enactor.perform(action(ActionKind.STOP, 0))
        if row["reply"][0]:
            assert result == ACCEPTED
        else:
            assert result == CallResult(Outcome.REFUSED, names[row["reply"][2]], row["reply"][1])
        assert len(cloud.acted) == 1


def test_a_fault_is_a_refusal(cloud: Cloud, enactor: OpenNebulaEnactor) -> None:
    cloud.answer = dumps(Fault(-506, "Method 'one.vm.action' not defined"), methodresponse=True).encode()
    assert enactor.perform(action(ActionKind.HOLD, 16)) == CallResult(
        Outcome.REFUSED, "UNKNOWN_METHOD", "Method 'one.vm.action' not defined"
    )


@pytest.mark.parametrize("trouble", [b"", b"<html/>", lambda handler: None])
def test_no_usable_answer_leaves_the_outcome_unknown_and_nothing_is_repeated(
    trouble: Any, cloud: Cloud, enactor: OpenNebulaEnactor
) -> None:
    cloud.answer = trouble
    result = enactor.perform(action(ActionKind.STOP, 0))
    assert (result.outcome, result.error_code) == (Outcome.UNKNOWN, "NO_ANSWER")
    assert result.error_text.startswith("one.vm.action at http://127.0.0.1:")
    assert len(cloud.acted) == 1


def test_a_call_that_hangs_leaves_the_outcome_unknown(
    cloud: Cloud, hasty_transport: OnedTransport, transport: OnedTransport
) -> None:
    cloud.answer = lambda handler: cloud.endpoint.released.wait(20)
    result = OpenNebulaEnactor(hasty_transport, OpenNebulaPoolReader(transport, FixedClock())).perform(
        action(ActionKind.STOP, 0)
    )
    assert (result.outcome, result.error_code) == (Outcome.UNKNOWN, "NO_ANSWER")
    assert len(cloud.acted) == 1


def test_where_the_vm_cannot_be_looked_at_nothing_is_done(cloud: Cloud, enactor: OpenNebulaEnactor) -> None:
    cloud.endpoint.answer = lambda method, parameters: b"<html/>"
    result = enactor.perform(action(ActionKind.TERMINATE, 0))
    assert (result.outcome, result.error_code) == (Outcome.UNKNOWN, "NO_ANSWER")
    assert cloud.acted == []


@pytest.mark.parametrize(
    ("reply", "code", "text"),
    [
        ([False, "[one.vm.info] Not yours.", 0x200, 0, -1], "AUTHORIZATION", "one.vm.info was refused"),
        ([True, "<VM><ID>0</ID><TEMPLATE>", 0], "UNREADABLE", "VM 0 cannot be read"),
        ([True, "<VM><ID>0</ID></VM>", 0], "UNREADABLE", "VM 0 cannot be read"),
    ],
    ids=["refused", "broken", "bare"],
)
def test_a_vm_that_alone_cannot_be_told_is_left_alone_and_oned_is_not_taken_for_silent(
    reply: list[Any], code: str, text: str, cloud: Cloud, enactor: OpenNebulaEnactor
) -> None:
    cloud.endpoint.answer = lambda method, parameters: dumps((reply,), methodresponse=True).encode()
    result = enactor.perform(action(ActionKind.STOP, 0))
    assert (result.outcome, result.error_code) == (Outcome.DROPPED, code)
    assert text in result.error_text
    assert cloud.acted == []
    assert len(cloud.endpoint.calls) == 1


@pytest.mark.parametrize(
    ("kind", "vm_id", "own_uid", "text"),
    [
        (ActionKind.LOCK, LOCKED_BY_US, 7, "VM 10 is locked by user 0 (MANAGE): that is not our lock"),
        (ActionKind.UNLOCK, LOCKED_BY_US, 7, "VM 10 is locked by user 0 (MANAGE): that is not our lock"),
        (ActionKind.UNLOCK, LOCKED_BY_US, None, "VM 10 is locked by user 0 (MANAGE): that is not our lock"),
        (ActionKind.UNLOCK, 1, 0, "VM 1 is not locked any more"),
    ],
)
def test_no_lock_but_our_own_is_replaced_or_opened(
    kind: ActionKind, vm_id: int, own_uid: int | None, text: str, cloud: Cloud, enactor: OpenNebulaEnactor
) -> None:
    result = enactor.perform(action(kind, vm_id, lock_owner_uid=own_uid))
    assert result == CallResult(Outcome.DROPPED, "CHANGED_HANDS", text)
    assert cloud.acted == []


def test_our_own_lock_may_be_set_again(cloud: Cloud, enactor: OpenNebulaEnactor) -> None:
    assert enactor.perform(action(ActionKind.LOCK, LOCKED_BY_US, lock_owner_uid=0)) == ACCEPTED


@pytest.mark.parametrize("name", ["USER_PRIORITY", "SCHED_RANK", "LEASE", "lease_status", "SCHED_REQUIREMENTS", ""])
def test_no_other_attribute_than_our_two_is_ever_written(name: str, cloud: Cloud, enactor: OpenNebulaEnactor) -> None:
    step = action(ActionKind.MESSAGE, 16, attributes=(("LEASE_STATUS", "fine"), (name, "999")))
    result = enactor.perform(step)
    assert (result.outcome, result.error_code) == (Outcome.DROPPED, "FORBIDDEN_ATTRIBUTE")
    assert cloud.acted == []


def test_a_deployment_without_a_host_is_a_mistake_of_the_planner(cloud: Cloud, enactor: OpenNebulaEnactor) -> None:
    with pytest.raises(ValueError, match="a1 names no host"):
        enactor.perform(action(ActionKind.DEPLOY, 16))
    assert cloud.acted == []


def test_pyone_calls_over_our_transport_keep_code_and_object(endpoint: Any, patient_transport: OnedTransport) -> None:
    server = pyone_server(patient_transport)
    endpoint.answers(dumps(([True, 7, 0],), methodresponse=True).encode())
    assert server.vm.action("stop", 7) == 7
    endpoint.answers(dumps(([False, "gone", 0x400, 7, -1],), methodresponse=True).encode())
    with pytest.raises(NoExistsError, match="gone") as caught:
        server.vm.action("stop", 7)
    assert (caught.value.code, caught.value.object_id) == (0x400, 7)
    endpoint.answers(dumps(([False, "no", 0x800, -1, -1],), methodresponse=True).encode())
    with pytest.raises(ActionError):
        server.vm.deploy(7, 1, False, -1, "")
    assert set(endpoint.sessions) == {"oneadmin:canary-password"}
    assert endpoint.calls[0] == ("one.vm.action", ("stop", 7))


def test_a_pyone_of_before_7_2_which_has_one_kind_of_server_alone_carries_calls_as_well(
    endpoint: Any, patient_transport: OnedTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyone.server_xrpc import OneServerXRPC

    monkeypatch.setitem(sys.modules, "pyone.server_xrpc", None)
    monkeypatch.setattr(pyone, "OneServer", OneServerXRPC)
    endpoint.answers(dumps(([True, 7, 0],), methodresponse=True).encode())
    assert pyone_server(patient_transport).vm.action("stop", 7) == 7
    assert endpoint.calls == [("one.vm.action", ("stop", 7))]
