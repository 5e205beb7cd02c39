"""The system datastore of a VM, and room for what it adds to image datastores, both counted as the matchmaker does."""

from __future__ import annotations

from collections.abc import Mapping

from one_preempt.core.matching import reasons
from one_preempt.core.matching.access import AccessRules
from one_preempt.core.matching.demands import moves, returns_to_its_disks
from one_preempt.core.matching.expressions.attributes import DATASTORE_LAYOUT, AttributeTable, datastore_attributes
from one_preempt.core.matching.expressions.known_answers import KnownAnswers
from one_preempt.core.matching.expressions.known_expressions import MOST_ANSWERS, Expressions, UnreadableExpression
from one_preempt.core.matching.expressions.rank import best_first
from one_preempt.core.matching.options import MatchOptions
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.matching.room import Room
from one_preempt.core.model.host import Host
from one_preempt.core.model.infrastructure import Datastore, DatastoreType
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.prematch import Prematch
from one_preempt.core.model.virtual_machine import VirtualMachine


class DatastoreMatch:
    """Finds the system datastores that a VM may use, best first, and the first of them with room."""

    def __init__(
        self,
        snapshot: PoolSnapshot,
        access: AccessRules | None,
        expressions: Expressions,
        options: MatchOptions,
        prematched: Mapping[int, Prematch],
    ) -> None:
        system = [store for _, store in sorted(snapshot.datastores.items()) if store.type == DatastoreType.SYSTEM]
        self._stores = [store for store in system if store.enabled]
        self._disabled_ids = frozenset(store.id for store in system if not store.enabled)
        self._table = AttributeTable(DATASTORE_LAYOUT, [datastore_attributes(store) for store in self._stores])
        self._access = access
        self._expressions = expressions
        self._default_rank = options.datastore_rank
        self._accept_unmonitored = options.accept_unmonitored_datastores
        self._prematched = prematched
        self._found = KnownAnswers[tuple[Datastore, ...]](MOST_ANSWERS)
        # For whom was asked last.
        self._last: tuple[VirtualMachine, tuple[Datastore, ...]] | None = None

    def candidates(self, vm: VirtualMachine) -> tuple[Datastore, ...]:
        """What the VM may use wherever it goes, best first. Raises UnreadableExpression."""
        if self._last is not None and self._last[0] is vm:
            return self._last[1]
        previous_id = self._previous_id(vm)
        prematch = self._prematched.get(vm.id)
        key = (
            vm.uid,
            vm.gid,
            previous_id,
            prematch.datastore_ids if prematch else None,
            vm.automatic_datastore_requirements,
            vm.sched_datastore_requirements,
            vm.sched_datastore_rank,
        )
        found = self._found.of(key, lambda: self._match(vm, previous_id, prematch))
        self._last = vm, found
        return found

    def _usable(self, vm: VirtualMachine) -> tuple[Datastore, ...]:
        """`candidates`, none where they are not known any more and their owner's requirements took too long since."""
        try:
            return self.candidates(vm)
        except UnreadableExpression:
            return ()

    def are_all_shared(self, vm: VirtualMachine) -> bool:
        """Whatever it takes there, it takes of all hosts of a cluster alike."""
        try:
            return all(store.shared for store in self.candidates(vm))
        except UnreadableExpression:
            return False

    def lies_on_host(self, vm: VirtualMachine, host: Host) -> bool:
        """What it would be given on this host before all others keeps disks on the host itself."""
        first = next((store for store in self._usable(vm) if host.cluster_id in store.cluster_ids), None)
        return first is not None and not first.shared

    def choose(self, vm: VirtualMachine, host: Host, room: Room) -> Datastore | None:
        """The best datastore that the host can use and that has room, or None; none where that cannot be read now."""
        needed_mib = room.demand_of(vm).system_mib
        already_there = moves(vm) or returns_to_its_disks(vm)
        unmonitored: Datastore | None = None
        for store in self._usable(vm):
            if host.cluster_id not in store.cluster_ids:
                continue
            if not store.shared:
                if needed_mib < room.host_disk_free_mib(host.id, store.id):
                    return store
            elif already_there:
                return store
            elif not is_monitored(store):
                unmonitored = unmonitored or store
            elif needed_mib == 0 or needed_mib < room.datastore_free_mib(store.id):
                return store
        return unmonitored if self._accept_unmonitored else None

    def why_no_candidate(self, vm: VirtualMachine) -> Unplaced:
        """The reason for which `candidates` found nothing."""
        prematch, previous_id = self._prematched.get(vm.id), self._previous_id(vm)
        if previous_id in self._disabled_ids:
            text = f"Its disks are on system datastore {previous_id}, which is disabled: have it enabled."
            return reasons.unplaced(reasons.DATASTORE, text)
        return reasons.none_usable(
            reasons.DATASTORE,
            "enabled system datastores",
            exist=bool(self._stores),
            permitted=any(self._eligible(vm, store, prematch, met=True) for store in self._stores),
            requirement="SCHED_DS_REQUIREMENTS",
        )

    def why_none(self, vm: VirtualMachine, host: Host) -> str:
        """The code of the reason for which `choose` found nothing on a host."""
        usable = [store for store in self._usable(vm) if host.cluster_id in store.cluster_ids]
        unmonitored = bool(usable) and not any(is_monitored(store) or not store.shared for store in usable)
        return reasons.UNMONITORED if unmonitored else reasons.DATASTORE

    def _previous_id(self, vm: VirtualMachine) -> int | None:
        """A VM that moves or comes back keeps the datastore on which its disks are."""
        if (moves(vm) or returns_to_its_disks(vm)) and vm.last_history is not None:
            return vm.last_history.datastore_id
        return None

    def _match(self, vm: VirtualMachine, previous_id: int | None, prematch: Prematch | None) -> tuple[Datastore, ...]:
        if previous_id in self._disabled_ids:
            # oned looks for its disks on the datastore that it is given: on another one it finds none, and fails.
            return ()
        if previous_id is not None and any(store.id == previous_id for store in self._stores):
            return tuple(store for store in self._stores if store.id == previous_id)
        requirements = (
            ("AUTOMATIC_DS_REQUIREMENTS", vm.automatic_datastore_requirements),
            ("SCHED_DS_REQUIREMENTS", vm.sched_datastore_requirements),
        )
        met = self._expressions.all_met(requirements, self._table, uid=vm.uid)
        if vm.sched_datastore_rank:
            scores = self._expressions.scores("SCHED_DS_RANK", vm.sched_datastore_rank, self._table, uid=vm.uid)
        else:
            scores = self._expressions.rank(self._default_rank).scores(self._table)
        return tuple(
            self._stores[row]
            for row in best_first(scores).tolist()
            if self._eligible(vm, self._stores[row], prematch, met=bool(met[row]))
        )

    def _eligible(self, vm: VirtualMachine, store: Datastore, prematch: Prematch | None, *, met: bool) -> bool:
        if prematch is not None:
            return store.id in prematch.datastore_ids
        return met and (self._access is None or self._access.may_use(self._access.owner_of(vm), store))


def image_datastore_without_room(vm: VirtualMachine, room: Room) -> int | None:
    """The image datastore on which the VM's own copies (CLONE_TARGET or LN_TARGET SELF) do not fit, if any."""
    image_mib = room.demand_of(vm).image_mib
    if not image_mib or moves(vm) or returns_to_its_disks(vm):
        return None
    for store_id, size_mib in sorted(image_mib.items()):
        store = room.snapshot.datastores.get(store_id)
        usable = store is not None and store.type == DatastoreType.IMAGE
        if size_mib and not (usable and size_mib < room.datastore_free_mib(store_id)):
            return store_id
    return None


def is_monitored(store: Datastore) -> bool:
    """Was its space ever measured?"""
    return bool(store.free_mib or store.total_mib or store.used_mib)
