"""What packing and balancing share: the VMs of each host, and a migration that the matchmaker allows.

Room that a migration frees is never given to another one of the same plan: oned charges both hosts until a
migration is over, carries plans out in part, and several at a time. So every part of a plan fits.
"""

from __future__ import annotations

from collections.abc import Set

import numpy as np
from msgspec import Struct, field

from one_preempt.core.balancing.cluster_load import ClusterLoad, Weights
from one_preempt.core.matching.expressions.attributes import BoolArray
from one_preempt.core.matching.placement import Matchmaker
from one_preempt.core.matching.room import Room
from one_preempt.core.model.plan import Placement
from one_preempt.core.model.virtual_machine import VirtualMachine

UNLIMITED = -1
TRIES = 64
"""How many hosts are tried for a VM, best first: those that fail do so by rules that mostly forbid the others too."""


class BalancingLimits(Struct, frozen=True):
    """At most so many migrations (UNLIMITED: as many as help), and what counts as load.

    `trials` bounds the search: it ends once so many migrations were tried against all rules.
    """

    migrations: int = UNLIMITED
    weights: Weights = field(default_factory=Weights)
    trials: int = 20_000


class Migrations:
    """The state of one plan of migrations. `room` is charged with arrivals and never credited with departures."""

    def __init__(self, matchmaker: Matchmaker, room: Room, movable: Set[int], limits: BalancingLimits) -> None:
        self.matchmaker = matchmaker
        self.room = room
        self.load = ClusterLoad(matchmaker.hosts, limits.weights)
        self.moved: set[int] = set()
        self._movable = movable
        self._limits = limits
        self._trials = 0
        self.residents = self._observe_residents()

    @property
    def left(self) -> int:
        """How many more VMs may be moved."""
        if self._trials >= self._limits.trials:
            return 0
        most = len(self._movable) if self._limits.migrations == UNLIMITED else self._limits.migrations
        return max(0, most - len(self.moved))

    def may_move(self, vm_id: int) -> bool:
        """The VM may be moved, and was not."""
        return vm_id in self._movable and vm_id not in self.moved

    def targets(self, vm: VirtualMachine) -> BoolArray:
        """The rows that suit the VM and have CPU and memory for it; groups, devices and disks are not tested yet."""
        free = self.room.free
        fits = (free[:, 0] >= vm.cpu_centi) & (free[:, 1] >= vm.memory_mib)
        return self.matchmaker.match(vm).mask & fits

    def try_move(self, vm: VirtualMachine, source: int, target: int) -> Placement | None:
        """Move the VM to row `target` where every rule allows it."""
        self._trials += 1
        among = np.zeros(len(self.matchmaker.hosts.ids), dtype=np.bool_)
        among[target] = True
        placed = self.matchmaker.place(vm, self.room, among, limited=False)
        if not isinstance(placed, Placement):
            return None
        self.moved.add(vm.id)
        self.residents[source].remove(vm.id)
        self.residents[target].append(vm.id)
        self.load.move(vm.resources, source, target)
        return placed

    def take_back(self, vm: VirtualMachine, source: int, target: int) -> None:
        """Undo `try_move`, the last one first; the room is rolled back by the caller."""
        self.moved.discard(vm.id)
        self.residents[target].remove(vm.id)
        self.residents[source].append(vm.id)
        self.load.move(vm.resources, target, source)

    def _observe_residents(self) -> list[list[int]]:
        """The VMs on each host, by the host's own list and by their records."""
        snapshot, hosts = self.room.snapshot, self.matchmaker.hosts
        found = [set(snapshot.hosts[host_id].vm_ids) for host_id in hosts.ids.tolist()]
        for vm in snapshot.vms.values():
            row = None if vm.host_id is None else hosts.index_by_id.get(vm.host_id)
            if row is not None:
                found[row].add(vm.id)
        return [sorted(vm_ids) for vm_ids in found]
