"""Balancing: from the fullest host to where a VM makes the load more even, as long as that is worth a migration."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from one_preempt.core.balancing.cluster_load import FULL
from one_preempt.core.balancing.migrations import TRIES, Migrations
from one_preempt.core.model.plan import Placement

WORTH_MOVING = FULL // 20
"""A VM moves only where it leaves its new host emptier than its old one was by this much: 5 % of a host."""


def balance(migrations: Migrations) -> Iterator[Placement]:
    """Migrations in order; each makes the sum of squared loads smaller.

    A host from which nothing could be moved is not looked at again.
    """
    done: set[int] = set()
    while migrations.left:
        load = migrations.load.load
        source = next((int(row) for row in np.lexsort((np.arange(len(load)), -load)) if int(row) not in done), None)
        if source is None or load[source] - load.min() < WORTH_MOVING:
            return
        moved = _move_one(migrations, source)
        if moved is None:
            done.add(source)
        else:
            yield moved


def _move_one(migrations: Migrations, source: int) -> Placement | None:
    """The migration from one host that helps most and that every rule allows."""
    for _, vm_id, target in _improvements(migrations, source)[:TRIES]:
        moved = migrations.try_move(migrations.room.snapshot.vms[vm_id], source, target)
        if moved is not None:
            return moved
    return None


def _improvements(migrations: Migrations, source: int) -> list[tuple[int, int, int]]:
    """(minus the gain, VM id, row) of what could be moved, best first."""
    load = migrations.load
    found: list[tuple[int, int, int]] = []
    for vm_id in migrations.residents[source]:
        if not migrations.may_move(vm_id):
            continue
        vm = migrations.room.snapshot.vms[vm_id]
        gains = load.spread_gains(vm.resources, source)
        worth = load.load[source] - load.arrived(vm.resources) >= WORTH_MOVING
        rows = np.flatnonzero(migrations.targets(vm) & worth & (gains > 0))
        best = rows[np.lexsort((rows, -gains[rows]))][:TRIES]
        found.extend((-int(gains[row]), vm_id, int(row)) for row in best)
    return sorted(found)
