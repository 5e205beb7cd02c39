"""The recorded wrong calls and boundary cases, made again over the socket in their order: the same codes and texts."""

from __future__ import annotations

import json
import xmlrpc.client
from pathlib import Path
from typing import Any

import pytest

from one_preempt.simulation.emulator.process import shipped_cloud
from one_preempt.simulation.emulator.serving import running_emulator
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN

RECORDINGS = Path(__file__).parents[2] / "recordings"

WRONG_SESSIONS = {
    "wrong password": "oneadmin:wrong",
    "unknown user": "nobody:opennebula",
    "malformed session string": "oneadmin",
}
BY_ALICE = {"allocate over quota", "allocate over the cpu quota", "allocate within quota"}
BY_BOB = {
    "deploy a locked vm as another user",
    "action by a user without rights",
    "deploy by an ordinary user",
    "host pool by ordinary user",
}
# Recorded while the call before was still under way: no time passes in between.
AT_ONCE = {
    "7.4.0": {"action on a vm in the middle of another action"},
    "6.10.0": {
        "migrate a pending vm",
        "migrate a stopped vm",
        "live migrate a poweroff vm",
        "migrate to host in another cluster",
        "migrate an unpinned vm with enforce",
    },
}
# Rows that are not compared, and why.
NOT_COMPARED = {
    "7.4.0": {"infoset with an unknown id": "a document, compared with the other documents"},
    "6.10.0": {
        "infoset with an unknown id": "a document, compared with the other documents",
        "suspend a vm that was deployed to a disabled host a moment earlier (still starting or already running)": (
            "recorded in the instant of BOOT; here no time is that short"
        ),
        "resume that same vm once suspended": "follows from that row",
        "action on a vm in the middle of another action": "the recording machine was done already",
    },
}
# Rows whose text is the parser's: only code and object are compared.
OTHER_WORDS = {"update with bad syntax"}


def boundary_cloud(version: str) -> SimulatedCloud:
    """The recorded cloud and the two VMs on hold that were added for the boundary cases."""
    cloud = shipped_cloud("recorded", version)
    cloud.vm_allocate(ONEADMIN, 'NAME = "far-too-big"\nCPU = "1000"\nMEMORY = "1024"', hold=True)
    cloud.vm_allocate(ONEADMIN, 'NAME = "over-quota"\nCPU = "60"\nMEMORY = "1024"', hold=True)
    return cloud


def session_of(what: str) -> str:
    if what in WRONG_SESSIONS:
        return WRONG_SESSIONS[what]
    if what in BY_ALICE:
        return "alice:alice"
    return "bob:bob" if what in BY_BOB else "oneadmin:opennebula"


def outcome(url: str, row: dict[str, Any]) -> Any:
    try:
        return getattr(xmlrpc.client.ServerProxy(url), row["method"])(session_of(row["what"]), *row["params"])
    except xmlrpc.client.Fault as fault:
        return [fault.faultCode, fault.faultString]


def recorded_outcome(row: dict[str, Any]) -> Any:
    return row["reply"] if "reply" in row else [row["fault_code"], row["fault_string"]]


@pytest.mark.parametrize("version", ["7.4.0", "6.10.0"])
def test_every_recorded_refusal_is_given_as_recorded(version: str) -> None:
    cloud = boundary_cloud(version)
    different = []
    with running_emulator(cloud) as url:
        for row in json.loads((RECORDINGS / version / "errors.json").read_text()):
            what = row["what"]
            if what not in AT_ONCE[version]:
                cloud.settle()
            expected, ours = recorded_outcome(row), outcome(url, row)
            if what in OTHER_WORDS:
                expected[1] = ours[1]
            if what not in NOT_COMPARED[version] and expected != ours:
                different.append(f"{what}: {ours} instead of {expected}")
    assert different == []
    assert cloud.audit() == []
