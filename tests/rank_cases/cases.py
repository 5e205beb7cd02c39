"""The 320 documents that OpenNebula's own `rank` answered, and its answers."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lxml import etree

RECORDED = Path(__file__).parents[1] / "recordings" / "rank-cases.jsonl.gz"
DEVICES = 8
NUMA = 9

Action = tuple[int, str, int, int, tuple[tuple[int, int], ...]]


@dataclass(frozen=True)
class Case:
    """One document with the configuration under which `rank` answered it."""

    seed: int
    kind: int
    conf: Mapping[str, int | float | str]
    document: str
    plan: str

    @property
    def name(self) -> str:
        return f"{self.seed}-{self.kind}"

    @property
    def stdin(self) -> bytes:
        return base64.b64encode(self.document.encode()) + b"\n"

    @property
    def rank_conf(self) -> str:
        """The rank.conf of the case, in the form of the shipped one."""
        return (
            "# Maximum number of VMs dispatched to a host in each scheduling action\n"
            f"MAX_HOST = {self.conf['max_host']}\n\n"
            f"DEFAULT_SCHED = [\n   POLICY = {self.conf['sched']}\n]\n\n"
            f"DEFAULT_DS_SCHED = [\n   POLICY = {self.conf['ds']}\n]\n\n"
            f"DEFAULT_NIC_SCHED = [\n   POLICY = {self.conf['nic']}\n]\n\n"
            f'DIFFERENT_VNETS = "{self.conf["diff"]}"\n'
            f"MEMORY_SYSTEM_DS_SCALE = {self.conf['scale']}\n\n"
            'LOG = [\n  SYSTEM      = "file",\n  DEBUG_LEVEL = 3\n]\n'
        )


@cache
def cases() -> tuple[Case, ...]:
    with gzip.open(RECORDED, "rt", encoding="utf-8") as lines:
        return tuple(
            Case(case["seed"], case.get("kind", case["seed"] % 8), case["conf"], case["stdin_xml"], case["plan"])
            for case in map(json.loads, lines)
        )


def actions(plan: str | bytes) -> frozenset[Action]:
    """The actions of a plan, each with all that oned wants."""
    root = etree.fromstring(plan.encode() if isinstance(plan, str) else plan)
    assert root.tag == "PLAN"
    assert root.findtext("ID") == "-1"
    return frozenset(map(_action, root.findall("ACTION")))


def _action(action: etree._Element) -> Action:
    networks = ((int(nic.findtext("NIC_ID", "")), int(nic.findtext("NETWORK_ID", ""))) for nic in action.findall("NIC"))
    host_id, datastore_id = int(action.findtext("HOST_ID", "")), int(action.findtext("DS_ID", ""))
    operation = action.findtext("OPERATION", "")
    return int(action.findtext("VM_ID", "")), operation, host_id, datastore_id, tuple(sorted(networks))
