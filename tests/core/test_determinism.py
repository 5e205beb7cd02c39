"""The same cloud gives the same plan, in whatever order its parts are read and whatever the hash seed is."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest
from msgspec import Struct
from msgspec.structs import replace

from one_preempt.configuration.chosen_policies import admission_rules
from one_preempt.core.decide import decide
from one_preempt.core.model.ledger import LedgerChanges
from one_preempt.core.model.plan import Plan
from one_preempt.core.reconcile import reconcile
from one_preempt.core.verify import verify
from tests import scenario_reader

ROOT = Path(__file__).parent.parent.parent
SCENARIOS = sorted((ROOT / "tests" / "scenarios").glob("*.yaml"))
LEASES = (
    {"TYPE": "BE-SUSPENDABLE"},
    {"TYPE": "BE-CANCELLABLE"},
    {"TYPE": "DC-MIGRATABLE"},
    {"TYPE": "BE-SUSPENDABLE", "NAME": "pair", "SIZE": "2"},
)

Part = TypeVar("Part", bound=Struct)
Decision = tuple[Plan, LedgerChanges]


def test_a_scenario_is_decided_alike_however_its_parts_are_ordered() -> None:
    for path in SCENARIOS:
        document = scenario_reader.load(path)
        assert decision(document, Random(path.name)) == decision(document), path.name


@pytest.mark.parametrize("seed", range(6))
def test_a_crowded_cloud_of_equals_is_decided_alike_however_its_parts_are_ordered(seed: int) -> None:
    """Everything ties with everything: hosts, victims, waiting requests. Only ids can tell them apart."""
    document = crowded_cloud(Random(seed))
    plan, changes = decision(document)
    assert plan.preemptions, "a cloud in which nothing has to be chosen shows nothing"
    for order in range(4):
        assert decision(document, Random(order)) == (plan, changes)


def test_the_hash_seed_makes_no_difference_and_nothing_slow_is_imported_on_the_way() -> None:
    """`place` is started for one decision: numpy.ma would take as long to import as that takes."""
    told = {seed: _told_by_a_process(seed) for seed in ("0", "4711")}
    assert len(set(told.values())) == 1, told
    assert told["0"].endswith("numpy.ma: False"), "numpy.unique without indices imports it; see core/distinct.py"


def decision(document: dict[str, Any], shuffle: Random | None = None) -> Decision:
    """What a cycle writes down and plans; `shuffle` puts every mapping of what it knows into another order."""
    settings = scenario_reader.settings_of(document)
    snapshot = scenario_reader.snapshot_of(document)
    ledger = scenario_reader.ledger_of(document, snapshot)
    if shuffle is not None:
        directory = _reordered(snapshot.directory, shuffle)
        snapshot = replace(_reordered(snapshot, shuffle), directory=directory)
        ledger = _reordered(ledger, shuffle)
    reconciled = reconcile(snapshot, ledger, admission_rules(settings), scenario_reader.NOW_S)
    state = reconciled.state if shuffle is None else _reordered(reconciled.state, shuffle)
    plan = decide(state, scenario_reader.policies_of(document))
    assert verify(state, plan) == ()
    return plan, reconciled.changes


def _reordered(part: Part, shuffle: Random) -> Part:
    """`part` with each mapping among its fields in another order."""
    changed: dict[str, Any] = {}
    for name in part.__struct_fields__:
        value = getattr(part, name)
        if isinstance(value, Mapping):
            keys = list(value)
            shuffle.shuffle(keys)
            changed[name] = {key: value[key] for key in keys}
    return replace(part, **changed)


def crowded_cloud(shuffle: Random) -> dict[str, Any]:
    """Full hosts, leases of all types, plain VMs and privileged requests that wait."""
    hosts = {host_id: {"cpu": 4} for host_id in range(6)}
    vms: dict[int, dict[str, Any]] = {}
    for vm_id in range(24):
        lease = shuffle.choice(LEASES[:3])
        vms[vm_id] = {"user": shuffle.choice(("eva", "evan")), "host": vm_id % 6, "lease": lease}
    for vm_id in (24, 25):
        vms[vm_id] = {"user": "eva", "state": "HOLD", "lease": LEASES[3]}
    for vm_id in range(26, 36):
        vms[vm_id] = {"user": shuffle.choice(("lea", "paul")), "cpu": shuffle.choice((1, 2))}
    vms[36] = {"user": "lea", "cpu": 2}
    return {"hosts": hosts, "vms": vms}


def digest() -> str:
    """All decisions of this module in one line, and whether they import numpy.ma, for another process."""
    documents = [scenario_reader.load(path) for path in SCENARIOS]
    documents += [crowded_cloud(Random(seed)) for seed in range(6)]
    decided = hashlib.sha256(repr([decision(document) for document in documents]).encode()).hexdigest()
    return f"{decided} numpy.ma: {'numpy.ma' in sys.modules}"


def _told_by_a_process(hash_seed: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", "from tests.core.test_determinism import digest; print(digest())"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()
