"""Where several VMs go that must all fit, or that have their hosts already.

On success the placements are charged to the room; on failure the room is as it was. What if: take a
`checkpoint`, let VMs `leave`, place, and `rollback`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np

from one_preempt.core.matching.datastores import image_datastore_without_room
from one_preempt.core.matching.demands import NO_DEMAND
from one_preempt.core.matching.devices import assign_devices
from one_preempt.core.matching.expressions.attributes import BoolArray
from one_preempt.core.matching.expressions.known_expressions import Expressions
from one_preempt.core.matching.full_hosts import SaidFull, full, needs_of, together
from one_preempt.core.matching.gang import OwnersSearches, alike, like_the_first, search
from one_preempt.core.matching.host_match import HostMatch
from one_preempt.core.matching.known_gangs import KnownGangs
from one_preempt.core.matching.options import MatchOptions
from one_preempt.core.matching.placing_order import first_to_place, in_order_of, largest_first
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.matching.room import Room
from one_preempt.core.matching.single_placement import SinglePlacement
from one_preempt.core.matching.vm_groups import are_tied, group_rules
from one_preempt.core.model.cluster_state import HostTable, IntArray
from one_preempt.core.model.plan import Placement
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.prematch import Prematch
from one_preempt.core.model.virtual_machine import VirtualMachine

# So many hosts with CPU, memory and devices for all of a gang that is to share one are tried for what else it needs.
HOSTS_TRIED_FOR_ALL = 32


class Matchmaker(SinglePlacement):
    """Matches VMs with the hosts, datastores and networks of one snapshot: one alone, or several together."""

    def __init__(
        self,
        snapshot: PoolSnapshot,
        hosts: HostTable,
        options: MatchOptions,
        prematched: Mapping[int, Prematch] | None = None,
        expressions: Expressions | None = None,
    ) -> None:
        super().__init__(snapshot, hosts, options, prematched, expressions)
        self._said_full: dict[int, SaidFull] = {}
        self._said_left_over: dict[int, SaidFull] = {}
        self._gangs = KnownGangs()
        self._searches = OwnersSearches()

    def follow(self, snapshot: PoolSnapshot, hosts: HostTable, options: MatchOptions) -> bool:
        """As for one VM; what is known of several holds on too."""
        if not super().follow(snapshot, hosts, options):
            return False
        for said in (self._said_full, self._said_left_over):
            if len(said) > len(snapshot.vms):
                said.clear()
        self._gangs.forget_beyond(len(snapshot.vms))
        self._searches.begin_cycle()
        return True

    def place_together(
        self, vms: Sequence[VirtualMachine], room: Room, among: BoolArray | None = None, *, limited: bool = True
    ) -> tuple[Placement, ...] | Unplaced:
        """Put all of several VMs, or none. The placements are in the order of `vms`.

        One VM alone is placed as `place` does, `limited` as there. Several are one request: MAX_DISPATCH and MAX_HOST,
        which pace single VMs, would keep a gang larger than they allow waiting for ever, so they only count it. First
        largest first, each on its best host; then, where their VM group has them share one, on the next hosts with
        room for all; else, unless the VMs are alike, a search over the hosts of every VM, which is exhaustive for
        small gangs and is given up at the bounds of `gang.search` for others, as it is for an owner who has had many.
        """
        if len(vms) == 1:
            alone = self.place(vms[0], room, among, limited=limited)
            return alone if isinstance(alone, Unplaced) else (alone,)
        gang = self._gangs.by_id(vms)
        ordered = largest_first(vms, room) if gang is None else gang
        placed: Sequence[Placement] | Unplaced = () if gang is None else self._all_alike(gang, room, among)
        if not placed:
            if among is None:
                unplaced = self._why_too_few(vms, ordered, room)
                if unplaced is not None:
                    return unplaced
            placed = self._place_each(ordered, room, among)
        if isinstance(placed, Unplaced):
            searched = None
            if are_tied(vms, room.snapshot):
                searched = self._place_on_one_host(ordered, room, among)
            elif placed.counts and not alike(vms) and self._may_fit_together(vms, room):
                searched = search(
                    ordered, room, lambda vm, trials: self.candidates(vm, room, among, trials), self._searches
                )
            if searched is None:
                return together(len(vms), placed)
            placed = searched
        return tuple(in_order_of(vms, ordered, placed))

    def _all_alike(self, vms: Sequence[VirtualMachine], room: Room, among: BoolArray | None) -> list[Placement]:
        """Where VMs that ask for the same all go if there is room for all; else none, and nothing is charged."""
        mark = room.checkpoint()
        placed = self._place_alike(vms, room, among)
        if len(placed) < len(vms):
            room.rollback(mark)
            return []
        return placed

    def _why_too_few(
        self, vms: Sequence[VirtualMachine], ordered: Sequence[VirtualMachine], room: Room
    ) -> Unplaced | None:
        """What is said at once where hosts are clearly too few or too full; None where that is yet to be tried."""
        hosts = self._hosts_with_room(ordered[0], room) if vms else 0
        # With a host for each of VMs that are alike there are places enough.
        if hosts:
            return self._has_too_few_places(vms, room) if hosts < len(vms) else None
        return (self.where_all_is_full(vms, room) or self._has_too_few_places(vms, room)) if vms else None

    def has_room(self, vms: Sequence[VirtualMachine], room: Room) -> bool:
        """Some host that suits the first VM to be placed has CPU and memory for it: else nothing can be placed now."""
        return not vms or self._hosts_with_room(first_to_place(vms, room), room) > 0

    def _hosts_with_room(self, vm: VirtualMachine, room: Room) -> int:
        """How many of the hosts that suit a VM have CPU and memory for it."""
        return int(np.count_nonzero(self.match(vm).mask & room.hosts_for(vm.cpu_centi, vm.memory_mib)))

    def are_alike(self, vms: Sequence[VirtualMachine]) -> bool:
        """Does nothing that a placement depends on tell them apart? They may be alike where this says no."""
        return not self.has_prematched and self._gangs.by_id(vms) is not None

    def like_the_first(self, vms: Sequence[VirtualMachine]) -> int:
        """How many of the VMs, from the first one on, ask for the same as that."""
        return self._gangs.like_the_first(vms)

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
        if not self._could_be_on_each(first, rows[places > 0].tolist(), room):
            return None
        return together(len(vms), self._said_of_full(match, ordered[fitting]))

    def _could_be_on_each(self, vm: VirtualMachine, rows: Sequence[int], room: Room) -> bool:
        """Nothing but CPU and memory could keep a VM from these rows' hosts, of which those of a cluster are alike."""
        one_in_cluster = {self.hosts.hosts[row].cluster_id: row for row in rows}
        return all(isinstance(self._try_host(vm, row, room), Placement) for row in one_in_cluster.values())

    def where_all_is_full(self, vms: Sequence[VirtualMachine], room: Room) -> Unplaced | None:
        """What `place_together` says where no host has room for the first; None where it looks at more than that."""
        first = first_to_place(vms, room)
        match = self.match(first)
        known = self._said_full.get(first.id)
        if known is not None and known.holds_for(first, len(vms), match, self._datastores):
            return known.answer
        is_paced = len(vms) == 1 and self.options.max_dispatch > 0
        if first.vm_group_id is not None or match.follows_current_vms or is_paced:
            return None
        refusal = self._refusal(first, room)
        if refusal is None:
            refusal = self._said_of_full(match, first)
        answer = refusal if len(vms) == 1 else together(len(vms), refusal)
        if room.demand_of(first) is NO_DEMAND:
            # Whether its disks have room may be another matter a moment later.
            self._said_full[first.id] = SaidFull(first, len(vms), match, self._datastores, answer)
        return answer

    def where_some_are_left_over(self, vms: Sequence[VirtualMachine], room: Room) -> Unplaced | None:
        """What is said where room on all hosts is for fewer than all of several VMs: whoever is placed last finds none.

        None where they may differ, or where devices or cores may be what they lack.
        """
        ordered = None if self.has_prematched else self._gangs.by_id(vms)
        if ordered is None:
            return None
        last = ordered[-1]
        match = self.match(last)
        known = self._said_left_over.get(last.id)
        if known is not None and known.holds_for(last, len(vms), match, self._datastores):
            return known.answer
        if match.follows_current_vms or last.needs_hardware or self._refusal(last, room) is not None:
            return None
        rows = np.flatnonzero(match.mask).tolist()
        if not self._datastores.are_all_shared(last) or not self._could_be_on_each(last, rows, room):
            return None
        answer = together(len(vms), self._said_of_full(match, last))
        if room.demand_of(last) is NO_DEMAND:
            self._said_left_over[last.id] = SaidFull(last, len(vms), match, self._datastores, answer)
        return answer

    def _said_of_full(self, match: HostMatch, vm: VirtualMachine) -> Unplaced:
        suitable = int(np.count_nonzero(match.mask))
        return full(tuple(match.counts.items()), suitable, self.too_small(vm, match.mask), needs_of(vm))

    def place_at(
        self, vms: Sequence[VirtualMachine], placements: Sequence[Placement], room: Room
    ) -> tuple[Placement, ...] | Unplaced:
        """Put each VM on the host that `placements` gives it; datastore and networks are chosen anew."""
        host_of = {placement.vm_id: placement.host_id for placement in placements}
        placed = self._alike_at(vms, [host_of.get(vm.id, -1) for vm in vms], room)
        if placed:
            return tuple(placed)
        masks = {vm.id: self.hosts.ids == host_of.get(vm.id, -1) for vm in vms}
        return self._place_each(vms, room, masks)

    def _alike_at(self, vms: Sequence[VirtualMachine], host_ids: Sequence[int], room: Room) -> list[Placement]:
        """The same where the VMs ask for the same, and only the capacity of hosts counts.

        Empty, and nothing is charged, where that is not so, or one of the hosts will not do.
        """
        if self.has_prematched or self._gangs.by_id(vms) is None:
            return []
        vm, match = vms[0], self.match(vms[0])
        if match.follows_current_vms or not room.takes_capacity_alone(vm) or self._refusal(vm, room) is not None:
            return []
        by_host: dict[int, list[VirtualMachine]] = {}
        for one, host_id in zip(vms, host_ids, strict=True):
            by_host.setdefault(host_id, []).append(one)
        row_of_host, free, mark = self.hosts.index_by_id, room.free.data, room.checkpoint()
        places = [
            (row, len(here))
            for host_id, here in by_host.items()
            if (row := row_of_host.get(host_id)) is not None
            and match.mask[row]
            and len(here) * vm.cpu_centi <= free[row, 0]
            and len(here) * vm.memory_mib <= free[row, 1]
        ]
        ordered = [one for here in by_host.values() for one in here]
        placed = self._spread(ordered, room, places) if len(places) == len(by_host) else []
        if len(placed) < len(vms):
            room.rollback(mark)
            return []
        return list(in_order_of(vms, ordered, placed))

    def _place_each(
        self, vms: Sequence[VirtualMachine], room: Room, among: BoolArray | Mapping[int, BoolArray] | None
    ) -> tuple[Placement, ...] | Unplaced:
        """Place one VM after the other; the first refusal undoes all. `among` may differ by VM id."""
        mark = room.checkpoint()
        found: list[Placement] = []
        while len(found) < len(vms):
            if not isinstance(among, Mapping):
                rest = vms[len(found) :]
                found += self._place_alike(rest[: like_the_first(rest)], room, among)
                if len(found) == len(vms):
                    break
            vm = vms[len(found)]
            placed = self.place(vm, room, among[vm.id] if isinstance(among, Mapping) else among, limited=False)
            if isinstance(placed, Unplaced):
                room.rollback(mark)
                return placed
            found.append(placed)
        return tuple(found)

    def _place_on_one_host(
        self, vms: Sequence[VirtualMachine], room: Room, among: BoolArray | None
    ) -> tuple[Placement, ...] | None:
        """All on the first host that has CPU and memory for all of them and whatever else they need; None without one.

        Tried one after the other, of those that suit all and have devices for them; what else they lack is told by the
        trial.
        """
        needed = np.array([(vm.cpu_centi, vm.memory_mib) for vm in vms], dtype=np.int64).sum(axis=0)
        mask = (room.free >= needed).all(axis=1)
        for match in {id(match): match for match in map(self.match, vms)}.values():
            mask &= match.mask
        # Whom the rules leave which hosts depends on the role.
        for vm in {vm.vm_group_role: vm for vm in vms}.values():
            rules = group_rules(vm, room)
            if rules is not None:
                mask &= rules.mask
        if among is not None:
            mask &= among
        order = self.preference(vms[0])
        suited = (int(row) for row in order[mask[order]] if self._has_hardware_for(vms, int(row), room))
        for row in islice(suited, HOSTS_TRIED_FOR_ALL):
            placed = self._place_each(vms, room, np.arange(len(mask)) == row)
            if not isinstance(placed, Unplaced):
                return placed
        return None

    def _has_hardware_for(self, vms: Sequence[VirtualMachine], row: int, room: Room) -> bool:
        """A host has free devices for all of them together, and NUMA room for the first of those that want some."""
        host_id, wanted = int(self.hosts.ids[row]), [request for vm in vms for request in vm.pci_requests]
        if wanted and assign_devices(wanted, room.free_devices(host_id)) is None:
            return False
        first = next((vm for vm in vms if vm.topology is not None), None)
        return first is None or room.numa_room(host_id).fits(first)

    def _place_alike(self, vms: Sequence[VirtualMachine], room: Room, among: BoolArray | None) -> list[Placement]:
        """Put several VMs that ask for the same each on the best host with room, as many as find one.

        The hosts are gone through once: what had no room for one of them has none for the next. None of them is placed
        where that might not be so, or where one alone is refused.
        """
        vm, match = vms[0], self.match(vms[0])
        if len(vms) == 1 or self.has_prematched or vm.vm_group_id is not None or match.follows_current_vms:
            return []
        if self._refusal(vm, room) is not None:
            return []
        mask = match.mask & room.hosts_for(vm.cpu_centi, vm.memory_mib)
        if among is not None:
            mask &= among
        order = self.preference(vm)
        rows = order[mask.take(order)]
        if room.takes_capacity_alone(vm):
            return self._spread(vms, room, _with_places(rows, room, vm, len(vms)))
        found: list[Placement] = []
        for row in rows.tolist():
            for vm in vms[len(found) :]:
                fits = bool(room.free[row, 0] >= vm.cpu_centi and room.free[row, 1] >= vm.memory_mib)
                if not fits or image_datastore_without_room(vm, room) is not None:
                    break
                placement = self._try_host(vm, row, room)
                if isinstance(placement, str):
                    break
                room.take(placement)
                found.append(placement)
        return found

    def _spread(
        self, vms: Sequence[VirtualMachine], room: Room, rows_with_places: Iterable[tuple[int, int]]
    ) -> list[Placement]:
        """The same where only the capacity of hosts counts: charged in one go, for nothing else is taken.

        It is known already how many of the VMs have room on each row.
        """
        vm, hosts, left = vms[0], self.hosts.hosts, len(vms)
        where: list[tuple[int, Placement]] = []
        taken: dict[int, int] = {}
        like_in_cluster: dict[int, Placement | str] = {}
        alike_in_cluster = self._datastores.are_all_shared(vm)
        for row, places in rows_with_places:
            host = hosts[row]
            cluster_id = host.cluster_id
            if not alike_in_cluster or cluster_id not in like_in_cluster:
                like_in_cluster[cluster_id] = self._try_host(vm, row, room)
            like = like_in_cluster[cluster_id]
            if isinstance(like, str):
                continue
            taken[row] = here = places if places < left else left
            where += [(host.id, like)] * here
            left -= here
            if not left:
                break
        found = [
            Placement(one.id, host_id, like.datastore_id, like.nics)
            for one, (host_id, like) in zip(vms, where, strict=False)
        ]
        if found:
            room.take_alike(vm, taken, found)
        return found

    def _may_fit_together(self, vms: Sequence[VirtualMachine], room: Room) -> bool:
        """False where all hosts that suit any of the VMs have less room in all than they need."""
        suited = np.logical_or.reduce([self.match(vm).mask for vm in vms])
        free = np.maximum(room.free[suited], 0).sum(axis=0)
        return bool(free[0] >= sum(vm.cpu_centi for vm in vms) and free[1] >= sum(vm.memory_mib for vm in vms))


def _with_places(rows: IntArray, room: Room, vm: VirtualMachine, at_once: int) -> Iterator[tuple[int, int]]:
    """Each row with how many such VMs have room there; so many rows `at_once`, for the first mostly do."""
    free, cpu_centi, memory_mib = room.free.data, vm.cpu_centi, vm.memory_mib
    for first in range(0, len(rows), at_once):
        for row in rows[first : first + at_once].tolist():
            yield row, min(free[row, 0] // cpu_centi, free[row, 1] // memory_mib)
