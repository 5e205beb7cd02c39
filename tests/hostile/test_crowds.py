"""One user with thousands of leases: the time grows with their number, and everybody else is served as before."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import yaml

from one_preempt.adapters.recorded.recorded_pool_reader import RecordedPoolReader
from one_preempt.chosen_policies import admission_rules, policies
from one_preempt.core.decide import decide
from one_preempt.core.model.ledger import Ledger
from one_preempt.core.model.plan import ActionKind, Plan
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.virtual_machine import VirtualMachine, VmState
from one_preempt.core.reconcile import reconcile
from one_preempt.core.verify import verify
from one_preempt.settings import parse_settings
from tests.stories.world import SETTINGS

CROWD = range(1000, 4000)
RIGHTS = {"rights": [{"name": "crowd", "user": "crowd", "may_claim": ["BE-SUSPENDABLE"]}]}
CHOSEN = parse_settings(yaml.safe_dump({**SETTINGS, "leases": RIGHTS}), "one_preempt.conf")

LEASES: dict[str, Callable[[int], dict[str, str]]] = {
    "one each": lambda vm_id: {},
    "a name each": lambda vm_id: {"NAME": f"n{vm_id}"},
    "gangs that lack a VM": lambda vm_id: {"NAME": f"n{vm_id}", "SIZE": "2"},
    "one name with other terms each": lambda vm_id: {"NAME": "n", "SIZE": "2", "DURATION": f"{vm_id}:00:00"},
    "gangs of two": lambda vm_id: {"NAME": f"n{vm_id // 2}", "SIZE": "2"},
    "one gang of all": lambda vm_id: {"NAME": "n", "SIZE": str(len(CROWD))},
    "a gang that is too large": lambda vm_id: {"NAME": "n", "SIZE": "10000"},
    "a gang beyond all measure": lambda vm_id: {"NAME": "n", "SIZE": "9" * 12},
    "a mistake each": lambda vm_id: {"NAME": f"\x1b[{vm_id}m"},
}


@cache
def recorded() -> PoolSnapshot:
    return RecordedPoolReader(Path(__file__).resolve().parents[1] / "recordings" / "7.4.0").read()


def crowded(lease: Callable[[int], dict[str, str]]) -> PoolSnapshot:
    """The recorded cloud with one more user's VMs, older than anybody else's that wait."""
    pattern = next(vm for vm in recorded().vms.values() if vm.state is VmState.PENDING)
    more: dict[int, VirtualMachine] = {
        vm_id: replace(
            pattern, id=vm_id, uid=77, gid=1, uname="crowd", gname="users", state=VmState.HOLD, submitted_at_s=1,
            user_template={"LEASE": ({"TYPE": "BE-SUSPENDABLE", **lease(vm_id)},)}, memory_mib=2**40,
        )
        for vm_id in CROWD
    }  # fmt: skip
    return replace(recorded(), vms={**recorded().vms, **more})


def decided(snapshot: PoolSnapshot) -> tuple[Plan, float]:
    """The plan, and the CPU time that it took."""
    started_s = time.process_time()
    state = reconcile(snapshot, Ledger(), admission_rules(CHOSEN), snapshot.observed_at_s).state
    plan = decide(state, policies(CHOSEN))
    took_s = time.process_time() - started_s
    assert verify(state, plan) == ()
    return plan, took_s


def deployed(plan: Plan) -> set[int]:
    return {action.vm_id for action in plan.actions if action.kind is ActionKind.DEPLOY}


@pytest.mark.parametrize("lease", LEASES.values(), ids=LEASES.keys())
def test_a_crowd_of_leases_costs_little_and_keeps_nobody_waiting(lease: Callable[[int], dict[str, str]]) -> None:
    alone, _ = decided(recorded())
    plan, took_s = decided(crowded(lease))
    assert deployed(plan) == deployed(alone) != set()
    assert took_s < 2.5, "each against all others takes three times as long"
