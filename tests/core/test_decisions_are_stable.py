"""The same cloud gives the same plan, in whatever order its documents name hosts, VMs, datastores and networks."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.configuration.chosen_policies import admission_rules
from one_preempt.core.decide import decide
from one_preempt.core.model.host import Host
from one_preempt.core.model.ledger import Ledger
from one_preempt.core.model.plan import Plan
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.reconcile import reconcile
from one_preempt.core.verify import verify
from tests import scenario_reader

ROOT = Path(__file__).parents[2]
RANKS = ("", "FREE_CPU", "- RUNNING_VMS", "SPEED", "SPEED *")
REQUIREMENTS = ("", "", "SPEED > 1", "CURRENT_VMS != 1", 'RACK = "a*" | CURRENT_VMS = 2', "ID != 0")

sizes = st.sampled_from((0.5, 1, 1, 2))
hosts = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from((1, 2, 2, 4)),
        "attributes": st.fixed_dictionaries({"SPEED": st.integers(1, 2), "RACK": st.sampled_from(("a1", "b1"))}),
        "gpus": st.lists(st.just(-1), max_size=1),
        "datastores": st.dictionaries(st.just(101), st.sampled_from((300, 3000)), max_size=1),
    }
)
running: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "host": st.integers(0, 5),
        "user": st.sampled_from(("eva", "evan", "paul")),
        "cpu": st.just(0.5),
        "resched": st.sampled_from((False, False, True)),
    }
)
pending: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "user": st.sampled_from(("lea", "eva", "paul")),
        "cpu": sizes,
        "priority": st.sampled_from(("", "", "1")),
        "rank": st.sampled_from(RANKS),
        "requirements": st.sampled_from(REQUIREMENTS),
        "gpus": st.sampled_from((0, 0, 0, 1)),
        "nics": st.lists(st.just({}), max_size=1),
        "disks": st.lists(st.just({"size": 200}), max_size=1),
    },
    optional={"group": st.sampled_from(([7, "apart"], [7, "together"]))},
)


@st.composite
def clouds(draw: st.DrawFn) -> dict[str, Any]:
    given_hosts = draw(st.lists(hosts, min_size=1, max_size=5))
    vms = [vm for vm in draw(st.lists(running, max_size=5)) if vm["host"] < len(given_hosts)]
    vms += draw(st.lists(pending, min_size=1, max_size=6))
    return {
        "hosts": dict(enumerate(given_hosts)),
        "vms": dict(enumerate(vms, start=1)),
        "datastores": {100: {"free": 500_000}, 101: {"shared": False}, 102: {"free": 500_000}},
        "networks": {5: {"size": 2}, 6: {"size": 2}},
        "vm_groups": {7: {"roles": {"apart": {"policy": "ANTI_AFFINED"}, "together": {"policy": "AFFINED"}}}},
        "settings": {"matchmaker": {"max_dispatch": draw(st.sampled_from((0, 2))), "max_host": 0}},
    }


def shuffled(snapshot: PoolSnapshot, seed: int) -> PoolSnapshot:
    """The same pools with their objects, and the members of hosts, in another order."""
    chance = random.Random(seed)

    def turned(pool: Any) -> Any:
        items = list(pool.items())
        chance.shuffle(items)
        return dict(items)

    def mixed(host: Host) -> Host:
        return replace(host, vm_ids=tuple(chance.sample(host.vm_ids, len(host.vm_ids))))

    pools: dict[str, Any] = {"hosts": {host_id: mixed(host) for host_id, host in snapshot.hosts.items()}}
    pools |= {name: getattr(snapshot, name) for name in ("vms", "clusters", "datastores", "networks", "vm_groups")}
    return PoolSnapshot(
        observed_at_s=snapshot.observed_at_s,
        version=snapshot.version,
        zone_id=snapshot.zone_id,
        raft_state=snapshot.raft_state,
        directory=snapshot.directory,
        **{name: turned(pool) for name, pool in pools.items()},
    )


def decided(document: dict[str, Any], snapshot: PoolSnapshot) -> Plan:
    chosen = scenario_reader.settings_of(document)
    state = reconcile(snapshot, Ledger(), admission_rules(chosen), scenario_reader.NOW_S).state
    plan = decide(state, scenario_reader.policies_of(document))
    assert verify(state, plan) == ()
    return plan


@given(clouds(), st.integers(0, 2**32))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_the_order_of_the_documents_changes_nothing(document: dict[str, Any], seed: int) -> None:
    snapshot = scenario_reader.snapshot_of(document)

    assert decided(document, shuffled(snapshot, seed)) == decided(document, snapshot)


PRINT_PLANS = """
from tests.core import test_decisions_are_stable as stable
from tests import scenario_reader
hosts = {number: {"gpus": [-1]} for number in range(9)}
vms = {number: {"nics": [{}], "user": ("paul", "lea", "eva")[number % 3]} for number in range(1, 25)}
document = {"hosts": hosts, "vms": vms, "networks": {number: {} for number in range(9)}}
print(stable.decided(document, scenario_reader.snapshot_of(document)))
"""


def test_another_hash_seed_changes_nothing_where_all_are_equal() -> None:
    plans = {
        subprocess.run(
            [sys.executable, "-c", PRINT_PLANS],
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(plans) == 1
    assert plans.pop().count("ActionKind.DEPLOY") >= 9
