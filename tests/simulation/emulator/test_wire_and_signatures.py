"""The wire format against recorded bytes, and the parameter checks against recorded faults."""

from __future__ import annotations

import json
import xmlrpc.client
from pathlib import Path
from typing import Any

import pytest

from one_preempt.simulation.emulator.methods import METHODS
from one_preempt.simulation.emulator.signatures import DEFAULTS, SIGNATURES, checked_arguments, is_known
from one_preempt.simulation.emulator.wire import Accepted, Fault, Refused, decode_call, encode_fault, encode_reply

RECORDINGS = Path(__file__).parents[2] / "recordings"
VERSIONS = ("7.4.0", "6.10.0")


def recorded_faults() -> list[Any]:
    return [
        pytest.param(version, row, id=f"{version}: {row['what']}")
        for version in VERSIONS
        for row in json.loads((RECORDINGS / version / "errors.json").read_text())
        if "fault_code" in row
    ]


@pytest.mark.parametrize("name", ["system.version", "hostpool.info", "vmpool.infoextended"])
@pytest.mark.parametrize("version", VERSIONS)
def test_an_accepted_reply_is_written_byte_for_byte_as_oned_writes_it(version: str, name: str) -> None:
    recorded = (RECORDINGS / version / "raw" / f"{name}.http.xml").read_bytes()
    reply: Any = xmlrpc.client.loads(recorded)[0][0]
    assert encode_reply(Accepted(reply[1])) == recorded


def test_a_refusal_has_five_items() -> None:
    body = encode_reply(Refused('[one.vm.action] Action "fly" is not supported', 0x800))
    (reply,), _ = xmlrpc.client.loads(body)
    assert reply == [False, '[one.vm.action] Action "fly" is not supported', 0x800, -1, -1]


def test_a_fault_reads_back_as_a_fault() -> None:
    with pytest.raises(xmlrpc.client.Fault) as caught:
        xmlrpc.client.loads(encode_fault(Fault(-506, "Method 'a<b' not defined")))
    assert (caught.value.faultCode, caught.value.faultString) == (-506, "Method 'a<b' not defined")


@pytest.mark.parametrize(("version", "row"), recorded_faults())
def test_wrong_calls_are_refused_as_recorded(version: str, row: dict[str, Any]) -> None:
    method = row["method"]
    if row["fault_code"] == -506:
        assert not is_known(method, version)
        return
    with pytest.raises(Fault) as caught:
        checked_arguments(method, ("session", *row["params"]), version)
    assert (caught.value.code, caught.value.text) == (row["fault_code"], row["fault_string"])


def test_left_out_parameters_take_their_defaults_and_superfluous_ones_are_ignored() -> None:
    assert checked_arguments("one.vm.deploy", ("s", 1, 2), "7.4.0") == (1, 2, False, -1, "")
    assert checked_arguments("one.vm.deploy", ("s", 1, 2, True), "7.4.0") == (1, 2, True, -1, "")
    assert checked_arguments("one.vm.info", ("s", 1, False, "more"), "6.10.0") == (1, False)


def test_every_signature_has_a_method_and_a_default_for_each_optional_parameter() -> None:
    assert set(SIGNATURES) == set(METHODS)
    for method, signature in SIGNATURES.items():
        assert len(signature.partition("|")[2]) == len(DEFAULTS.get(method, ()))


def one_parameter(value: bytes) -> bytes:
    parameters = b"<params><param><value>" + value + b"</value></param></params>"
    return b"<methodCall><methodName>m</methodName>" + parameters + b"</methodCall>"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"<methodCall><methodName>one.vm.info</methodName>",
        b"<html></html>",
        b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaa">]><methodCall><methodName>&a;</methodName></methodCall>',
        b'<!-- <methodCall --><!DOCTYPE x [<!ENTITY a "m">]><methodCall><methodName>&a;</methodName></methodCall>',
        b"<!-- -->" * 40 + b"<html/>",
        b"<methodResponse><params></params></methodResponse>",
        b"<methodCall><methodName>m</methodName><params><param><value><i4>x</i4></value></param></params></methodCall>",
        b"<methodCall><methodName>m</methodName><params><param><value><a/></value></param></params></methodCall>",
        one_parameter(b"<bigdecimal>x</bigdecimal>"),
        one_parameter(b"<i4>2147483648</i4>"),
        one_parameter(b"<i8>-2147483649</i8>"),
    ],
)
def test_a_body_that_is_no_call_is_a_fault_and_no_traceback(body: bytes) -> None:
    with pytest.raises(Fault) as caught:
        decode_call(body)
    assert caught.value.code == -503


def test_words_of_users_may_look_like_a_declaration() -> None:
    said = b"<string><![CDATA[<!DOCTYPE x>]]></string>"
    assert decode_call(one_parameter(said)).parameters == ("<!DOCTYPE x>",)
    assert decode_call(one_parameter(b"<i4>-2147483648</i4>")).parameters == (-(2**31),)
