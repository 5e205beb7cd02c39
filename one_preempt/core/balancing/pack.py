"""Packing: hosts are emptied, those with the fewest VMs first, onto hosts that stay in use."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from one_preempt.core.balancing.migrations import TRIES, Migrations
from one_preempt.core.model.plan import Placement
from one_preempt.core.model.virtual_machine import VirtualMachine

_Moved = tuple[VirtualMachine, int, Placement]


def pack(migrations: Migrations) -> Iterator[Placement]:
    """Migrations in order, host by host; a host is emptied as a whole or left as it is."""
    emptied: set[int] = set()
    received: set[int] = set()
    residents, load = migrations.residents, migrations.load
    in_use = [row for row, vm_ids in enumerate(residents) if vm_ids]
    order = sorted(in_use, key=lambda row: (len(residents[row]), int(load.load[row]), row))
    for source in order:
        closed = emptied | {source}
        if source not in received and _may_be_emptied(migrations, source):
            moved = _empty(migrations, source, [row for row in in_use if row not in closed])
            if moved:
                emptied.add(source)
                received.update(target for _, target, _ in moved)
                yield from (placement for _, _, placement in moved)


def _may_be_emptied(migrations: Migrations, source: int) -> bool:
    vm_ids = migrations.residents[source]
    return 0 < len(vm_ids) <= migrations.left and all(map(migrations.may_move, vm_ids))


def _empty(migrations: Migrations, source: int, targets: list[int]) -> list[_Moved]:
    """Move every VM of a host, the largest first, each to the fullest host that takes it; all or none."""
    mark = migrations.room.checkpoint()
    moved: list[_Moved] = []
    vms = [migrations.room.snapshot.vms[vm_id] for vm_id in migrations.residents[source]]
    for vm in sorted(vms, key=lambda vm: (-vm.memory_mib, -vm.cpu_centi, vm.id)):
        found = _to_the_fullest(migrations, vm, source, targets)
        if found is None:
            for earlier, target, _ in reversed(moved):
                migrations.take_back(earlier, source, target)
            migrations.room.rollback(mark)
            return []
        moved.append(found)
    return moved


def _to_the_fullest(migrations: Migrations, vm: VirtualMachine, source: int, targets: list[int]) -> _Moved | None:
    suits = migrations.targets(vm)
    rows = np.array([row for row in targets if suits[row]], dtype=np.int64)
    for row in rows[np.lexsort((rows, -migrations.load.load[rows]))][:TRIES].tolist():
        placement = migrations.try_move(vm, source, row)
        if placement is not None:
            return vm, row, placement
    return None
