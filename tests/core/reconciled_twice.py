"""What a cycle reconciles, reconciled again: from scratch, and on the footing of the last one, whether told or not.

All must be the same, and what is said to have stayed as it was must be the very same objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

import numpy as np
from msgspec.structs import replace

from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
from one_preempt.core.admission.rules import AdmissionRules
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.ledger import Ledger
from one_preempt.core.model.plan import Action, ActionKind, Plan, Reason
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.reconcile import Reconciliation, reconcile
from one_preempt.core.verify.recounter import Recounter
from one_preempt.ports import PoolReader

_Value = TypeVar("_Value")


class SeenReader:
    """A reader of which the last snapshot can be looked at."""

    def __init__(self, reader: PoolReader) -> None:
        self._reader = reader
        self.read_raft_state = reader.read_raft_state
        self.read_vm = reader.read_vm
        self.seen: PoolSnapshot | None = None

    def read(self) -> PoolSnapshot:
        """All pools, in mappings of their own."""
        seen = self._reader.read()
        self.seen = replace(seen, vms=dict(seen.vms), hosts=dict(seen.hosts))
        return seen


class SeenStore(MemoryLeaseStore):
    """A store of which the last ledger can be looked at; it hands out copies."""

    def load(self, now_s: int) -> Ledger:
        """What the cycle needs to know."""
        self.loaded = super().load(now_s)
        return self.loaded


class ReconciledTwice:
    """Compares what cycles reconcile, one after the other."""

    def __init__(self, rules: AdmissionRules) -> None:
        self._rules = rules
        self._snapshot: PoolSnapshot | None = None
        self._ledger = Ledger()
        self._last: ClusterState | None = None
        self._recounter = Recounter(from_scratch_every=1)
        self.at_s: int | None = None

    def differences(self, snapshot: PoolSnapshot, ledger: Ledger, state: ClusterState) -> Iterator[str]:
        """What is not as reconciled from scratch: in `state`, and in what was made of a footing."""
        told_snapshot, told_ledger = snapshot, ledger
        if self._snapshot is not None:
            told_snapshot = replace(
                snapshot,
                changed_vm_ids=_changed(self._snapshot.vms, snapshot.vms),
                changed_host_ids=_changed(self._snapshot.hosts, snapshot.hosts),
            )
            leases = _changed(self._ledger.leases, ledger.leases)
            told_ledger = replace(
                ledger, changed_lease_ids=leases | _changed(self._ledger.reservations, ledger.reservations)
            )
        yield from _untold(snapshot, told_snapshot, ledger, told_ledger)
        untold = replace(snapshot, changed_vm_ids=None, changed_host_ids=None)
        fresh = self._reconciled(untold, ledger, state.now_s, None)
        yield from ("from scratch: " + text for text in _state_differences(fresh.state, state))
        for name, seen, known in (("told", told_snapshot, told_ledger), ("untold", untold, ledger)):
            again = self._reconciled(seen, known, state.now_s, self._last)
            yield from (f"{name}: {text}" for text in _state_differences(fresh.state, again.state))
            if again.changes != fresh.changes:
                yield f"{name}: the changes are {again.changes} instead of {fresh.changes}"
            if name == "told":
                yield from _stale(self._last, again.state)
        # As a cycle goes on from what was made of a footing, so does this.
        self._last = self._reconciled(told_snapshot, told_ledger, state.now_s, self._last).state
        yield from _untold_to_the_recount(self._recounter, self._last)
        self._snapshot, self._ledger, self.at_s = snapshot, ledger, state.now_s

    def _reconciled(
        self, snapshot: PoolSnapshot, ledger: Ledger, now_s: int, last: ClusterState | None
    ) -> Reconciliation:
        return reconcile(snapshot, ledger, self._rules, now_s, self.at_s, last=last)


def _untold_to_the_recount(recounter: Recounter, state: ClusterState) -> Iterator[str]:
    """What the books of the recount have otherwise than it is; the plan is one for which it looks at all of them."""
    start = Action("start", ActionKind.DEPLOY, vm_id=1, lease_id=1, reason=Reason("test", "test"), host_id=0)
    violations = recounter.verify(state, Plan(state.now_s, "test", (start,)))
    yield from (f"recounted: {one.text}" for one in violations if one.code == "changes-untold")


def _changed(before: Mapping[int, _Value], now: Mapping[int, _Value]) -> frozenset[int]:
    return frozenset(one for one in before.keys() | now.keys() if before.get(one) is not now.get(one))


def _untold(snapshot: PoolSnapshot, told_snapshot: PoolSnapshot, ledger: Ledger, told_ledger: Ledger) -> Iterator[str]:
    """What reader and store keep back where they tell what changed."""
    for told, changed in (
        (snapshot.changed_vm_ids, told_snapshot.changed_vm_ids),
        (snapshot.changed_host_ids, told_snapshot.changed_host_ids),
        (ledger.changed_lease_ids, told_ledger.changed_lease_ids),
    ):
        if told is not None and changed is not None and not changed <= told:
            yield f"{sorted(changed - told)} changed, and is not told of"


def _state_differences(fresh: ClusterState, kept: ClusterState) -> Iterator[str]:
    for name in ClusterState.__struct_fields__:
        one, other = getattr(fresh, name), getattr(kept, name)
        if name == "hosts":
            same = one.hosts == other.hosts and one.index_by_id == other.index_by_id
            same = same and all(
                np.array_equal(getattr(one, name), getattr(other, name))
                for name in ("ids", "free", "capacity", "accepts_vms")
            )
        elif name in ("leases", "records"):
            same = list(one.items()) == list(other.items())
        else:
            same = name in ("snapshot", "changed_lease_ids") or one == other
        if not same:
            yield f"{name} is {other} instead of {one}"


def _stale(last: ClusterState | None, state: ClusterState) -> Iterator[str]:
    """Leases that are said to have stayed, and are another object or have other VMs."""
    if last is None or state.changed_lease_ids is None:
        return
    for lease_id in last.leases.keys() | state.leases.keys():
        lease = state.leases.get(lease_id)
        if lease_id in state.changed_lease_ids:
            continue
        if lease is None or lease is not last.leases.get(lease_id):
            yield f"lease {lease_id} is not told to have changed"
        elif any(state.snapshot.vms[vm_id] is not last.snapshot.vms[vm_id] for vm_id in lease.vm_ids):
            yield f"lease {lease_id} is not told to have changed VMs"
