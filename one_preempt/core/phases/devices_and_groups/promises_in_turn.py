"""Who has devices, cores and places beside VM groups at times to come: promises are put on their hosts in turn."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from msgspec import Struct

from one_preempt.core.availability.steps import END_OF_TIME_S
from one_preempt.core.matching import reasons
from one_preempt.core.matching.devices import serves
from one_preempt.core.matching.room import Room
from one_preempt.core.model.plan import Placement
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases.devices_and_groups.matched_promises import MatchedPromise
from one_preempt.core.phases.devices_and_groups.matched_then import lacks_on, leaves_what_is_matched, need_matching
from one_preempt.core.phases.devices_and_groups.promises_ahead import guests_near, promises_ahead
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.giving_way import leaving_leases
from one_preempt.core.phases.reservations.known_ends import ends_s_of


class Arrival(Struct, frozen=True):
    """Who is placed in this decision and asks for more than CPU and memory, until when as far as that is known."""

    placement: Placement
    until_s: int


def lacking_at_each(
    draft: PlanDraft,
    near: Sequence[MatchedPromise],
    instants: Sequence[int],
    arriving: Sequence[Arrival],
    leaving: Set[int],
) -> list[tuple[int, Mapping[int, str]]]:
    """At each of these instants, ascending: which of their VMs, by id, would lack something, and the code of what.

    Who is placed now is there then, if he does not end before, and so is everybody but those who end, are `leaving`, or
    are sent out for one who comes. `near` are ascending. Where nobody ends from one instant to the next, only those are
    put on their hosts who come: each takes what it finds before the next, so all before them are as they were.
    """
    room, known, found = draft.matched.room_then, promises_ahead(draft), list[tuple[int, Mapping[int, str]]]()
    starts_s, untils_s = [one.stay.start_s for one in near], sorted(one.until_s for one in near)
    ends_s, of_arrivals_s = _guests_end_s(draft, near), sorted(one.until_s for one in arriving)
    of_guests_s, giving = sorted(ends_s.values()), _devices_to_be_had(draft, near)
    mark, as_of, come, lacking = room.checkpoint(), None, 0, dict[int, str]()
    for at_s in instants:
        left = [bisect_right(one, at_s) for one in (untils_s, of_arrivals_s, of_guests_s)]
        if left != as_of:
            room.rollback(mark)
            there = [one.placement for one in arriving if one.until_s > at_s]
            _begin(room, there, leaving, {vm_id for vm_id, end_s in ends_s.items() if end_s <= at_s})
            as_of, come, lacking = left, 0, {}
        coming = [one for one in near[come : bisect_right(starts_s, at_s)] if one.until_s > at_s]
        if coming:
            come = bisect_right(starts_s, at_s)
            lacking = lacking | _put(room, coming, giving)
            known.looked_at += sum(one.weight for one in coming)
        found.append((at_s, lacking))
    room.rollback(mark)
    return found


def _guests_end_s(draft: PlanDraft, near: Sequence[MatchedPromise]) -> dict[int, int]:
    """When the VMs there will have left that end, or are being sent out already.

    What runs in one slot is in nobody's way in its next one, at the latest.
    """
    leaving, lease_of = leaving_leases(draft), draft.state.lease_of_vm
    guests = guests_near(draft, near)
    ends_s = {vm.id: 0 if lease_of.get(vm.id) in leaving else ends_s_of(draft, vm) for vm in guests}
    found = {vm_id: end_s for vm_id, end_s in ends_s.items() if end_s is not None}
    for one in near:
        for vm_id in one.lease.vm_ids:
            if vm_id in ends_s:
                found[vm_id] = min(found.get(vm_id, END_OF_TIME_S), one.stay.start_s)
    return found


def _devices_to_be_had(draft: PlanDraft, near: Sequence[MatchedPromise]) -> Mapping[int, Sequence[VirtualMachine]]:
    """By host id who has PCI devices there and could be made to leave, the lowest lease first."""
    if not any(one.lease.preempts for one in near):
        return {}
    giving, lease_of, found = promises_ahead(draft).giving, draft.state.lease_of_vm, dict[int, list[VirtualMachine]]()
    for vm in guests_near(draft, near):
        if vm.pci_requests and vm.host_id is not None and lease_of.get(vm.id) in giving:
            found.setdefault(vm.host_id, []).append(vm)
    return {host_id: sorted(vms, key=lambda vm: (lease_of[vm.id], vm.id)) for host_id, vms in found.items()}


def placed_in_turn(
    draft: PlanDraft,
    promises: Sequence[MatchedPromise],
    there: Sequence[Placement],
    leaving: Set[int],
    gone: Set[int],
    sends_nobody: int | None = None,
) -> dict[int, str]:
    """Which VMs of these, by id, find no place on their hosts beside who is there, and the code of what each lacks.

    Of CPU, memory, space and addresses nothing is asked; each takes what it finds before the next, or what is left to
    it by those who are sent out for it, but for the lease that `sends_nobody`. Who is `there` comes once those who are
    `leaving` have left, and before the others are `gone`.
    """
    room = draft.matched.room_then
    mark = room.checkpoint()
    _begin(room, there, leaving, gone)
    lacking = _put(room, promises, _devices_to_be_had(draft, promises), sends_nobody)
    promises_ahead(draft).looked_at += sum(one.weight for one in promises)
    room.rollback(mark)
    return lacking


def _begin(room: Room, there: Sequence[Placement], leaving: Set[int], gone: Set[int]) -> None:
    for vm_id in sorted(leaving):
        room.leave(vm_id)
    for placement in there:
        room.take(placement)
    for vm_id in sorted(gone):
        room.leave(vm_id)


def _put(
    room: Room,
    promises: Sequence[MatchedPromise],
    giving: Mapping[int, Sequence[VirtualMachine]],
    sends_nobody: int | None = None,
) -> dict[int, str]:
    found = {}
    for one in promises:
        may_send = one.lease.preempts and one.lease.id != sends_nobody
        for vm, row in zip(one.vms, one.stay.host_rows, strict=True):
            code = _take(room, one, vm, row, giving if may_send else {})
            if code is not None:
                found[vm.id] = code
    return found


def _take(
    room: Room, one: MatchedPromise, vm: VirtualMachine, row: int, giving: Mapping[int, Sequence[VirtualMachine]]
) -> str | None:
    """Have its host give a VM of a promise what cannot be counted; the code of what it lacks.

    Those of `giving`, by host id, who have devices that it lacks there leave one after the other, and leave them to
    those who come later as well; nobody where it lacks something all the same. The other VMs of a gang keep what is
    theirs then: what one lacks may be back in time, or is found elsewhere.
    """
    mark, host_id = room.checkpoint(), int(room.hosts.ids[row])
    code, leavers = lacks_on(room, vm, row), _in_its_way(room, one, vm, giving.get(host_id, ()))
    while code == reasons.DEVICES and (leaver := next(leavers, None)) is not None:
        room.leave(leaver.id)
        code = lacks_on(room, vm, row)
    if code is None:
        room.take(Placement(vm.id, host_id))
    else:
        room.rollback(mark)
    return code


def _in_its_way(
    room: Room, one: MatchedPromise, wanting: VirtualMachine, giving: Iterable[VirtualMachine]
) -> Iterator[VirtualMachine]:
    """Those of a host who have devices of a kind that a VM of the promise wants, and would leave them."""
    for vm in giving:
        if vm.id not in room.gone and leaves_what_is_matched(vm, one.vms) and vm.host_id is not None:
            devices = [device for device in room.snapshot.hosts[vm.host_id].pci_devices if device.vm_id == vm.id]
            if any(serves(device, request) for device in devices for request in wanting.pci_requests):
                yield vm


def arrivals(draft: PlanDraft) -> list[Arrival]:
    """Who was placed in this decision so far, and has more than CPU and memory."""
    vms, found, now_s = draft.state.snapshot.vms, list[Arrival](), draft.state.now_s
    for placement in draft.room.placed.values():
        if need_matching((vms[placement.vm_id],)):
            lease_id = draft.state.lease_of_vm.get(placement.vm_id, -1)
            # What it is promised behind that is no part of it.
            ends_s = [stay.end_s for stay in draft.timeline.stays.get(lease_id, ()) if stay.start_s <= now_s][-1:]
            found.append(Arrival(placement, END_OF_TIME_S if not ends_s or ends_s[0] is None else ends_s[0]))
    return found


def gone_by(draft: PlanDraft, near: Sequence[MatchedPromise], at_s: int) -> set[int]:
    """The VMs there that will have ended by an instant, or are being sent out already."""
    return {vm_id for vm_id, end_s in _guests_end_s(draft, near).items() if end_s <= at_s}
