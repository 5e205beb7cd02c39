"""The emulator, built from the recorded set-up, answers each recorded call as oned did.

Element names, their order and number, and the values are compared; figures that differ from run to run by their kind
alone (whole number, number, text, empty). What is not modelled stands in the tables below.
"""

from __future__ import annotations

import json
import re
import xmlrpc.client
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from one_preempt.simulation.emulator.process import shipped_cloud
from one_preempt.simulation.emulator.serving import running_emulator

RECORDINGS = Path(__file__).parents[2] / "recordings"
VERSIONS = ("7.4.0", "6.10.0")
SESSIONS = {"oneadmin": "oneadmin:opennebula", "alice": "alice:alice", "bob": "bob:bob"}

# Calls whose answer is not compared as a whole, and why.
NOT_COMPARED = {
    "hostpool.monitoring.all.xml": "the emulator keeps the last monitoring record alone",
    "system.config.xml": "only the entries a scheduler may want to know; compared as a subset below",
    "hooklog.info.xml": "hooks are not modelled: the log is empty",
    "hookpool.info.xml": "hooks are not modelled: the pool is empty",
    "vmpool.monitoring.xml": "the simulated guests have no figures",
}
# Elements left out of both documents before they are compared, and why.
LEFT_OUT = {
    "VM/MONITORING/*": "the simulated guests have no figures",
    "VM/LAST_POLL": "the simulated guests have no figures",
    "USER_TEMPLATE/SCHED_MESSAGE": "no placement rounds of oned are simulated",
    "USER/PASSWORD": "zeros in the recordings",
    "USER/TEMPLATE/TOKEN_PASSWORD": "zeros in the recordings",
    "QUOTAS/NETWORK_QUOTA/*": "network quotas are not kept",
    "QUOTAS/IMAGE_QUOTA/*": "image quotas are not kept",
    "GROUP/TEMPLATE/SUNSTONE": "the settings of the web interface are not kept",
}
# Elements compared by kind: they tell times, random numbers or figures of the recording machine.
BY_KIND = frozenset(
    {
        *("STIME", "ETIME", "PSTIME", "PETIME", "RSTIME", "RETIME", "ESTIME", "EETIME", "TIMESTAMP", "REGTIME"),
        *("MODTIME", "TIME", "UUID", "REQ_ID", "REQUEST_ID", "DESCRIPTION", "ERROR", "ENDPOINT"),
        *("TOTAL_MB", "FREE_MB", "USED_MB", "USED_DISK", "FREE_CPU", "USED_CPU", "FREE_MEMORY", "USED_MEMORY"),
        *("FREE", "USED", "NETRX", "NETTX", "PROFILES", "KVM_CPU_FEATURES", "KVM_CPU_MODELS"),
        *("IP", "MAC", "ETH0_IP", "ETH0_MAC", "ALLOCATED"),  # addresses are given out again at other moments
    }
)


@pytest.fixture(scope="module", params=VERSIONS)
def recorded(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """The version and the URL of an emulator in the recorded state."""
    with running_emulator(shipped_cloud("recorded", request.param)) as url:
        yield request.param, url


def call(url: str, method: str, user: str, *parameters: Any) -> Any:
    return getattr(xmlrpc.client.ServerProxy(url), method)(SESSIONS[user], *parameters)


def kind(text: str | None) -> str:
    if not text:
        return "empty"
    try:
        return "whole number" if float(text).is_integer() else "number"
    except ValueError:
        return "text"


def differences(recorded: etree._Element, ours: etree._Element, path: str = "") -> Iterator[str]:
    path = f"{path}/{recorded.tag!s}"
    if recorded.tag != ours.tag:
        yield f"{path}: {ours.tag!s} instead"
        return
    if [child.tag for child in recorded] != [child.tag for child in ours]:
        yield f"{path}: {[child.tag for child in ours]} instead of {[child.tag for child in recorded]}"
        return
    for child, our_child in zip(recorded, ours, strict=True):
        yield from differences(child, our_child, path)
    if len(recorded) == 0:
        if recorded.tag in BY_KIND:
            if kind(recorded.text) != kind(ours.text):
                yield f"{path}: {ours.text!r} is of another kind than {recorded.text!r}"
        elif (recorded.text or "") != (ours.text or ""):
            yield f"{path}: {ours.text!r} instead of {recorded.text!r}"


def compared_part(document: str) -> etree._Element:
    root = etree.fromstring(f"<document>{document}</document>", etree.XMLParser(strip_cdata=False))
    for path in LEFT_OUT:
        for element in list(root.iterfind(f".//{path}")):
            parent = element.getparent()
            assert parent is not None
            parent.remove(element)
    return root


def markup(document: etree._Element) -> str:
    """The document without its texts: what is left are tags and where CDATA stands."""
    in_cdata = re.sub(r"<!\[CDATA\[.*?\]\]>", "\0", etree.tostring(document, encoding="unicode"), flags=re.DOTALL)
    return re.sub(r">[^<\0]+<", "><", in_cdata)


def test_every_recorded_call_is_answered_as_recorded(recorded: tuple[str, str]) -> None:
    version, url = recorded
    found = []
    for row in json.loads((RECORDINGS / version / "calls.json").read_text()):
        name = row["file"]
        user = "alice" if ".as_alice." in name else "oneadmin"
        reply = call(url, row["method"], user, *row["params"])
        assert [type(item).__name__ for item in reply] == row["reply_items"], row
        assert reply[0] is row["success"]
        if name in NOT_COMPARED:
            continue
        if name.endswith(".txt"):
            assert reply[1] == (RECORDINGS / version / name).read_text().strip()
            continue
        expected = compared_part((RECORDINGS / version / name).read_text())
        ours = compared_part(reply[1])
        found += [f"{name}{text}" for text in differences(expected, ours)]
        if markup(expected) != markup(ours):
            found.append(f"{name}: CDATA stands elsewhere")
    assert found == []


def test_the_configuration_is_a_part_of_the_recorded_one(recorded: tuple[str, str]) -> None:
    version, url = recorded
    ours = etree.fromstring(call(url, "one.system.config", "oneadmin")[1])
    theirs = etree.fromstring((RECORDINGS / version / "system.config.xml").read_text())
    assert {child.tag for child in ours} <= {child.tag for child in theirs}
    assert [child.tag for child in ours] == sorted({str(child.tag) for child in ours})
    assert theirs.findtext("FEDERATION/ZONE_ID") == ours.findtext("FEDERATION/ZONE_ID")


def test_all_monitoring_records_have_the_recorded_form(recorded: tuple[str, str]) -> None:
    version, url = recorded
    ours = etree.fromstring(call(url, "one.hostpool.monitoring", "oneadmin", -1)[1])
    theirs = etree.fromstring((RECORDINGS / version / "hostpool.monitoring.all.xml").read_text())
    assert [child.tag for child in ours[0]] == [child.tag for child in theirs[0]]
