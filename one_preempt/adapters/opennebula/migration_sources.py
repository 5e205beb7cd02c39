"""Which host a VM leaves that migrates: pools show its last stay alone, which is where it goes.

While it runs or is saved there, oned charges that host too. While its disks are copied, oned neither lists
it there nor charges for it, and yet the host is needed until the copy is over. So oned is asked about each of
them, once a migration.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.virtual_machine import MIGRATING, VirtualMachine, VmState
from one_preempt.ports import VmNotTold


class MigrationSources:
    """What was answered is kept while the migration lasts: a record of where a VM was does not change."""

    def __init__(self, read_vm: Callable[[int], VirtualMachine | None]) -> None:
        """`read_vm` reads one VM with all its history, as `ports.PoolReader` has it."""
        self._read_vm = read_vm
        self._known: dict[tuple[int, int], int] = {}

    def with_sources(self, snapshot: PoolSnapshot) -> PoolSnapshot:
        """The same with the host that each migrating VM leaves. Raises `CloudUnavailable`.

        A VM of which that is not told counts as unreadable: nobody knows which host it needs.
        """
        moving = [vm for vm in snapshot.vms.values() if is_migrating(vm)]
        if not moving:
            self._known.clear()
            return snapshot
        vms, unreadable, problems = dict(snapshot.vms), set(snapshot.unreadable_vm_ids), list(snapshot.problems)
        known: dict[tuple[int, int], int] = {}
        for vm in moving:
            migration = (vm.id, vm.history[-1].sequence)
            try:
                source_id = self._known[migration] if migration in self._known else self._source_of(vm)
            except VmNotTold as error:
                del vms[vm.id]
                unreadable.add(vm.id)
                problems.append(f"VM {vm.id} leaves a host that is not known: {error}")
                continue
            if source_id is not None:
                known[migration] = source_id
                vms[vm.id] = replace(vm, source_host_id=source_id)
        self._known = known
        return replace(
            snapshot,
            vms=vms,
            unreadable_vm_ids=frozenset(unreadable),
            untraced_vm_ids=snapshot.untraced_vm_ids | (unreadable - snapshot.unreadable_vm_ids),
            problems=tuple(problems),
        )

    def _source_of(self, vm: VirtualMachine) -> int | None:
        """None where the VM is gone by now, or its migration is over."""
        shown = self._read_vm(vm.id)
        if shown is None:
            return None
        before = [stay.host_id for stay in shown.history if stay.sequence == vm.history[-1].sequence - 1]
        return before[0] if before else None


def is_migrating(vm: VirtualMachine) -> bool:
    """It is on its way from host to host, or the copying of its disks failed and may be tried again."""
    return vm.state is VmState.ACTIVE and vm.lcm_state in MIGRATING and bool(vm.history)
