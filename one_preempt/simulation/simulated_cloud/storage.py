"""Room on system datastores: what each VM's disks and saved memory take, and give back."""

from __future__ import annotations

from msgspec import Struct, field

from one_preempt.simulation.simulated_cloud.change_log import ChangeLogs
from one_preempt.simulation.simulated_cloud.objects import SimDatastore

DISKS = "disks"
MEMORY = "memory"


class SystemSpace(Struct):
    """Who takes how much where: {(VM, DISKS or MEMORY): (datastore, MiB)}.

    Space that was taken before the cloud was simulated is in the datastores' figures only and never comes back.
    `others_mib` is what came from outside since (`fill`).
    """

    datastores: dict[int, SimDatastore]
    taken: dict[tuple[int, str], tuple[int, int]] = field(default_factory=dict)
    others_mib: dict[int, int] = field(default_factory=dict)
    changes: ChangeLogs = field(default_factory=ChangeLogs)

    def take(self, vm_id: int, what: str, datastore_id: int, size_mib: int) -> bool:
        """Take room, giving back what the VM had taken for the same; False where there is too little."""
        datastore = self.datastores[datastore_id]
        held_there, held_mib = self.taken.get((vm_id, what), (-1, 0))
        if datastore.free_mib + (held_mib if held_there == datastore_id else 0) < size_mib:
            return False
        self.give_back(vm_id, what)
        if size_mib:
            self.changes.datastores()
        datastore.free_mib -= size_mib
        datastore.used_mib += size_mib
        self.taken[vm_id, what] = (datastore_id, size_mib)
        return True

    def give_back(self, vm_id: int, what: str) -> None:
        """Let go of what the VM had taken, if it had."""
        datastore_id, size_mib = self.taken.pop((vm_id, what), (-1, 0))
        if datastore_id in self.datastores and size_mib:
            self.changes.datastores()
            self.datastores[datastore_id].free_mib += size_mib
            self.datastores[datastore_id].used_mib -= size_mib

    def holds(self, vm_id: int, what: str) -> bool:
        """The VM has taken room for it."""
        return (vm_id, what) in self.taken

    def fill(self, datastore_id: int, free_mib: int) -> None:
        """Somebody else fills the datastore until `free_mib` are left at most; -1 = what he took is free again."""
        self.changes.datastores()
        datastore = self.datastores[datastore_id]
        before_mib = self.others_mib.pop(datastore_id, 0)
        amount_mib = max(datastore.free_mib + before_mib - free_mib, 0) if free_mib >= 0 else 0
        datastore.free_mib += before_mib - amount_mib
        datastore.used_mib += amount_mib - before_mib
        self.others_mib[datastore_id] = amount_mib
