"""Who has devices, cores and places beside VM groups at times to come: promises are put on their hosts in turn."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from one_preempt.core.availability.steps import END_OF_TIME_S
from one_preempt.core.matching import reasons
from one_preempt.core.matching.devices import assign_devices
from one_preempt.core.matching.room import Room
from one_preempt.core.matching.vm_groups import group_rules
from one_preempt.core.model.plan import Placement
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases.devices_and_groups.matched_promises import (
    MatchedPromise,
    known_promises,
)
from one_preempt.core.phases.devices_and_groups.matched_then import is_matched, leaves_what_is_matched
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.giving_way import leaving_leases
from one_preempt.core.victims import has_overrun


@dataclass(frozen=True, slots=True)
class Arrival:
    """Who is placed in this decision and asks for more than CPU and memory, until when as far as that is known."""

    placement: Placement
    until_s: int


@dataclass(frozen=True, slots=True)
class _Moment:
    """Who is where at an instant to come, and who of those promised lacks something, with the code of what.

    `since` tells from which of the instants on nobody has left: those put before are as they were then.
    """

    at_s: int
    since: int
    active: Sequence[MatchedPromise]
    there: Sequence[Placement]
    gone: Set[int]
    lacking: Mapping[int, str]


def lacking_at_each(
    draft: PlanDraft,
    near: Sequence[MatchedPromise],
    instants: Sequence[int],
    arriving: Sequence[Arrival],
    leaving: Set[int],
    only: int | None = None,
) -> Iterator[tuple[int, Mapping[int, str]]]:
    """At each of these instants, ascending: which of these leases would lack something, and the code of what.

    Who is placed now is there then, if he does not end before, and so is everybody but those who end, are `leaving`, or
    would be sent out for the lease itself. `near` are ascending; `only` that lease is asked for, where one is given.
    """
    enough = dict[tuple[int, int], bool]()
    for one in _moments(draft, near, instants, arriving, leaving):
        lacking = {lease_id: code for lease_id, code in one.lacking.items() if only is None or lease_id == only}
        for place, promise in enumerate(one.active if lacking else ()):
            key = promise.lease.id, one.since
            if promise.lease.id not in lacking or not promise.lease.preempts:
                continue
            if key not in enough:
                gone, before = one.gone | _sent_out_for(draft, promise, near), one.active[: place + 1]
                enough[key] = promise.lease.id not in placed_in_turn(draft, before, one.there, leaving, gone)
            if enough[key]:
                del lacking[promise.lease.id]
        yield one.at_s, lacking


def _moments(
    draft: PlanDraft,
    near: Sequence[MatchedPromise],
    instants: Sequence[int],
    arriving: Sequence[Arrival],
    leaving: Set[int],
) -> list[_Moment]:
    """These promises put on their hosts in turn, at one instant after the other.

    Where nobody leaves from one to the next, only those are put there who come: each takes what it finds before the
    next, so all before them are as they were.
    """
    room, known, found = draft.room_then, known_promises(draft), list[_Moment]()
    starts_s, untils_s = [one.stay.start_s for one in near], sorted(one.until_s for one in near)
    ends_s, of_arrivals_s = _guests_end_s(draft, near), sorted(one.until_s for one in arriving)
    of_guests_s = sorted(ends_s.values())
    mark, as_of, come, since = room.checkpoint(), None, 0, 0
    active, there, gone, lacking = list[MatchedPromise](), list[Placement](), set[int](), dict[int, str]()
    for at_s in instants:
        left = [bisect_right(one, at_s) for one in (untils_s, of_arrivals_s, of_guests_s)]
        if left != as_of:
            room.rollback(mark)
            there = [one.placement for one in arriving if one.until_s > at_s]
            gone = {vm_id for vm_id, end_s in ends_s.items() if end_s <= at_s}
            _begin(room, there, leaving, gone)
            as_of, come, since, active, lacking = left, 0, at_s, [], {}
        coming = [one for one in near[come : bisect_right(starts_s, at_s)] if one.until_s > at_s]
        if coming:
            come, active = bisect_right(starts_s, at_s), [*active, *coming]
            lacking = lacking | _put(room, coming)
            known.looked_at += sum(one.weight for one in coming)
        found.append(_Moment(at_s, since, active, there, gone, lacking))
    room.rollback(mark)
    return found


def _guests_end_s(draft: PlanDraft, near: Sequence[MatchedPromise]) -> dict[int, int]:
    """When the VMs there will have left that end, or are being sent out already.

    What runs in one slot is in nobody's way in its next one, at the latest.
    """
    leaving, lease_of = leaving_leases(draft), draft.state.lease_of_vm
    guests = known_promises(draft).guests(draft, near)
    ends_s = {vm.id: 0 if lease_of.get(vm.id) in leaving else ends_s_of(draft, vm) for vm in guests}
    found = {vm_id: end_s for vm_id, end_s in ends_s.items() if end_s is not None}
    for one in near:
        for vm_id in one.lease.vm_ids:
            if vm_id in ends_s:
                found[vm_id] = min(found.get(vm_id, END_OF_TIME_S), one.stay.start_s)
    return found


def _sent_out_for(draft: PlanDraft, one: MatchedPromise, near: Sequence[MatchedPromise]) -> set[int]:
    """The VMs there that could be made to leave for a lease, and would leave what it wants."""
    giving, lease_of = known_promises(draft).giving, draft.state.lease_of_vm
    guests = known_promises(draft).guests(draft, near)
    return {vm.id for vm in guests if lease_of.get(vm.id) in giving and leaves_what_is_matched(vm, one.vms)}


def placed_in_turn(
    draft: PlanDraft,
    promises: Sequence[MatchedPromise],
    there: Sequence[Placement],
    leaving: Set[int],
    gone: Set[int],
) -> dict[int, str]:
    """Who of these finds no place on its hosts beside who is there, and the code of what it lacks.

    Of CPU, memory, space and addresses nothing is asked; each takes what it finds before the next. Who is `there` comes
    once those who are `leaving` have left, and before the others are `gone`.
    """
    room = draft.room_then
    mark = room.checkpoint()
    _begin(room, there, leaving, gone)
    lacking = _put(room, promises)
    known_promises(draft).looked_at += sum(one.weight for one in promises)
    room.rollback(mark)
    return lacking


def _begin(room: Room, there: Sequence[Placement], leaving: Set[int], gone: Set[int]) -> None:
    for vm_id in sorted(leaving):
        room.leave(vm_id)
    for placement in there:
        room.take(placement)
    for vm_id in sorted(gone):
        room.leave(vm_id)


def _put(room: Room, promises: Sequence[MatchedPromise]) -> dict[int, str]:
    codes = ((one.lease.id, _take(room, one)) for one in promises)
    return {lease_id: code for lease_id, code in codes if code is not None}


def _take(room: Room, one: MatchedPromise) -> str | None:
    """Have its hosts give all VMs of a promise what cannot be counted, or none of them; the code of what one lacks."""
    mark = room.checkpoint()
    for vm, row in zip(one.vms, one.stay.host_rows, strict=True):
        host_id = int(room.hosts.ids[row])
        code = _lacks(room, vm, host_id, row)
        if code is not None:
            room.rollback(mark)
            return code
        room.take(Placement(vm.id, host_id))
    return None


def _lacks(room: Room, vm: VirtualMachine, host_id: int, row: int) -> str | None:
    rules = group_rules(vm, room)
    if rules is not None and not rules.mask[row]:
        return reasons.AFFINITY
    if vm.pci_requests and assign_devices(vm.pci_requests, room.free_devices(host_id)) is None:
        return reasons.DEVICES
    if vm.topology is not None and not room.numa_room(host_id).fits(vm):
        return reasons.NUMA
    return None


def arrivals(draft: PlanDraft) -> list[Arrival]:
    """Who was placed in this decision so far, and has more than CPU and memory."""
    vms, found, now_s = draft.state.snapshot.vms, list[Arrival](), draft.state.now_s
    for placement in draft.room.placed.values():
        if is_matched((vms[placement.vm_id],)):
            lease_id = draft.state.lease_of_vm.get(placement.vm_id, -1)
            # What it is promised behind that is no part of it.
            ends_s = [stay.end_s for stay in draft.timeline.stays.get(lease_id, ()) if stay.start_s <= now_s][-1:]
            found.append(Arrival(placement, END_OF_TIME_S if not ends_s or ends_s[0] is None else ends_s[0]))
    return found


def gone_by(draft: PlanDraft, near: Sequence[MatchedPromise], at_s: int) -> set[int]:
    """The VMs there that will have ended by an instant, or are being sent out already."""
    return {vm_id for vm_id, end_s in _guests_end_s(draft, near).items() if end_s <= at_s}


def ends_s_of(draft: PlanDraft, vm: VirtualMachine) -> int | None:
    """When a VM will have left its host; None where nobody knows."""
    lease = draft.state.leases.get(draft.state.lease_of_vm.get(vm.id, -1))
    stays = () if lease is None else draft.timeline.stays.get(lease.id, ())
    return stays[0].end_s if lease is not None and stays and not has_overrun(lease, draft.state.now_s) else None
