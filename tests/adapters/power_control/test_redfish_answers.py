"""What controllers answer that the emulator does not: sessions, other offers, trouble, and answers of bad will."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event, Timer
from typing import Any

import pytest
import requests
import responses
from responses.matchers import header_matcher, json_params_matcher

from one_preempt.adapters.power_control.controllers import Controllers, UsualLogin
from one_preempt.adapters.power_control.redfish import RedfishPowerControl
from one_preempt.configuration.power_control_settings import RedfishSettings
from one_preempt.core.model.power import PowerAnswer, PowerOutcome, PowerStatus

HOST = "node-01"
ORIGIN = "https://node-01-bmc"
RESET = "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"
SESSION = "/redfish/v1/SessionService/Sessions/7"
PASSWORD = "hunter-two ü"
ATTRIBUTES = {
    "POWER_ADDRESS": ORIGIN,
    "POWER_USER": "operator",
    "POWER_PASSWORD": PASSWORD,
}


def control(**options: object) -> RedfishPowerControl:
    controllers = Controllers(UsualLogin(None, None, None), {}, lambda host: ATTRIBUTES)
    return RedfishPowerControl(controllers, RedfishSettings(**options))  # type: ignore[arg-type]


@pytest.fixture
def service() -> Any:
    with responses.RequestsMock(assert_all_requests_are_fired=False) as service:
        service.get(f"{ORIGIN}/redfish/v1/", json={"Systems": {"@odata.id": "/redfish/v1/Systems"}})
        service.get(f"{ORIGIN}/redfish/v1/Systems", json={"Members": [{"@odata.id": "/redfish/v1/Systems/1"}]})
        yield service


def offer(service: Any, power: object = "Off", **action: object) -> None:
    """The one system, with what its reset action says."""
    reset = {"target": RESET, **action}
    system = {"Id": "1", "PowerState": power, "Actions": {"#ComputerSystem.Reset": reset}}
    service.get(f"{ORIGIN}/redfish/v1/Systems/1", json=system)


def resets(service: Any) -> list[str]:
    """The orders that were sent."""
    return [json.loads(call.request.body)["ResetType"] for call in service.calls if call.request.url == ORIGIN + RESET]


@pytest.mark.parametrize(
    ("allowed", "expected"), [(["ForceOff", "On", "ForceOn"], "On"), (["ForceOn", "ForceOff"], "ForceOn"), (None, "On")]
)
def test_the_reset_is_the_best_that_is_allowed(service: Any, allowed: list[str] | None, expected: str) -> None:
    offer(service, **({} if allowed is None else {"ResetType@Redfish.AllowableValues": allowed}))
    service.post(ORIGIN + RESET, status=204)
    assert control().switch_on(HOST).accepted
    assert resets(service) == [expected]


def test_what_is_allowed_may_stand_in_a_document_of_its_own(service: Any) -> None:
    offer(service, **{"@Redfish.ActionInfo": "/redfish/v1/Systems/1/ResetActionInfo"})
    parameters = [{"Name": "Other"}, {"Name": "ResetType", "AllowableValues": ["ForceOn"]}]
    service.get(f"{ORIGIN}/redfish/v1/Systems/1/ResetActionInfo", json={"Parameters": parameters})
    service.post(ORIGIN + RESET, status=202)
    assert control().switch_on(HOST).accepted
    assert resets(service) == ["ForceOn"]


def test_a_soft_switching_off_is_never_made_a_hard_one(service: Any) -> None:
    offer(service, **{"ResetType@Redfish.AllowableValues": ["On", "ForceOff", "PushPowerButton"]})
    outcome = control().switch_off(HOST, hard=False)
    assert outcome.answer is PowerAnswer.REFUSED
    assert "On, ForceOff, PushPowerButton" in outcome.text
    assert resets(service) == []


@pytest.mark.parametrize("power", ["PoweringOn", "PoweringOff", "Paused", None, 3, ["On"]])
def test_what_is_neither_on_nor_off_is_unknown(service: Any, power: object) -> None:
    offer(service, power)
    assert control().status(HOST).status is PowerStatus.UNKNOWN


def test_a_session_is_opened_used_and_closed_and_the_password_sent_once(service: Any) -> None:
    offer(service)
    service.post(
        f"{ORIGIN}/redfish/v1/SessionService/Sessions",
        headers={"X-Auth-Token": "token-9", "Location": ORIGIN + SESSION},
        match=[json_params_matcher({"UserName": "operator", "Password": PASSWORD})],
        status=201,
    )
    service.delete(ORIGIN + SESSION, match=[header_matcher({"X-Auth-Token": "token-9"})], status=204)
    service.post(ORIGIN + RESET, match=[header_matcher({"X-Auth-Token": "token-9"})], status=204)
    assert control(login="session").switch_on(HOST).accepted
    assert [call.request.method for call in service.calls] == ["POST", "GET", "GET", "GET", "POST", "DELETE"]
    assert all("Authorization" not in call.request.headers for call in service.calls)


def test_the_session_is_closed_after_a_failure_too_and_its_own_failure_does_not_count(service: Any) -> None:
    service.post(
        f"{ORIGIN}/redfish/v1/SessionService/Sessions", headers={"X-Auth-Token": "token-9", "Location": SESSION}
    )
    service.get(f"{ORIGIN}/redfish/v1/Systems/1", status=404, json={"error": {"message": "no such\nthing"}})
    service.delete(ORIGIN + SESSION, status=500)
    outcome = control(login="session").switch_on(HOST)
    assert outcome.answer is PowerAnswer.REFUSED
    assert "no such thing" in outcome.text
    assert service.calls[-1].request.method == "DELETE"


def test_a_session_at_another_place_is_not_closed_there(service: Any) -> None:
    offer(service)
    service.post(
        f"{ORIGIN}/redfish/v1/SessionService/Sessions",
        headers={"X-Auth-Token": "token-9", "Location": "https://elsewhere.example/redfish"},
    )
    assert control(login="session").status(HOST).status is PowerStatus.OFF
    assert all(call.request.url.startswith(ORIGIN) for call in service.calls)


def test_without_sessions_the_mend_is_said(service: Any) -> None:
    service.post(f"{ORIGIN}/redfish/v1/SessionService/Sessions", status=201)
    assert "redfish.login: basic" in control(login="session").status(HOST).outcome.text


@pytest.mark.parametrize("place", ["https://elsewhere.example/x", "//elsewhere.example/x", "elsewhere"])
def test_the_password_goes_to_no_other_place(service: Any, place: str) -> None:
    offer(service, target=place)
    outcome = control().switch_on(HOST)
    assert outcome.answer is PowerAnswer.REFUSED
    assert all(call.request.url.startswith(ORIGIN + "/") for call in service.calls)


def test_a_redirection_is_not_followed(service: Any) -> None:
    service.get(f"{ORIGIN}/redfish/v1/Systems/1", status=307, headers={"Location": "https://elsewhere.example/"})
    assert control().status(HOST).outcome.answer is PowerAnswer.REFUSED
    assert len(service.calls) == 3


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (400, PowerAnswer.REFUSED),
        (401, PowerAnswer.DENIED),
        (403, PowerAnswer.DENIED),
        (409, PowerAnswer.REFUSED),
        (503, PowerAnswer.NO_ANSWER),
    ],
)
def test_an_order_may_have_been_done_where_the_controller_is_in_trouble(
    service: Any, status: int, answer: PowerAnswer
) -> None:
    offer(service)
    service.post(ORIGIN + RESET, status=status)
    assert control().switch_on(HOST).answer is answer


@pytest.mark.parametrize(
    "failure",
    [
        requests.ReadTimeout(f"{PASSWORD} too late"),
        requests.ConnectionError("closed"),
        requests.RequestException(),
        requests.exceptions.SSLError("TLSV1_ALERT_INTERNAL_ERROR"),
    ],
)
def test_an_order_whose_answer_is_lost_may_have_been_done(service: Any, failure: Exception) -> None:
    offer(service)
    service.post(ORIGIN + RESET, body=failure)
    outcome = control().switch_on(HOST)
    assert outcome.answer is PowerAnswer.NO_ANSWER
    assert PASSWORD not in repr(outcome)


def test_an_order_that_was_never_sent_was_not_done(service: Any) -> None:
    offer(service)
    service.post(ORIGIN + RESET, body=requests.ConnectTimeout())
    assert control().switch_off(HOST, hard=False).answer is PowerAnswer.UNREACHABLE


@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "cannot be read: No such file or directory"), ("no", "holds no certificates in PEM form")],
)
def test_certificates_that_cannot_be_used_are_named_and_no_order_is_given(
    content: str | None, why: str, tmp_path: Path
) -> None:
    ca_file = tmp_path / "authorities.pem"
    if content is not None:
        ca_file.write_text(content)
    outcome = control(ca_file=str(ca_file)).switch_off(HOST, hard=False)
    assert outcome == PowerOutcome(PowerAnswer.MISCONFIGURED, f"{HOST}: redfish.ca_file {ca_file} {why}")


def test_certificates_that_vanish_under_way_leave_open_whether_the_order_was_taken(service: Any) -> None:
    offer(service)
    service.post(ORIGIN + RESET, body=OSError("Could not find a suitable TLS CA certificate bundle"))
    assert control().switch_off(HOST, hard=False).answer is PowerAnswer.NO_ANSWER


@pytest.mark.parametrize("login", ["basic", "session"])
def test_a_certificate_that_is_not_trusted_keeps_the_order_from_being_given(service: Any, login: str) -> None:
    untrusted = requests.exceptions.SSLError("CERTIFICATE_VERIFY_FAILED")
    service.post(f"{ORIGIN}/redfish/v1/SessionService/Sessions", body=untrusted)
    service.get(f"{ORIGIN}/redfish/v1/Systems/1", body=untrusted)
    outcome = control(login=login).switch_off(HOST, hard=False)
    assert outcome.answer is PowerAnswer.MISCONFIGURED
    assert "redfish.ca_file" in outcome.text


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b"{", b"\xff", b'{"Systems": 3}', b'{"Systems": {"@odata.id": 3}}', b"[" * 10**5]
)
def test_an_answer_that_is_none_is_a_refusal_and_no_crash(body: bytes) -> None:
    with responses.RequestsMock() as service:
        service.get(f"{ORIGIN}/redfish/v1/", body=body)
        reading = control().status(HOST)
    assert (reading.status, reading.outcome.answer) == (PowerStatus.UNKNOWN, PowerAnswer.REFUSED)


def test_a_controller_that_repeats_the_password_does_not_get_it_shown(service: Any) -> None:
    # Where the words are cut off not even its beginning is shown.
    words = f"{'x' * 192}{PASSWORD}{'y' * 99}"
    service.post(f"{ORIGIN}/redfish/v1/SessionService/Sessions", status=400, json={"error": {"message": words}})
    offer(service, power=PASSWORD, **{"ResetType@Redfish.AllowableValues": [PASSWORD]})
    asked = control()
    texts = [control(login="session").switch_on(HOST).text, asked.status(HOST).outcome.text, asked.switch_on(HOST).text]
    for text in texts:
        assert "***" in text
        assert "hunter" not in text


def test_an_endless_answer_is_not_read_to_its_end(service: Any) -> None:
    service.get(f"{ORIGIN}/redfish/v1/Systems/1", body=b" " * (3 << 20))
    assert "more than" in control().status(HOST).outcome.text


@pytest.mark.parametrize("begin", [b"HTTP/1.1 200 OK\r\nX-Slow: ", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"])
def test_an_answer_that_drips_is_given_up_when_its_time_is_over(begin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    given_up = Event()

    def drip(listener: socket.socket) -> None:
        with listener.accept()[0] as connection, suppress(OSError):
            connection.recv(65536)
            connection.sendall(begin)
            while not given_up.wait(0.05):
                connection.sendall(b"a")

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor() as threads:
        threads.submit(drip, listener)
        watchdog = Timer(10, given_up.set)
        watchdog.start()
        monkeypatch.setitem(ATTRIBUTES, "POWER_ADDRESS", f"http://127.0.0.1:{listener.getsockname()[1]}")
        outcome = control(read_timeout_s=0.3).status(HOST).outcome
        in_time = not given_up.is_set()
        given_up.set()
        watchdog.cancel()
    assert in_time
    assert outcome.answer is PowerAnswer.UNREACHABLE
    assert "gave no complete answer within 0.3 s" in outcome.text


@pytest.mark.parametrize("name", ["a..b", "a" * 64])
def test_an_address_that_is_none_is_not_taken_for_an_answer_that_was_late(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ATTRIBUTES, "POWER_ADDRESS", f"https://{name}")
    outcome = control().switch_on(HOST)
    assert outcome.answer is PowerAnswer.UNREACHABLE
    assert "look at the address" in outcome.text
