"""Devices, cores and the rules of VM groups at a time to come: the slot table counts CPU and memory alone.

The matchmaker is asked as if that time had come: who ends by then is gone, who gives way as well, and what was promised
firmly for the same time has its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from itertools import islice

import numpy as np

from one_preempt.core.availability.gang_demand import BoolArray, GangDemand
from one_preempt.core.availability.slot_table import SlotTable
from one_preempt.core.availability.steps import END_OF_TIME_S
from one_preempt.core.availability.timeline import Stay
from one_preempt.core.matching import reasons
from one_preempt.core.matching.reasons import Unplaced, without_mend
from one_preempt.core.matching.room import Room
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.plan import Placement, Reason
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.power_draft import needs_hardware
from one_preempt.core.phases.room_ahead import giving_way, rows_of
from one_preempt.core.victims import has_overrun

# What else it lacks now, space and addresses, others may have given back by then.
_LACKING = frozenset({reasons.DEVICES, reasons.NUMA, reasons.AFFINITY})
_PLENTY = 1 << 40
# So many ends of others are looked at for the first from which on a wish could have what it asks for.
ENDS_TRIED = 16
# So many other hosts are tried for one VM at all instants of its time, before it is tried beside all promises at once.
HOSTS_TRIED = 16
_Promised = tuple[Sequence[VirtualMachine], Stay]


def matched_then(
    draft: PlanDraft, vms: Sequence[VirtualMachine], stay: Stay, demand: GangDemand, table: SlotTable
) -> Stay | Reason:
    """The stay, on other hosts where its own lack devices, cores or a place beside its VM group; else what is lacking.

    `demand` says where the VMs may go, `table` what is free there. Where that is what is firm, those who give way leave
    for it; else nobody does.
    """
    lease = draft.state.leases[stay.lease_id]
    if not is_matched(vms):
        return stay
    beside = _promised_beside(draft, lease, stay.start_s, stay.end_s)
    lets_leave = table is draft.timeline.firm_stays
    for one in (stay, *_elsewhere(vms, stay, demand, table)):
        if _fits_throughout(draft, lease, vms, one, beside, lets_leave=lets_leave):
            return one
    room = _room_at(draft, lease, stay.start_s, beside, lets_leave=lets_leave)
    with room.beside(table.free_during(stay.start_s, stay.end_s) - room.free):
        placed = _placed(draft, vms, room, np.logical_or.reduce(demand.allowed))
    if not isinstance(placed, Unplaced):
        return replace(stay, host_rows=rows_of(draft, placed))
    return Reason(placed.reason.code, without_mend(placed.reason.text).removesuffix("."))


def has_all_then(draft: PlanDraft, vms: Sequence[VirtualMachine], stay: Stay) -> bool:
    """The hosts of a stay have devices, cores and a place beside the VM group for it whenever others' time comes."""
    lease = draft.state.leases[stay.lease_id]
    if not is_matched(vms):
        return True
    return _fits_throughout(draft, lease, vms, stay, _promised_beside(draft, lease, stay.start_s, stay.end_s))


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
    ends_s |= {end_s for vm in _guests(draft) if (end_s := _ends_s(draft, vm)) is not None}
    later_s = sorted(end_s for end_s in ends_s if not_before_s < end_s < before_s)
    for at_s in (not_before_s, *later_s[:ENDS_TRIED]):
        if _is_anywhere(draft, lease, vms, beside, at_s, allowed):
            yield at_s


def _is_anywhere(
    draft: PlanDraft,
    lease: Lease,
    vms: Sequence[VirtualMachine],
    beside: Sequence[_Promised],
    at_s: int,
    allowed: BoolArray,
) -> bool:
    """Some hosts have all of it at an instant, were there CPU and memory."""
    room = _room_at(draft, lease, at_s, _at(beside, at_s))
    with room.beside(np.full_like(room.free, _PLENTY)):
        placed = _placed(draft, vms, room, allowed)
    return not isinstance(placed, Unplaced) or placed.reason.code not in _LACKING


def _at(beside: Sequence[_Promised], at_s: int) -> list[_Promised]:
    """Those of these whose time it is."""
    return [one for one in beside if one[1].start_s <= at_s < (one[1].end_s or END_OF_TIME_S)]


def is_matched(vms: Sequence[VirtualMachine]) -> bool:
    """Does any of these ask for more than can be counted?"""
    return any(map(_is_matched, vms))


def _is_matched(vm: VirtualMachine) -> bool:
    return needs_hardware(vm) or vm.vm_group_id is not None


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
    until_s = END_OF_TIME_S if end_s is None else end_s
    found = []
    for lease_id, stays in draft.timeline.stays.items():
        other = draft.state.leases.get(lease_id)
        if other is None or lease_id == lease.id:
            continue
        for one in stays:
            overlaps = one.start_s < until_s and (one.end_s is None or one.end_s > start_s)
            if one.firm and overlaps and len(one.host_rows) == len(other.vm_ids):
                vms = draft.members(other)
                if any(map(_is_matched, vms)) and all(vm.host_id is None for vm in vms):
                    found.append((vms, one))
    return sorted(found, key=lambda promised: (promised[1].start_s, promised[1].lease_id))


def _elsewhere(vms: Sequence[VirtualMachine], stay: Stay, demand: GangDemand, table: SlotTable) -> Iterator[Stay]:
    """A few of the other hosts on which one VM alone would have CPU and memory; those of a gang are sought together."""
    if len(vms) > 1:
        return
    free = table.free_during(stay.start_s, stay.end_s)
    able = demand.allowed[0] & (free >= np.array(stay.amounts[0])).all(axis=1)
    order = np.arange(len(able)) if demand.host_order is None else demand.host_order
    others = (int(row) for row in order[able[order]] if row != stay.host_rows[0])
    yield from (replace(stay, host_rows=(row,)) for row in islice(others, HOSTS_TRIED))


def _fits_throughout(
    draft: PlanDraft,
    lease: Lease,
    vms: Sequence[VirtualMachine],
    stay: Stay,
    beside: Sequence[_Promised],
    *,
    lets_leave: bool = True,
) -> bool:
    """Its own hosts have all of it, at its start and whenever somebody else's time comes."""
    rows, groups = set(stay.host_rows), _groups(vms)
    near = [one for one in beside if not rows.isdisjoint(one[1].host_rows) or not groups.isdisjoint(_groups(one[0]))]
    instants = sorted({stay.start_s, *(one.start_s for _, one in near if one.start_s > stay.start_s)})
    return all(_fits_at(draft, lease, vms, stay, near, at_s, lets_leave=lets_leave) for at_s in instants)


def _fits_at(
    draft: PlanDraft,
    lease: Lease,
    vms: Sequence[VirtualMachine],
    stay: Stay,
    beside: Sequence[_Promised],
    at_s: int,
    *,
    lets_leave: bool,
) -> bool:
    """Its own hosts have all of it at an instant, beside those who are there then."""
    room = _room_at(draft, lease, at_s, _at(beside, at_s), lets_leave=lets_leave)
    with room.beside(np.full_like(room.free, _PLENTY)):
        placed = draft.matchmaker.place_at(vms, _there(draft, vms, stay), room)
    return not isinstance(placed, Unplaced) or placed.reason.code not in _LACKING


def _room_at(
    draft: PlanDraft,
    lease: Lease,
    at_s: int,
    beside: Sequence[tuple[Sequence[VirtualMachine], Stay]],
    *,
    lets_leave: bool = True,
) -> Room:
    """What is left of devices and cores at an instant; CPU and memory are no question.

    `lets_leave`: who gives way is made to leave for the lease, if it may preempt, and leaves devices.
    """
    room, wanted = draft.matchmaker.new_room(), draft.members(lease)
    leaving = frozenset({one.lease.id for one in giving_way(draft)} if lets_leave and lease.preempts else ())
    for vm in _guests(draft):
        sent_out = leaving if leaves_what_is_matched(vm, wanted) else frozenset()
        if _is_gone(draft, vm, at_s, sent_out):
            room.leave(vm.id)
    for vms, stay in beside:
        for placement in _there(draft, vms, stay):
            room.take(placement)
    return room


def _guests(draft: PlanDraft) -> Sequence[VirtualMachine]:
    """Who is on a host and has more of it than CPU and memory; looked for once a decision."""
    if draft.matched_guests is None:
        vms = draft.state.snapshot.vms.values()
        draft.matched_guests = [vm for vm in vms if vm.host_id is not None and _is_matched(vm)]
    return draft.matched_guests


def _is_gone(draft: PlanDraft, vm: VirtualMachine, at_s: int, leaving: Set[int]) -> bool:
    lease_id = draft.state.lease_of_vm.get(vm.id, -1)
    if lease_id in leaving:
        return lease_id in draft.state.leases
    ends_s = _ends_s(draft, vm)
    return ends_s is not None and ends_s <= at_s


def _ends_s(draft: PlanDraft, vm: VirtualMachine) -> int | None:
    """When a VM will have left its host; None where nobody knows."""
    lease_id = draft.state.lease_of_vm.get(vm.id, -1)
    lease, stays = draft.state.leases.get(lease_id), draft.timeline.stays.get(lease_id, ())
    return stays[0].end_s if lease is not None and stays and not has_overrun(lease, draft.state.now_s) else None


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
