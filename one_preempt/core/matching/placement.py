"""Where VMs go: one alone, several that must all fit, or several at hosts chosen before.

On success the placements are charged to the room; on failure the room is as it was. What if: take a
`checkpoint`, let VMs `leave`, place, and `rollback`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from operator import attrgetter

import numpy as np

from one_preempt.core.matching import reasons
from one_preempt.core.matching.access import AccessRules, have_same_owners
from one_preempt.core.matching.attributes import BoolArray
from one_preempt.core.matching.datastores import DatastoreMatch, image_datastore_without_room
from one_preempt.core.matching.demands import NO_DEMAND
from one_preempt.core.matching.devices import assign_devices
from one_preempt.core.matching.expressions import Expressions, UnreadableExpression
from one_preempt.core.matching.full_hosts import SaidFull, full, needs_of, together
from one_preempt.core.matching.gang import alike, asks_the_same, search
from one_preempt.core.matching.host_match import MOST_KINDS, HostMatch, StaticHostMatch
from one_preempt.core.matching.known_gangs import KnownGangs
from one_preempt.core.matching.networks import NetworkMatch
from one_preempt.core.matching.options import MatchOptions
from one_preempt.core.matching.preferences import Preferences
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.matching.room import Room
from one_preempt.core.matching.vm_groups import GroupRules, group_rules
from one_preempt.core.model.cluster_state import HostTable, IntArray
from one_preempt.core.model.plan import Placement
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.prematch import Prematch
from one_preempt.core.model.quick_construction import quick_constructor
from one_preempt.core.model.virtual_machine import VirtualMachine

_placement = quick_constructor(Placement)
_vm_id, _size = attrgetter("id"), attrgetter("cpu_centi", "memory_mib")


class Matchmaker:
    """Matches VMs with the hosts, datastores and networks of one snapshot.

    `prematched`: what oned matched already, by VM id, where a driver document says so.
    """

    def __init__(
        self,
        snapshot: PoolSnapshot,
        hosts: HostTable,
        options: MatchOptions,
        prematched: Mapping[int, Prematch] | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.hosts = hosts
        self.options = options
        self.expressions = Expressions()
        self._access = access = AccessRules(snapshot.directory, snapshot.zone_id) if options.check_access else None
        known = prematched or {}
        self.has_prematched = bool(known)
        self._host_match = StaticHostMatch(snapshot, hosts, access, self.expressions, known)
        self._datastores = DatastoreMatch(snapshot, access, self.expressions, options, known)
        self._networks = NetworkMatch(
            snapshot, access, self.expressions, options.network_rank, options.different_networks, known
        )
        self._preferences = Preferences(self._host_match, self.expressions, options.host_selection)
        self._said_full: dict[int, SaidFull] = {}
        self._gangs = KnownGangs()

    def follow(self, snapshot: PoolSnapshot, hosts: HostTable, options: MatchOptions) -> bool:
        """Match the VMs of a later snapshot from now on, of which only datastores and hosts' state and load may be new.

        What was matched holds then, but for what speaks of what has changed. False where more is new: nothing was done.
        """
        known = self.snapshot
        same = (
            options is self.options
            and snapshot.networks is known.networks
            and snapshot.zone_id == known.zone_id
            and not self.has_prematched
            and have_same_owners(snapshot.directory, known.directory)
            # Users choose requirements and ranks: what is known of those long gone must not pile up.
            and self._host_match.kinds + self._preferences.kinds <= max(MOST_KINDS, 4 * len(snapshot.vms))
        )
        if not same or not self._host_match.follow(snapshot, hosts):
            return False
        if snapshot.datastores is not known.datastores:
            # Which hosts suit a VM does not depend on what is stored where.
            self._datastores = DatastoreMatch(snapshot, self._access, self.expressions, options, {})
        if len(self._said_full) > len(snapshot.vms):
            self._said_full.clear()
        self._gangs.forget_beyond(len(snapshot.vms))
        self.snapshot, self.hosts = snapshot, hosts
        self._preferences.load_has_changed()
        return True

    @property
    def matched_at(self) -> object:
        """The same object as long as everything but the load of hosts is as it was."""
        return self._host_match.turned.at

    def new_room(self) -> Room:
        """All that is free, counted with these options."""
        return Room(self.snapshot, self.hosts, memory_system_ds_scale=self.options.memory_system_ds_scale)

    def match(self, vm: VirtualMachine) -> HostMatch:
        """The hosts that suit `vm` whatever is free on them."""
        return self._host_match.match(vm)

    def preference(self, vm: VirtualMachine) -> IntArray:
        """All hosts' rows, best first: by the VM's SCHED_RANK, else by the host selection policy."""
        return self._preferences.order(vm.sched_rank)

    def rank_problem(self, vm: VirtualMachine) -> str:
        """Which of the VM's ranks cannot be read, as one sentence; "" where all can. Such a rank makes all equal."""
        ranks = [("SCHED_RANK", vm.sched_rank), ("SCHED_DS_RANK", vm.sched_datastore_rank)]
        ranks += [(f"SCHED_RANK of NIC {nic.id}", nic.sched_rank) for nic in vm.nics if nic.automatic]
        return next(
            (problem for name, text in ranks if text and (problem := self.expressions.rank_problem(name, text))), ""
        )

    def place(
        self,
        vm: VirtualMachine,
        room: Room,
        among: BoolArray | None = None,
        *,
        limited: bool = True,
        after_host_id: int | None = None,
    ) -> Placement | Unplaced:
        """Put one VM on the best host with room, of those `among` (a mask of rows) where it is given.

        `after_host_id`: a host that refused it a moment ago; those ranked behind it are tried first.
        Room for the VMs that a VM group ties to it is kept on its host. `limited` False leaves out MAX_DISPATCH,
        MAX_HOST and the waiting of VM groups for each other.
        """
        limit = self.options.max_dispatch
        if limited and 0 < limit <= len(room.placed):
            # Before anything else, so that the rest of a long queue costs next to nothing.
            return reasons.unplaced(reasons.DISPATCH_LIMIT, f"This cycle has started {limit} VMs, as many as it may.")
        rules = group_rules(vm, room)
        refusal = self._refusal(vm, room) or (_follows(rules) if limited else None)
        if refusal is not None:
            return refusal
        mask, counts = self._with_room(vm, room, among, rules, limited=limited)
        for row in self._ordered(vm, mask, after_host_id):
            placement = self._try_host(vm, row, room, counts)
            if placement is not None:
                room.take(placement)
                for companion in rules.companions if rules and limited else ():
                    room.hold(placement.host_id, companion.resources)
                return placement
        return reasons.no_host(counts, needs_of(vm))

    def place_together(
        self, vms: Sequence[VirtualMachine], room: Room, among: BoolArray | None = None
    ) -> tuple[Placement, ...] | Unplaced:
        """Put all of several VMs, or none. The placements are in the order of `vms`.

        One VM alone is placed as `place` does. Several are one request: MAX_DISPATCH and MAX_HOST, which pace
        single VMs, would keep a gang larger than they allow waiting for ever, so they only count it. First
        largest first, each on its best host; then, unless the VMs are alike, a search over the hosts of every
        VM, which is exhaustive for small gangs and stops after `gang.SEARCH_STEPS` trials for others.
        """
        if len(vms) == 1:
            alone = self.place(vms[0], room, among)
            return alone if isinstance(alone, Unplaced) else (alone,)
        if among is None:
            hosts = self._hosts_with_room(vms, room) if vms else 0
            # With a host for each of VMs that are alike there are places enough.
            unplaced = self._has_too_few_places(vms, room) if 0 < hosts < len(vms) else None
            if vms and not hosts:
                unplaced = self.where_all_is_full(vms, room) or self._has_too_few_places(vms, room)
            if unplaced is not None:
                return unplaced
        ordered = _largest_first(vms, room)
        placed = self._place_each(ordered, room, among)
        if isinstance(placed, Unplaced):
            searched = None
            if placed.counts and not alike(vms) and self._may_fit_together(vms, room):
                searched = search(ordered, room, lambda vm: self.candidates(vm, room, among))
            if searched is None:
                return together(len(vms), placed)
            placed = searched
        placement_of = {placement.vm_id: placement for placement in placed}
        return tuple(placement_of[vm.id] for vm in vms)

    def has_room(self, vms: Sequence[VirtualMachine], room: Room) -> bool:
        """Some host that suits the first VM to be placed has CPU and memory for it: else nothing can be placed now."""
        return not vms or self._hosts_with_room(vms, room) > 0

    def _hosts_with_room(self, vms: Sequence[VirtualMachine], room: Room) -> int:
        """How many of the hosts that suit the first VM to be placed have CPU and memory for it."""
        first = _first_to_place(vms, room)
        fits = (room.free[:, 0] >= first.cpu_centi) & (room.free[:, 1] >= first.memory_mib)
        return int(np.count_nonzero(self.match(first).mask & fits))

    def are_alike(self, vms: Sequence[VirtualMachine]) -> bool:
        """Does nothing that a placement depends on tell them apart? They may be alike where this says no."""
        return not self.has_prematched and self._gangs.by_id(vms) is not None

    def _has_too_few_places(self, vms: Sequence[VirtualMachine], room: Room) -> Unplaced | None:
        """What is said where VMs that are alike fill all that is free and some are left over; else None.

        None as well where more than CPU and memory decides.
        """
        ordered = None if self.has_prematched else self._gangs.by_id(vms)
        if ordered is None or not room.takes_capacity_alone(ordered[0]):
            return None
        first = ordered[0]
        match = self.match(first)
        if match.follows_current_vms or self._refusal(first, room) is not None:
            return None
        rows = np.flatnonzero(match.mask)
        free = room.free[rows]
        places = np.minimum(free[:, 0] // first.cpu_centi, free[:, 1] // first.memory_mib).clip(0)
        fitting = int(places.sum())
        if fitting >= len(ordered) or not self._datastores.are_all_shared(first):
            return None
        one_in_cluster = {self.hosts.hosts[row].cluster_id: row for row in rows[places > 0].tolist()}
        if any(self._try_host(first, row, room, {}) is None for row in one_in_cluster.values()):
            return None
        return together(len(vms), full(tuple(match.counts.items()), len(rows), needs_of(ordered[fitting])))

    def where_all_is_full(self, vms: Sequence[VirtualMachine], room: Room) -> Unplaced | None:
        """What `place_together` says where no host has room for the first; None where it looks at more than that."""
        first = _first_to_place(vms, room)
        match = self.match(first)
        known = self._said_full.get(first.id)
        if known is not None and known.holds_for(first, len(vms), match, self._datastores):
            return known.answer
        is_paced = len(vms) == 1 and self.options.max_dispatch > 0
        if first.vm_group_id is not None or match.follows_current_vms or is_paced:
            return None
        refusal = self._refusal(first, room)
        if refusal is None:
            refusal = full(tuple(match.counts.items()), int(np.count_nonzero(match.mask)), needs_of(first))
        answer = refusal if len(vms) == 1 else together(len(vms), refusal)
        if room.demand_of(first) is NO_DEMAND:
            # Whether its disks have room may be another matter a moment later.
            self._said_full[first.id] = SaidFull(first, len(vms), match, self._datastores, answer)
        return answer

    def place_at(
        self, vms: Sequence[VirtualMachine], placements: Sequence[Placement], room: Room
    ) -> tuple[Placement, ...] | Unplaced:
        """Put each VM on the host that `placements` gives it; datastore and networks are chosen anew."""
        host_of = {placement.vm_id: placement.host_id for placement in placements}
        masks = {vm.id: self.hosts.ids == host_of.get(vm.id, -1) for vm in vms}
        return self._place_each(vms, room, masks)

    def candidates(self, vm: VirtualMachine, room: Room, among: BoolArray | None = None) -> Iterator[Placement]:
        """Every placement of `vm` that the room allows now, best first; nothing is charged."""
        if self._refusal(vm, room) is None:
            mask, counts = self._with_room(vm, room, among, group_rules(vm, room), limited=False)
            for row in self._ordered(vm, mask):
                placement = self._try_host(vm, row, room, counts)
                if placement is not None:
                    yield placement

    def _place_each(
        self, vms: Sequence[VirtualMachine], room: Room, among: BoolArray | Mapping[int, BoolArray] | None
    ) -> tuple[Placement, ...] | Unplaced:
        """Place one VM after the other; the first refusal undoes all. `among` may differ by VM id."""
        mark = room.checkpoint()
        found: list[Placement] = []
        while len(found) < len(vms):
            vm = vms[len(found)]
            hosts = among[vm.id] if isinstance(among, Mapping) else among
            first = self.place(vm, room, hosts, limited=False)
            if isinstance(first, Unplaced):
                room.rollback(mark)
                return first
            found.append(first)
            if not isinstance(among, Mapping) and len(found) < len(vms):
                like = list(takewhile(partial(asks_the_same, vm), vms[len(found) :]))
                if like:
                    found += self._place_onward(like, room, self._onward(vm, first, room, among))
        return tuple(found)

    def _onward(self, vm: VirtualMachine, placed: Placement, room: Room, among: BoolArray | None) -> list[int]:
        """The rows for what asks for the same as `vm`, best first: from that of `vm` on, for before there is no room.

        Empty where there might be.
        """
        match = self.match(vm)
        if self.has_prematched or vm.vm_group_id is not None or match.follows_current_vms:
            return []
        row = self.hosts.index_by_id[placed.host_id]
        mask = match.mask & (room.free >= (vm.cpu_centi, vm.memory_mib)).all(axis=1)
        if among is not None:
            mask &= among
        mask[row] = True
        order = self.preference(vm)
        rows: list[int] = order[mask[order]].tolist()
        return rows[rows.index(row) :]

    def _place_onward(self, vms: Sequence[VirtualMachine], room: Room, rows: Sequence[int]) -> list[Placement]:
        """Put VMs that ask for the same each on the first of these rows with room, as many as find some."""
        if room.takes_capacity_alone(vms[0]):
            return self._spread(vms, room, rows)
        found: list[Placement] = []
        for row in rows:
            for vm in vms[len(found) :]:
                fits = bool(room.free[row, 0] >= vm.cpu_centi and room.free[row, 1] >= vm.memory_mib)
                if not fits or image_datastore_without_room(vm, room) is not None:
                    break
                placement = self._try_host(vm, row, room, {})
                if placement is None:
                    break
                room.take(placement)
                found.append(placement)
        return found

    def _spread(self, vms: Sequence[VirtualMachine], room: Room, rows: Sequence[int]) -> list[Placement]:
        """The same where only the capacity of hosts counts: charged in one go, for nothing else is taken."""
        vm, found, taken_rows = vms[0], list[Placement](), list[int]()
        like_in_cluster: dict[int, Placement | None] = {}
        alike_in_cluster = self._datastores.are_all_shared(vm)
        for row in rows:
            free_cpu_centi, free_memory_mib = room.free[row].tolist()
            fitting = min(len(vms) - len(found), free_cpu_centi // vm.cpu_centi, free_memory_mib // vm.memory_mib)
            if fitting <= 0:
                continue
            host = self.hosts.hosts[row]
            if not alike_in_cluster or host.cluster_id not in like_in_cluster:
                like_in_cluster[host.cluster_id] = self._try_host(vm, row, room, {})
            like = like_in_cluster[host.cluster_id]
            if like is not None:
                taken_rows += [row] * fitting
                several = vms[len(found) : len(found) + fitting]
                found += [_placement(one.id, host.id, like.datastore_id, like.nics) for one in several]
            if len(found) == len(vms):
                break
        if found:
            room.take_alike(vm, taken_rows, found)
        return found

    def _may_fit_together(self, vms: Sequence[VirtualMachine], room: Room) -> bool:
        """False where all hosts that suit any of the VMs have less room in all than they need."""
        suited = np.logical_or.reduce([self.match(vm).mask for vm in vms])
        free = np.maximum(room.free[suited], 0).sum(axis=0)
        return bool(free[0] >= sum(vm.cpu_centi for vm in vms) and free[1] >= sum(vm.memory_mib for vm in vms))

    def _refusal(self, vm: VirtualMachine, room: Room) -> Unplaced | None:
        """What keeps the VM from every host."""
        match = self.match(vm)
        if match.refusal is not None:
            return match.refusal
        try:
            stores = self._datastores.candidates(vm)
            nics = [(nic, self._networks.candidates(vm, nic)) for nic in self._networks.open_nics(vm)]
        except UnreadableExpression as error:
            return reasons.unplaced(reasons.UNREADABLE, str(error))
        if not stores:
            return self._datastores.why_no_candidate(vm)
        for nic, networks in nics:
            if not networks:
                return self._networks.why_no_candidate(vm, nic)
        full_id = image_datastore_without_room(vm, room)
        if full_id is not None:
            text = f"Image datastore {full_id} has no room for its disks: delete images there, or choose another one."
            return reasons.unplaced(reasons.IMAGE_DATASTORE, text)
        return None

    def _with_room(
        self,
        vm: VirtualMachine,
        room: Room,
        among: BoolArray | None,
        rules: GroupRules | None,
        *,
        limited: bool,
    ) -> tuple[BoolArray, dict[str, int]]:
        """The hosts that suit the VM and have CPU and memory for it, and why the others do not."""
        match = self.match(vm)
        counts = dict(match.counts)
        mask = match.mask if among is None else _narrow(match.mask, among, counts, reasons.NOT_AMONG)
        if match.follows_current_vms:
            mask = _narrow(mask, self._host_match.requirements_now(vm, room), counts, reasons.REQUIREMENTS)
        needed = vm.resources
        if rules is not None:
            mask = _narrow(mask, rules.mask, counts, reasons.AFFINITY)
            # Several VMs placed together are all charged in turn; a VM alone must leave room for who follows.
            for companion in rules.companions if limited else ():
                mask = _narrow(mask, self.match(companion).mask, counts, reasons.AFFINITY)
                needed += companion.resources
        fits = (room.free[:, 0] >= needed.cpu_centi) & (room.free[:, 1] >= needed.memory_mib)
        mask = _narrow(mask, fits, counts, reasons.CAPACITY)
        if limited and self.options.max_host:
            mask = _narrow(mask, room.dispatched < self.options.max_host, counts, reasons.DISPATCH_LIMIT)
        return mask, counts

    def _ordered(self, vm: VirtualMachine, mask: BoolArray, after_host_id: int | None = None) -> Iterator[int]:
        order = self.preference(vm)
        if after_host_id is not None and after_host_id in self.hosts.index_by_id:
            place = int(np.flatnonzero(order == self.hosts.index_by_id[after_host_id])[0])
            order = np.roll(order, -place - 1)
        for row in order[mask[order]]:
            yield int(row)

    def _try_host(self, vm: VirtualMachine, row: int, room: Room, counts: dict[str, int]) -> Placement | None:
        """The placement on one host that has CPU and memory, or None with the reason counted."""
        host = self.snapshot.hosts[int(self.hosts.ids[row])]
        code = ""
        if vm.pci_requests and assign_devices(vm.pci_requests, room.free_devices(host.id)) is None:
            code = reasons.DEVICES
        elif vm.topology is not None and not room.numa_room(host.id).fits(vm):
            code = reasons.NUMA
        else:
            store = self._datastores.choose(vm, host, room)
            networks = self._networks.choose(vm, host, room) if store is not None else None
            if store is not None and networks is not None:
                return _placement(vm.id, host.id, store.id, networks)
            code = self._datastores.why_none(vm, host) if store is None else reasons.NETWORK
        counts[code] = counts.get(code, 0) + 1
        return None


def _follows(rules: GroupRules | None) -> Unplaced | None:
    """A VM that its VM group ties to another one waits until that one has a host."""
    if rules is None or rules.follows is None:
        return None
    return reasons.unplaced(reasons.AFFINITY, f"It goes to the host of VM {rules.follows}, once that has started.")


def _narrow(mask: BoolArray, passed: BoolArray, counts: dict[str, int], code: str) -> BoolArray:
    narrowed = mask & passed
    lost = int(np.count_nonzero(mask)) - int(np.count_nonzero(narrowed))
    if lost:
        counts[code] = counts.get(code, 0) + lost
    return narrowed


def _largest_first(vms: Sequence[VirtualMachine], room: Room) -> list[VirtualMachine]:
    """By the share of the largest host that a VM takes, whole numbers only; oldest first among equals."""
    if _are_equal(vms):
        return sorted(vms, key=_vm_id)
    cpu, memory = (max(1, int(amount)) for amount in room.hosts.capacity.max(axis=0, initial=1))
    return sorted(vms, key=lambda vm: (-max(vm.cpu_centi * memory, vm.memory_mib * cpu), vm.id))


def _first_to_place(vms: Sequence[VirtualMachine], room: Room) -> VirtualMachine:
    return min(vms, key=_vm_id) if _are_equal(vms) else _largest_first(vms, room)[0]


def _are_equal(vms: Sequence[VirtualMachine]) -> bool:
    """They need the same CPU and memory."""
    return len(set(map(_size, vms))) <= 1
