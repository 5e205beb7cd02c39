"""The scenarios once more, in which a VM, a host or a right is not as their authors thought: nothing else is expected.

Whatever state a VM is in, and whatever has vanished or changed hands, the cycle goes on, and no plan is refused by its
own check.
"""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from one_preempt.core.model.virtual_machine import LcmState
from tests import scenario_reader
from tests.core.test_scenarios import SCENARIOS

# So often each of them is altered.
ALTERED = int(os.environ.get("ONE_PREEMPT_ALTERED_SCENARIOS", "1"))

Alteration = Callable[[random.Random, dict[str, Any], dict[str, Any]], str]

_WAITING, _OUT = ("PENDING", "HOLD"), ("STOPPED", "UNDEPLOYED")
_STATES = (
    *(state.name for state in LcmState if state is not LcmState.LCM_INIT),
    *_WAITING, *_OUT, "SUSPENDED", "POWEROFF", "UNKNOWN", "RUNNING",
)  # fmt: skip
_HOST_STATES = ("ERROR", "DISABLED", "OFFLINE", "MONITORING_ERROR", "INIT", "MONITORING_DISABLED")


def another_state(chance: random.Random, document: dict[str, Any], vm: dict[str, Any]) -> str:
    state = vm["state"] = chance.choice(_STATES)
    host_id = vm.pop("host", None)
    if host_id is None:
        host_id = vm.pop("last_host", chance.choice(sorted(document["hosts"])))
    if state in _WAITING:
        return state
    vm["last_host" if state in _OUT else "host"] = host_id
    return state


def locked(chance: random.Random, _: dict[str, Any], vm: dict[str, Any]) -> str:
    level: str = chance.choice(("USE", "MANAGE", "ADMIN"))
    vm["lock"] = level
    return f"lock {level}"


def marked(_: random.Random, __: dict[str, Any], vm: dict[str, Any]) -> str:
    vm["resched"] = True
    return "marked to move"


def another_owner(chance: random.Random, _: dict[str, Any], vm: dict[str, Any]) -> str:
    vm["given_to"] = chance.choice(("eva", "evan", "lea", "paul"))
    return f"given to {vm['given_to']}"


def gone(_: random.Random, __: dict[str, Any], vm: dict[str, Any]) -> str:
    vm["gone"] = True
    return "gone"


def another_age(chance: random.Random, _: dict[str, Any], vm: dict[str, Any]) -> str:
    vm["running_for_s"] = chance.choice((-1000, 0, 1, 100, 100_000))
    return f"runs for {vm['running_for_s']} s"


def another_size(chance: random.Random, _: dict[str, Any], vm: dict[str, Any]) -> str:
    vm["cpu"] = chance.choice((0.1, 1, 3, 8))
    return f"{vm['cpu']} CPU"


def without_a_host(chance: random.Random, document: dict[str, Any], _: dict[str, Any]) -> str:
    if len(document["hosts"]) < 2:
        return "nothing"
    host_id = chance.choice(sorted(document["hosts"]))
    del document["hosts"][host_id]
    return f"without host {host_id}"


def another_host_state(chance: random.Random, document: dict[str, Any], _: dict[str, Any]) -> str:
    host_id, state = chance.choice(sorted(document["hosts"])), chance.choice(_HOST_STATES)
    document["hosts"][host_id] = {**(document["hosts"][host_id] or {}), "state": state}
    return f"host {host_id} {state}"


def paused(_: random.Random, document: dict[str, Any], __: dict[str, Any]) -> str:
    document["ledger"] = {**(document.get("ledger") or {}), "paused": True}
    return "paused"


def used_up_quota(chance: random.Random, document: dict[str, Any], _: dict[str, Any]) -> str:
    owner = chance.choice(("eva", "lea", "paul"))
    document["quotas"] = {owner: {"RUNNING_VMS": 1, "RUNNING_VMS_USED": chance.choice((0, 1))}}
    return f"quota of {owner}"


ALTERATIONS: tuple[Alteration, ...] = (
    another_state, another_state, another_state, locked, marked, another_owner, gone, another_age, another_size,
    without_a_host, another_host_state, another_host_state, paused, used_up_quota,
)  # fmt: skip


def altered(document: dict[str, Any], chance: random.Random) -> tuple[dict[str, Any], list[str]]:
    """The scenario with one thing otherwise, or a few; and what."""
    document, told = copy.deepcopy(document), []
    # What is written once for several VMs is altered for one of them.
    document["vms"] = {vm_id: dict(vm or {}) for vm_id, vm in document.get("vms", {}).items()}
    for _ in range(chance.choice((1, 1, 2, 3))):
        vm_id = chance.choice(sorted(document["vms"]))
        told.append(f"{vm_id}: {chance.choice(ALTERATIONS)(chance, document, document['vms'][vm_id])}")
    return document, told


@pytest.mark.parametrize("path", SCENARIOS, ids=[path.stem for path in SCENARIOS])
def test_whatever_is_otherwise_the_cycle_goes_on_by_a_plan_that_its_own_check_takes(path: Path) -> None:
    document = scenario_reader.load(path)
    if not document.get("vms"):
        return
    for number in range(ALTERED):
        other, told = altered(document, random.Random(f"{path.stem} {number}"))
        decided = scenario_reader.play(other)
        assert [violation.text for violation in decided.violations] == [], told
