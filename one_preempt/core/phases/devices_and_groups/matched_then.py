"""Devices, cores and the rules of VM groups at a time to come: the slot table counts CPU and memory alone.

The matchmaker is asked as if that time had come: who ends by then is gone, who gives way as well, and what was promised
firmly for the same time has its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from itertools import islice

import numpy as np
from msgspec.structs import replace

from one_preempt.core.availability.gang_demand import BoolArray, GangDemand
from one_preempt.core.availability.slot_table import SlotTable
from one_preempt.core.availability.steps import END_OF_TIME_S
from one_preempt.core.availability.timeline import Stay
from one_preempt.core.matching import reasons
from one_preempt.core.matching.devices import assign_devices
from one_preempt.core.matching.reasons import Unplaced, without_mend
from one_preempt.core.matching.room import Room
from one_preempt.core.matching.vm_groups import group_rules, is_unreadable
from one_preempt.core.model.cluster_state import IntArray
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.plan import Placement, Reason
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases.devices_and_groups.groups_then import GroupsThen
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.giving_way import giving_way
from one_preempt.core.phases.reservations.known_ends import ends_s_of
from one_preempt.core.phases.reservations.stays import rows_of, vms_of_stay

# Of what no host has for it now, others may give back by then.
_LACKING = frozenset({reasons.DEVICES, reasons.NUMA, reasons.AFFINITY})
_PLENTY = 1 << 40
# So many ends of others are looked at for the first from which on a wish could have what it asks for.
ENDS_TRIED = 16
# So many other hosts are tried for one VM at all instants of its time, before it is tried beside all promises at once.
HOSTS_TRIED = 16
# So often hosts are sought beside all promises at once that have all of it at each instant as well.
BESIDE_ALL_TRIED = 4
_Promised = tuple[Sequence[VirtualMachine], Stay]


def matched_then(
    draft: PlanDraft, vms: Sequence[VirtualMachine], stay: Stay, demand: GangDemand, table: SlotTable
) -> Stay | Reason:
    """The stay, on other hosts where its own lack devices, cores or a place beside its VM group; else what is lacking.

    `demand` says where the VMs may go, `table` what is free there. Where that is what is firm, those who give way leave
    for it; else nobody does.
    """
    lease = draft.state.leases[stay.lease_id]
    if not need_matching(vms):
        return stay
    beside = _promised_beside(draft, lease, stay.start_s, stay.end_s)
    then = _Then(draft, lease, vms, beside, lets_leave=table is draft.timeline.firm_stays)
    free = table.free_during(stay.start_s, stay.end_s)
    for one in (stay, *_elsewhere(draft, vms, stay, demand, free)):
        if _fits_throughout(draft, vms, one, then):
            return one
    return _beside_all(draft, vms, stay, demand, free, then)


def _beside_all(
    draft: PlanDraft, vms: Sequence[VirtualMachine], stay: Stay, demand: GangDemand, free: IntArray, then: _Then
) -> Stay | Reason:
    """The stay on hosts where all is there for it beside every promise at once, and at each instant too.

    A VM group that shares one host may be promised one until some instant and another from then on.
    """
    allowed = np.logical_or.reduce(demand.allowed)
    able = allowed & (free >= np.array(stay.amounts).min(axis=0)).all(axis=1)
    rows = set(np.flatnonzero(able).tolist())
    near, lacking = then.near(rows), reasons.AFFINITY
    text = "the members of its VM group are promised different hosts during that time"
    for _ in range(BESIDE_ALL_TRIED):
        with then.at(stay.start_s, rows, near) as room, room.beside(free - room.free):
            placed = _placed(draft, vms, room, allowed)
        if isinstance(placed, Unplaced):
            lacking, text = placed.reason.code, without_mend(placed.reason.text).removesuffix(".")
            break
        found = replace(stay, host_rows=rows_of(draft, placed))
        if _fits_throughout(draft, vms, found, then):
            return found
        allowed[list(found.host_rows)] = False
    return Reason(lacking, text)


def has_all_then(draft: PlanDraft, vms: Sequence[VirtualMachine], stay: Stay) -> bool:
    """The hosts of a stay have devices, cores and a place beside the VM group for it whenever others' time comes."""
    lease = draft.state.leases[stay.lease_id]
    if not need_matching(vms):
        return True
    then = _Then(draft, lease, vms, _promised_beside(draft, lease, stay.start_s, stay.end_s))
    return _fits_throughout(draft, vms, stay, then)


def matched_from_s(
    draft: PlanDraft, vms: Sequence[VirtualMachine], not_before_s: int, before_s: int, allowed: BoolArray
) -> Iterator[int]:
    """Instants between two at which some hosts have devices, cores and a place beside the VM group: the first, and
    whenever somebody ends later, ascending.

    `allowed`, shape (H,): where one of the VMs may go. Of the ends of others only the next few are looked at.
    """
    lease = draft.state.leases[draft.state.lease_of_vm[vms[0].id]]
    beside = _promised_beside(draft, lease, not_before_s, before_s)
    ends_s = {end_s for _, one in beside if (end_s := one.end_s) is not None}
    ends_s |= {end_s for vm in draft.matched.guests.everywhere if (end_s := ends_s_of(draft, vm)) is not None}
    later_s = sorted(end_s for end_s in ends_s if not_before_s < end_s < before_s)
    then, rows = _Then(draft, lease, vms, beside), set(np.flatnonzero(allowed).tolist())
    near = then.near(rows)
    for at_s in (not_before_s, *later_s[:ENDS_TRIED]):
        # Some hosts have all of it at that instant, were there CPU and memory.
        with then.at(at_s, rows, _under_way_at(near, at_s)) as room, room.beside(np.full_like(room.free, _PLENTY)):
            placed = _placed(draft, vms, room, allowed)
        if not isinstance(placed, Unplaced) or placed.reason.code not in _LACKING:
            yield at_s


def _under_way_at(beside: Sequence[_Promised], at_s: int) -> list[_Promised]:
    """Of these promises those whose stay has begun by `at_s` and is not over then."""
    return [one for one in beside if one[1].start_s <= at_s < (one[1].end_s or END_OF_TIME_S)]


def need_matching(vms: Sequence[VirtualMachine]) -> bool:
    """Does any of these ask for more than can be counted?"""
    return any(vm.needs_matching for vm in vms)


def leaves_what_is_matched(vm: VirtualMachine, wanted: Sequence[VirtualMachine]) -> bool:
    """Would a VM that is sent out for others leave what these want, as far as it has any of it?

    Devices are counted when it is chosen who leaves. For cores, and for the rules of a VM group, nobody is sent out.
    """
    if vm.topology is None and vm.vm_group_id is None:
        return True
    has_cores = vm.topology is not None and any(one.topology is not None for one in wanted)
    return not has_cores and (vm.vm_group_id is None or vm.vm_group_id not in _groups(wanted))


def _groups(vms: Sequence[VirtualMachine]) -> Set[int]:
    return {vm.vm_group_id for vm in vms if vm.vm_group_id is not None}


def _promised_beside(draft: PlanDraft, lease: Lease, start_s: int, end_s: int | None) -> list[_Promised]:
    """What was promised to others for some of this time, and is more than CPU and memory; first come first."""
    until_s, now_s = END_OF_TIME_S if end_s is None else end_s, draft.state.now_s
    found = []
    for lease_id, stays in draft.timeline.stays.items():
        if lease_id == lease.id:
            continue
        for one in stays:
            overlaps = one.start_s < until_s and (one.end_s is None or one.end_s > start_s)
            if one.firm and overlaps:
                vms = _matched_vms(draft, lease_id)
                # Who is on a host is there already, but for what he is promised behind that.
                comes = one.start_s > now_s or all(vm.host_id is None for vm in vms)
                if not vms or not comes:
                    continue
                those = vms_of_stay(draft, one, vms)
                if len(one.host_rows) == len(those):
                    found.append((those, one))
    return sorted(found, key=lambda promised: (promised[1].start_s, promised[1].lease_id))


def _matched_vms(draft: PlanDraft, lease_id: int) -> Sequence[VirtualMachine]:
    """The VMs of a lease, where they ask for more than can be counted; else none. Asked once a decision."""
    known = draft.matched.vms.get(lease_id)
    if known is None:
        lease = draft.state.leases.get(lease_id)
        vms = () if lease is None else draft.members(lease)
        known = vms if need_matching(vms) else ()
        draft.matched.vms[lease_id] = known
    return known


def _elsewhere(
    draft: PlanDraft, vms: Sequence[VirtualMachine], stay: Stay, demand: GangDemand, free: IntArray
) -> Iterator[Stay]:
    """A few of the other hosts on which one VM alone would have CPU and memory; those of a gang are sought together."""
    if len(vms) > 1:
        return
    able = demand.allowed[0] & (free >= np.array(stay.amounts[0])).all(axis=1)
    order = np.arange(len(able)) if demand.host_order is None else demand.host_order
    others = (int(row) for row in order[able[order]] if row != stay.host_rows[0])
    suited = (row for row in others if _has_devices(draft, vms[0], row))
    yield from (replace(stay, host_rows=(row,)) for row in islice(suited, HOSTS_TRIED))


def _has_devices(draft: PlanDraft, vm: VirtualMachine, row: int) -> bool:
    """A host would have the devices for a VM if nobody had any; asked once a decision for VMs that ask for the same."""
    if not vm.pci_requests:
        return True
    known = draft.matched.rows_with_devices.setdefault(vm.pci_requests, {})
    if row not in known:
        known[row] = assign_devices(vm.pci_requests, draft.state.hosts.hosts[row].pci_devices) is not None
    return known[row]


class _Then:
    """What is asked of each host on which a stay might be: what is there at each instant that matters.

    One room serves all hosts and instants: what is on a host then is taken for as long as it is asked. `lets_leave`:
    who gives way is made to leave for the lease, if it may preempt, and leaves devices.
    """

    def __init__(
        self,
        draft: PlanDraft,
        lease: Lease,
        vms: Sequence[VirtualMachine],
        beside: Sequence[_Promised],
        *,
        lets_leave: bool = True,
    ) -> None:
        self._draft, self._vms, self._wanted = draft, vms, draft.members(lease)
        self._leaving = _leaving(draft, lease) if lets_leave else frozenset()
        groups = _groups(vms)
        self._of_groups = [one for one in beside if not groups.isdisjoint(_groups(one[0]))]
        of_group = draft.matched.guests.of_group
        self._guests_of_groups = [vm for group_id in sorted(groups) for vm in of_group.get(group_id, ())]
        self._on_row: dict[int, list[_Promised]] = {}
        self._by_hardware = any(vm.needs_hardware for vm in vms)
        # Of whom only asks for a place beside its VM group nobody else is in the way.
        self._by_row = self._by_hardware or any(draft.matchmaker.match(vm).follows_current_vms for vm in vms)
        if self._by_row:
            for one in beside:
                for row in set(one[1].host_rows) if groups.isdisjoint(_groups(one[0])) else ():
                    self._on_row.setdefault(row, []).append(one)
        self._groups: GroupsThen | None = None

    def near(self, rows: Set[int]) -> list[_Promised]:
        """What was promised to others on these rows, or to their VM groups anywhere; first come first."""
        on_rows = {id(one): one for row in rows for one in self._on_row.get(row, ())}
        return sorted((*self._of_groups, *on_rows.values()), key=lambda one: (one[1].start_s, one[1].lease_id))

    def groups_from(self, start_s: int) -> GroupsThen | None:
        """What VM groups demand of a stay from then on, which is the same for all hosts; None where that is not all."""
        if self._groups is None and not self._by_hardware:
            self._groups = GroupsThen(self._vms, start_s, self._of_groups, self._ends_s, self._draft.matched.room_then)
            self._draft.matched.count(self._vms[0].uid, len(self._groups))
        return self._groups

    @contextmanager
    def at(self, at_s: int, rows: Set[int], there: Sequence[_Promised]) -> Iterator[Room]:
        """Meanwhile devices and cores on these rows, and VM groups, are as they will be."""
        room = self._draft.matched.room_then
        mark = room.checkpoint()
        self._draft.matched.count(self._vms[0].uid, len(self._vms) + len(there))
        on_rows = self._draft.matched.guests.on_row if self._by_row else {}
        for vm in self._vms:
            # What is sent out now is still there, and has what it wants then.
            room.leave(vm.id)
        for vm in (*self._guests_of_groups, *(one for row in rows for one in on_rows.get(row, ()))):
            ends_s = self._ends_s(vm)
            if ends_s is not None and ends_s <= at_s:
                room.leave(vm.id)
        for vms, stay in there:
            for placement in _there(self._draft, vms, stay):
                # It may be there still in the slot before, and whoever leaves that does not know when.
                room.leave(placement.vm_id)
                room.take(placement)
        try:
            yield room
        finally:
            room.rollback(mark)

    def _ends_s(self, vm: VirtualMachine) -> int | None:
        """When a VM will have left its host, at once where it is made to leave; None where nobody knows."""
        if self._draft.state.lease_of_vm.get(vm.id, -1) in self._leaving and leaves_what_is_matched(vm, self._wanted):
            return self._draft.state.now_s
        return ends_s_of(self._draft, vm)


def _fits_throughout(draft: PlanDraft, vms: Sequence[VirtualMachine], stay: Stay, then: _Then) -> bool:
    """Its own hosts have all of it, at its start and whenever somebody else's time comes."""
    groups = then.groups_from(stay.start_s)
    if groups is not None:
        draft.matched.count(vms[0].uid, 1)
        return groups.allow(vms, stay.host_rows)
    rows = set(stay.host_rows)
    near = then.near(rows)
    instants = sorted({stay.start_s, *(one.start_s for _, one in near if one.start_s > stay.start_s)})
    come, there = 0, list[_Promised]()
    for at_s in instants:
        while come < len(near) and near[come][1].start_s <= at_s:
            there.append(near[come])
            come += 1
        there = [one for one in there if at_s < (one[1].end_s or END_OF_TIME_S)]
        with then.at(at_s, rows, there) as room:
            for vm, row, placement in zip(vms, stay.host_rows, _there(draft, vms, stay), strict=True):
                if lacks_on(room, vm, row) is not None:
                    return False
                room.take(placement)
    return True


def lacks_on(room: Room, vm: VirtualMachine, row: int) -> str | None:
    """The code of what the host of a row lacks for a VM of what cannot be counted; None where that is nothing."""
    if is_unreadable(vm, room.snapshot):
        return reasons.AFFINITY
    rules = group_rules(vm, room)
    if rules is not None and not rules.mask[row]:
        return reasons.AFFINITY
    if vm.pci_requests and assign_devices(vm.pci_requests, room.free_devices(int(room.hosts.ids[row]))) is None:
        return reasons.DEVICES
    if vm.topology is not None and not room.numa_room(int(room.hosts.ids[row])).fits(vm):
        return reasons.NUMA
    return None


def _leaving(draft: PlanDraft, lease: Lease) -> Set[int]:
    """The leases that would be taken off their hosts for this one."""
    return frozenset({one.lease.id for one in giving_way(draft)} if lease.preempts else ())


def _there(draft: PlanDraft, vms: Sequence[VirtualMachine], stay: Stay) -> list[Placement]:
    ids = draft.state.hosts.ids
    return [Placement(vm.id, int(ids[row])) for vm, row in zip(vms, stay.host_rows, strict=True)]


def _placed(
    draft: PlanDraft, vms: Sequence[VirtualMachine], room: Room, among: BoolArray
) -> tuple[Placement, ...] | Unplaced:
    if len(vms) > 1:
        return draft.matchmaker.place_together(vms, room, among)
    alone = draft.matchmaker.place(vms[0], room, among, limited=False)
    return alone if isinstance(alone, Unplaced) else (alone,)
