"""One user with thousands of leases: the work grows with their number, and everybody else is served as before."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from one_preempt.adapters.recorded.recorded_pool_reader import RecordedPoolReader
from one_preempt.configuration.chosen_policies import admission_rules, policies
from one_preempt.configuration.settings import parse_settings
from one_preempt.core.decide import decide
from one_preempt.core.model.ledger import Ledger
from one_preempt.core.model.plan import ActionKind, Plan
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.virtual_machine import VirtualMachine, VmState
from one_preempt.core.reconcile import reconcile
from one_preempt.core.verify import verify
from tests.counted_work import lines_run
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


def crowded(lease: Callable[[int], dict[str, str]], vm_ids: range = CROWD) -> PoolSnapshot:
    """The recorded cloud with one more user's VMs, older than anybody else's that wait."""
    pattern = next(vm for vm in recorded().vms.values() if vm.state is VmState.PENDING)
    more: dict[int, VirtualMachine] = {
        vm_id: replace(
            pattern, id=vm_id, uid=77, gid=1, uname="crowd", gname="users", state=VmState.HOLD, submitted_at_s=1,
            user_template={"LEASE": ({"TYPE": "BE-SUSPENDABLE", **lease(vm_id)},)}, memory_mib=2**40,
        )
        for vm_id in vm_ids
    }  # fmt: skip
    return replace(recorded(), vms={**recorded().vms, **more})


def decided(snapshot: PoolSnapshot) -> Plan:
    state = reconcile(snapshot, Ledger(), admission_rules(CHOSEN), snapshot.observed_at_s).state
    plan = decide(state, policies(CHOSEN))
    assert verify(state, plan) == ()
    return plan


def deployed(plan: Plan) -> set[int]:
    return {action.vm_id for action in plan.actions if action.kind is ActionKind.DEPLOY}


@pytest.mark.parametrize("lease", LEASES.values(), ids=LEASES.keys())
def test_a_crowd_of_leases_keeps_nobody_waiting(lease: Callable[[int], dict[str, str]]) -> None:
    assert deployed(decided(crowded(lease))) == deployed(decided(recorded())) != set()


def lines_to_decide(snapshot: PoolSnapshot) -> int:
    decided(snapshot)  # What is read once and remembered, such as an owner's words, is no part of the comparison.
    return lines_run(lambda: decided(snapshot))


@pytest.mark.parametrize("lease", LEASES.values(), ids=LEASES.keys())
def test_twice_the_crowd_is_twice_the_work(lease: Callable[[int], dict[str, str]]) -> None:
    """Each against all others would be four times the work."""
    assert lines_to_decide(crowded(lease, CROWD[:800])) < 2.1 * lines_to_decide(crowded(lease, CROWD[:400]))
