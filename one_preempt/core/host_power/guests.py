"""Who is on each host, remembered for VMs of which nothing has changed."""

from __future__ import annotations

from collections.abc import KeysView

from one_preempt.core.model.host import Host
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.virtual_machine import VirtualMachine

_NOBODY: frozenset[int] = frozenset()


class Guests:
    """The VMs on hosts by their own account: all that hold capacity there, or are moved or copied from or to it.

    Every snapshot of a reader that tells what changed is observed in turn.
    """

    def __init__(self) -> None:
        self._snapshot: PoolSnapshot | None = None
        self._seen: dict[int, VirtualMachine] = {}
        self._places: dict[int, tuple[int, ...]] = {}
        self._vms_on: dict[int, set[int]] = {}

    def observe(self, snapshot: PoolSnapshot) -> None:
        """Look at the VMs that came, went or changed; nothing to do for the snapshot that was observed last."""
        if snapshot is self._snapshot:
            return
        told = snapshot.changed_vm_ids if self._snapshot is not None else None
        seen, vms = self._seen, snapshot.vms
        changed = (seen.keys() | vms.keys()) if told is None else told
        for vm_id in changed:
            vm = vms.get(vm_id)
            if seen.get(vm_id) is not vm:
                self._note(vm_id, vm)
        self._snapshot = snapshot

    def on(self, host: Host) -> frozenset[int]:
        """The VMs on a host: by its own list too."""
        return frozenset(host.vm_ids).union(self._vms_on.get(host.id, _NOBODY))

    def is_anyone_on(self, host: Host) -> bool:
        """A VM is on it, by whoever's account."""
        return bool(host.vm_ids) or host.id in self._vms_on

    @property
    def host_ids(self) -> KeysView[int]:
        """The hosts that some VM calls its own; not to be changed."""
        return self._vms_on.keys()

    def _note(self, vm_id: int, vm: VirtualMachine | None) -> None:
        for host_id in self._places.pop(vm_id, ()):
            there = self._vms_on[host_id]
            there.remove(vm_id)
            if not there:
                del self._vms_on[host_id]
        if vm is None:
            del self._seen[vm_id]
            return
        self._seen[vm_id] = vm
        if vm.host_id is not None:
            places = self._places[vm_id] = tuple(set(vm.needed_host_ids))
            for host_id in places:
                self._vms_on.setdefault(host_id, set()).add(vm_id)
