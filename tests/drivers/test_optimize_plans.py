"""What `optimize` proposes, from the document to the plan."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path

import pytest
from lxml import etree

from one_preempt.configuration.settings import OptimizerSettings
from one_preempt.core.balancing.cluster_load import Weights
from one_preempt.core.balancing.migrations import UNLIMITED
from one_preempt.entrypoints.driver import optimizing
from one_preempt.entrypoints.driver.driver_process import Messages, answer
from one_preempt.entrypoints.driver.optimizing import optimize_cluster, wish_of
from tests.drivers.documents import document, host, line, places, vm

pytestmark = pytest.mark.usefixtures("configuration")
CLUSTER = "<CLUSTER><ID>0</ID><NAME>c</NAME><TEMPLATE><ONE_DRS>{}</ONE_DRS></TEMPLATE></CLUSTER>"
LEASE = "<LEASE><TYPE>BE-SUSPENDABLE</TYPE></LEASE>"


def running(vm_id: int, host_id: int, user_template: str = "") -> str:
    stay = (
        f"<HISTORY><SEQ>0</SEQ><HOSTNAME>node{host_id}</HOSTNAME><HID>{host_id}</HID><CID>0</CID><DS_ID>100</DS_ID>"
        "<ACTION>0</ACTION></HISTORY>"
    )
    pending = vm(vm_id, user_template=user_template).replace(
        "<STATE>1</STATE><LCM_STATE>0<", "<STATE>3</STATE><LCM_STATE>3<"
    )
    return pending.replace("<HISTORY_RECORDS/>", f"<HISTORY_RECORDS>{stay}</HISTORY_RECORDS>")


def stdin(wish: str, user_template: str = "") -> bytes:
    """Three VMs on host 1, one on host 2, none on host 3."""
    vms = {vm_id: running(vm_id, 1, user_template) for vm_id in (10, 11, 12)} | {20: running(20, 2)}
    hosts = {
        1: host(1, cpu_usage=300, vm_ids=(10, 11, 12)),
        2: host(2, cpu_usage=100, vm_ids=(20,)),
        3: host(3),
    }
    xml = document(vms, hosts)
    return line(
        xml.replace(b"<CLUSTER_POOL></CLUSTER_POOL>", f"<CLUSTER_POOL>{CLUSTER.format(wish)}</CLUSTER_POOL>".encode())
    )


def optimized(text: bytes) -> tuple[dict[int, tuple[str, int]], list[str]]:
    said = io.StringIO()
    plan = answer(0, lambda stream, messages: optimize_cluster(0, stream, messages), io.BytesIO(text), Messages(said))
    assert etree.fromstring(plan).findtext("ID") == "0"
    assert all(action.findtext("DS_ID") == "100" for action in etree.fromstring(plan).findall("ACTION"))
    return places(plan), said.getvalue().splitlines()


def test_balancing_is_what_is_done_as_shipped() -> None:
    assert optimized(stdin("")) == ({10: ("migrate", 3)}, [])


def test_one_drs_wins_over_the_configuration() -> None:
    assert optimized(stdin("<POLICY>pack</POLICY>")) == ({20: ("migrate", 1)}, [])
    assert optimized(stdin("<MIGRATION_THRESHOLD>0</MIGRATION_THRESHOLD>")) == ({}, [])


def test_leases_stay_where_they_are() -> None:
    assert optimized(stdin("", LEASE)) == ({}, [])


def test_promised_room_is_not_filled(tmp_path: Path) -> None:
    room = {"host_id": 3, "vm_id": 90, "cpu_centi": 400, "memory_mib": 1, "expires_at_s": int(time.time()) + 3600}
    (tmp_path / "held.json").write_text(json.dumps({"version": 1, "held": [room]}))
    assert optimized(stdin("")) == ({10: ("migrate", 2)}, [])


def test_a_plan_is_cut_short_when_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimizing, "OPTIMIZE_WITHIN_S", -1.0)
    moves, said = optimized(stdin(""))
    assert moves == {}
    assert said[0].startswith("WARN: time was up")


def wish(**said: str) -> tuple[str, int, Weights, str]:
    stream = io.StringIO()
    attributes = {f"ONE_DRS/{name}": (value,) for name, value in said.items()}
    found = wish_of(attributes, OptimizerSettings(), Messages(stream))
    return found.policy, found.limits.migrations, found.limits.weights, stream.getvalue()


def test_what_one_drs_may_say() -> None:
    assert wish() == ("balance", 10, Weights(100, 100), "")
    assert wish(POLICY="PACK", MIGRATION_THRESHOLD="-1") == ("pack", UNLIMITED, Weights(100, 100), "")
    assert wish(MIGRATION_THRESHOLD="7", HOST_MIGRATION_THRESHOLD="3")[1] == 3
    assert wish(CPU_WEIGHT="0.25", MEMORY_WEIGHT="0.75")[2] == Weights(25, 75)
    assert wish(CPU_WEIGHT="0", MEMORY_WEIGHT="0")[2] == Weights()


def test_what_one_drs_says_and_nobody_understands_is_told() -> None:
    policy, threshold, _, told = wish(POLICY="magic", MIGRATION_THRESHOLD="many", NET_WEIGHT="0.5")
    assert (policy, threshold) == ("balance", 10)
    assert [text.partition(" ")[2].partition(" ")[0] for text in told.splitlines()] == [
        "ONE_DRS/POLICY",
        "ONE_DRS/NET_WEIGHT",
        "ONE_DRS/MIGRATION_THRESHOLD",
    ]


POWER = "power:\n  mode: {}\n  hosts: [{{host: 'node*'}}]\n  model: {{idle_w: 100, peak_w: 200, off_w: 5}}\n"


def test_who_could_sleep_after_the_migrations_is_said_with_what_it_saves(configuration: Path) -> None:
    configuration.write_text(configuration.read_text() + POWER.format("advise"))
    moves, said = optimized(stdin("<POLICY>pack</POLICY>"))
    assert moves == {20: ("migrate", 1)}
    # Host 3 is empty, host 2 will be: 95 W each, and the 25 W of the VM that moves are drawn on host 1.
    advice = "in cluster 0 node2, node3 could sleep after 1 migration and save 190 W, 4.56 kWh a day"
    assert said == [f"INFO: {advice}; with power.mode: enforce the daemon does it"]
    configuration.write_text(configuration.read_text().replace("advise", "enforce"))
    assert optimized(stdin("<POLICY>pack</POLICY>"))[1][0].endswith("a day; the daemon sends idle hosts to sleep")
    # Balancing fills the only empty host.
    assert optimized(stdin(""))[1] == []
    configuration.write_text(configuration.read_text().replace("enforce", "off"))
    assert optimized(stdin("<POLICY>pack</POLICY>"))[1] == []


def test_a_plan_without_migrations_says_who_could_sleep_now(configuration: Path, tmp_path: Path) -> None:
    configuration.write_text(configuration.read_text() + POWER.format("advise"))
    (told,) = optimized(stdin("<MIGRATION_THRESHOLD>0</MIGRATION_THRESHOLD>"))[1]
    assert "node3 could sleep and save 95 W" in told
    room = {"host_id": 3, "vm_id": 90, "cpu_centi": 100, "memory_mib": 1, "expires_at_s": int(time.time()) + 3600}
    (tmp_path / "held.json").write_text(json.dumps({"version": 1, "held": [room]}))
    assert optimized(stdin("<MIGRATION_THRESHOLD>0</MIGRATION_THRESHOLD>"))[1] == []
