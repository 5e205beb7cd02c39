"""Devices, cores and places beside a VM group that were promised for a time to come are not given away before.

The slot table counts CPU and memory alone. So it is looked at as if each promised start had come, with those there who
are there now and do not end by then: once with whoever is to be placed, and once without.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from functools import partial

import numpy as np

from one_preempt.core.availability.gang_demand import BoolArray
from one_preempt.core.availability.steps import END_OF_TIME_S
from one_preempt.core.availability.timeline import Stay
from one_preempt.core.matching import reasons
from one_preempt.core.matching.devices import serves
from one_preempt.core.matching.gang import what_it_asks
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.memory.lease_concerns import Concern
from one_preempt.core.memory.remembered_giving_way import GivingWay
from one_preempt.core.model.lease import Lease, LeaseState
from one_preempt.core.model.plan import Placement, Reason
from one_preempt.core.model.virtual_machine import PciRequest, VirtualMachine
from one_preempt.core.model.written_time import utc_text
from one_preempt.core.overhead.planning import Leaver
from one_preempt.core.phases.devices_and_groups.matched_promises import (
    MatchedPromise,
    MatchedPromises,
    first_come,
    groups_of,
)
from one_preempt.core.phases.devices_and_groups.matched_then import leaves_what_is_matched, need_matching
from one_preempt.core.phases.devices_and_groups.promises_ahead import (
    guests_near,
    promises_ahead,
    promises_if_any,
    promises_near,
    rows_with_promises,
)
from one_preempt.core.phases.devices_and_groups.promises_in_turn import (
    Arrival,
    arrivals,
    gone_by,
    lacking_at_each,
    placed_in_turn,
)
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.giving_way import leaving_leases
from one_preempt.core.phases.reservations.known_ends import ends_s_of
from one_preempt.core.phases.reservations.stays import rows_of, stay_of_placed
from one_preempt.core.suspendable import worth_s

Placed = tuple[Placement, ...] | Unplaced

_THINGS = {
    reasons.DEVICES: "the PCI devices",
    reasons.NUMA: "the cores",
    reasons.AFFINITY: "the place beside its VM group",
}


def placed_beside(
    draft: PlanDraft,
    lease: Lease,
    vms: Sequence[VirtualMachine],
    end_s: int | None,
    place: Callable[[BoolArray | None], Placed],
    *,
    in_queue: bool = False,
) -> Placed:
    """What `place` finds, on hosts where nobody else loses what was promised for a time before `end_s`.

    `place` puts VMs of `lease` on hosts now, among these rows where a mask is given, and charges the draft's room. What
    is refused to one that waits `in_queue` is said to others that wait there and ask for the same.
    """
    promises = promises_if_any(draft)
    if promises is None or not need_matching(vms):
        return place(None)
    asked = _asked(draft, lease, vms, end_s) if in_queue else None
    refused = None if asked is None else promises.tries.refused.get(asked)
    if refused is not None:
        return refused
    among = np.ones(len(draft.room.free), dtype=np.bool_)
    for left in range(promises.tries.at_once(lease.uid), -1, -1):
        mark = draft.room.checkpoint()
        placed = place(None if refused is None else among)
        if isinstance(placed, Unplaced):
            if refused is None:
                return placed
            break
        loses = _who_loses(draft, lease, vms, placed, end_s)
        if loses is None:
            return placed
        draft.room.rollback(mark)
        refused = _promised_to_others(*loses)
        among[list(_where(draft, placed, loses[0]))] = False
        if left == 1:
            among[rows_with_promises(draft)] = False
    assert refused is not None, "it was tried at least once"
    if asked is not None:
        promises.tries.refused[asked] = refused
    return refused


def _asked(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], end_s: int | None) -> Hashable | None:
    """What decides, beside the room as it is, whether VMs in the queue are refused.

    None for whoever was promised something, firmly or by the queue: his own hosts are free for nobody else.
    """
    if draft.state.reservations.get(lease.id) or draft.timeline.stays.get(lease.id):
        return None
    of_kinds = vms[:1] if draft.matchmaker.are_alike(vms) else vms
    each = tuple((what_it_asks(vm), vm.numa_nodes, vm.host_id) for vm in of_kinds)
    return lease.terms.type, lease.preempts, lease.state, end_s, len(vms), each


def takes_promised(
    draft: PlanDraft,
    lease: Lease,
    vms: Sequence[VirtualMachine],
    placed: Sequence[Placement],
    end_s: int | None,
    leaving: Set[int] = frozenset(),
) -> tuple[Unplaced, frozenset[int]] | None:
    """Why VMs that are placed now, and charged, had better not be on which rows: others would lack what was promised.

    They stay until `end_s`; VMs `leaving` will have left by then. None where nobody lacks anything by it.
    """
    loses = _who_loses(draft, lease, vms, placed, end_s, leaving)
    return None if loses is None else (_promised_to_others(*loses), _where(draft, placed, loses[0]))


def _where(draft: PlanDraft, placed: Sequence[Placement], loses: MatchedPromise) -> frozenset[int]:
    """The rows of the hosts that these placements share with a promise; all of theirs where a VM group ties them."""
    rows = frozenset(rows_of(draft, placed))
    return rows.intersection(loses.stay.host_rows) or rows


def _who_loses(
    draft: PlanDraft,
    lease: Lease,
    vms: Sequence[VirtualMachine],
    placed: Sequence[Placement],
    end_s: int | None,
    leaving: Set[int] = frozenset(),
) -> tuple[MatchedPromise, str] | None:
    """The first promise that lacks something by these placements, and the code of what."""
    promises = promises_if_any(draft)
    if promises is None or not need_matching(vms):
        return None
    until_s = END_OF_TIME_S if end_s is None else end_s
    near = [
        one
        for one in promises_near(draft, frozenset(rows_of(draft, placed)), groups_of(vms))
        if one.lease.id != lease.id and one.stay.start_s < until_s and not _would_leave_for(draft, lease, vms, one)
    ]
    if not near:
        return None
    if promises.tries.are_over(lease.uid):
        return near[0], _asks_for(near[0])
    own = {placement.vm_id for placement in placed}
    others = [one for one in arrivals(draft) if one.placement.vm_id not in own]
    arriving = [*others, *(Arrival(placement, until_s) for placement in placed)]
    there = stay_of_placed(draft, lease, vms, placed, end_s, firm=False)
    with_own = [*near, MatchedPromise(lease, tuple(vms), there, groups_of(vms))]
    near = _who_matter(draft, with_own, len(near), arriving)[:-1]
    instants, put_before = sorted({one.stay.start_s for one in near}), promises.looked_at
    lost: tuple[MatchedPromise, str] | None = None
    # Whoever is in the way is so at the first of them, mostly.
    for some in (instants[:1], instants[1:]):
        lost = lost or _lost_by(draft, near, some, arriving, others, leaving)
    promises.tries.count(lease.uid, promises.looked_at - put_before)
    return lost


def _lost_by(
    draft: PlanDraft,
    near: Sequence[MatchedPromise],
    instants: Sequence[int],
    arriving: Sequence[Arrival],
    others: Sequence[Arrival],
    leaving: Set[int],
) -> tuple[MatchedPromise, str] | None:
    """What the first of these promises lacks with all who are `arriving`, and does not with the `others` of them."""
    without = dict[int, Mapping[int, str]]()
    for at_s, lacking in lacking_at_each(draft, near, instants, arriving, leaving):
        if lacking and not without:
            without = dict(lacking_at_each(draft, near, instants, others, leaving))
        for one in near if lacking else ():
            code = next((lacking[vm.id] for vm in one.vms if vm.id in lacking and vm.id not in without[at_s]), None)
            if code is not None:
                return one, code
    return None


def what_it_lacks(draft: PlanDraft, lease: Lease, stay: Stay, sent_out: Sequence[Leaver] = ()) -> str | None:
    """Which things others have on the hosts that a lease was promised, and will not give back by then; None: none.

    VMs that are to be `sent_out` for it will have left. Remembered as long as nobody comes or goes there.
    """
    promises = promises_if_any(draft) if lease.id in draft.concerns.all(Concern.PROMISED_MATCHED) else None
    if promises is None or len(stay.host_rows) != len(lease.vm_ids):
        return None
    near, leaving = _with_those_near(draft, promises, lease, stay), frozenset(vm.id for vm, _ in sent_out)
    arriving = arrivals(draft)
    follows_from = (*_follows_from(draft, near, arriving), leaving)
    look = partial(_lacking_things, draft, lease, stay, near, arriving, leaving)
    return draft.memory.lacks.of(lease.id, follows_from, len(draft.state.leases), look)


def _lacking_things(
    draft: PlanDraft,
    lease: Lease,
    stay: Stay,
    near: Sequence[MatchedPromise],
    arriving: Sequence[Arrival],
    leaving: Set[int],
) -> str | None:
    """The first of the things that a lease lacks at its start or while others start; `near` has its own stay."""
    instants = sorted({one.stay.start_s for one in near if one.stay.start_s >= stay.start_s})
    own = next(place for place, one in enumerate(near) if one.lease.id == lease.id)
    lacking = lacking_at_each(draft, _who_matter(draft, near, own, arriving), instants, arriving, leaving)
    code = next((those[vm_id] for _, those in lacking for vm_id in lease.vm_ids if vm_id in those), None)
    return None if code is None else _THINGS[code]


def who_has_its_devices(
    draft: PlanDraft, lease: Lease, stay: Stay, there: Sequence[GivingWay], leaving: Set[int]
) -> list[GivingWay]:
    """Those of `there` who must leave for a stay as well as VMs `leaving`: they have devices that it would lack."""
    requests = [one for vm in draft.members(lease) for one in vm.pci_requests]
    holders = [one for one in there if leaving.isdisjoint(vm.id for vm in one.vms) and _serves(draft, one, requests)]
    found: list[GivingWay] = []
    if not requests or not holders or len(stay.host_rows) != len(lease.vm_ids):
        return found
    near, gone = _with_those_near(draft, promises_ahead(draft), lease, stay), set(leaving)
    arriving = [one.placement for one in arrivals(draft) if one.until_s > stay.start_s]
    active = [one for one in near if one.stay.start_s <= stay.start_s]
    ended = gone_by(draft, near, stay.start_s)
    for one in holders:
        lacking = placed_in_turn(draft, active, arriving, frozenset(), ended | gone, sends_nobody=lease.id)
        if reasons.DEVICES not in [lacking.get(vm_id) for vm_id in lease.vm_ids]:
            break
        gone |= {vm.id for vm in one.vms}
        found.append(one)
    return found


def _serves(draft: PlanDraft, one: GivingWay, requests: Sequence[PciRequest]) -> bool:
    """It has a device of which one of the requests asks for the kind."""
    own = {vm.id: vm.history[-1].host_id for vm in one.vms if vm.pci_requests}
    devices = (
        device
        for vm_id, host_id in own.items()
        for device in draft.state.snapshot.hosts[host_id].pci_devices
        if device.vm_id == vm_id
    )
    return bool(own) and any(serves(device, request) for device in devices for request in requests)


def _with_those_near(draft: PlanDraft, promises: MatchedPromises, lease: Lease, stay: Stay) -> list[MatchedPromise]:
    """A stay of a lease among what else was promised there for some of the same time; first come first."""
    vms = tuple(draft.members(lease))
    own = MatchedPromise(lease, vms, stay, groups_of(vms))
    groups = own.groups if any(promises.rules(own)) else frozenset[int]()
    beside = promises_near(draft, frozenset(stay.host_rows), groups, stay.start_s, own.until_s)
    return sorted((*(one for one in beside if one.lease.id != lease.id), own), key=first_come)


def _who_matter(
    draft: PlanDraft, near: Sequence[MatchedPromise], own: int, arriving: Sequence[Arrival]
) -> list[MatchedPromise]:
    """The promise at the place `own` behind those before it that meet with it, or with whom that do; in order.

    Who meet may take something from each other, and nobody takes anything from who comes before him.
    """
    promises, before = promises_ahead(draft), near[:own]
    found, asked, met = {own}, [own], set[object]()
    on_row, beside = dict[int, list[int]](), dict[Set[int], tuple[list[int], set[int]]]()
    for place, one in enumerate(before):
        for row in set(one.stay.host_rows):
            on_row.setdefault(row, []).append(place)
    while asked:
        one = near[asked.pop()]
        apart, together = promises.rules(one)
        rows, those = set(one.stay.host_rows), set[int]()
        # All for whom it is the same meet with the same, who are looked for once.
        for row in rows:
            if _has_hardware(one) and (row, None) not in met:
                met.add((row, None))
                those.update(place for place in on_row.get(row, ()) if _has_hardware(near[place]))
            if apart and (row, apart) not in met:
                met.add((row, apart))
                those.update(place for place in on_row.get(row, ()) if not apart.isdisjoint(near[place].lease.vm_ids))
        if together and together not in met:
            if together not in beside:
                beside[together] = _tied(draft, before, together, arriving)
            # Where all of them share one host, they are in nobody's way, whoever of them is there.
            if len(rows | beside[together][1]) > 1:
                met.add(together)
                those.update(beside[together][0])
        asked.extend(those - found)
        found |= those
    return [near[place] for place in sorted(found)]


def _tied(
    draft: PlanDraft, before: Sequence[MatchedPromise], together: Set[int], arriving: Sequence[Arrival]
) -> tuple[list[int], set[int]]:
    """The places of those promises that share a host with these VMs, and the rows on which any of them will be."""
    places = [place for place, one in enumerate(before) if not together.isdisjoint(one.lease.vm_ids)]
    placed = tuple(one.placement for one in arriving if one.placement.vm_id in together)
    return places, {row for place in places for row in before[place].stay.host_rows} | set(rows_of(draft, placed))


def _has_hardware(one: MatchedPromise) -> bool:
    return any(vm.needs_hardware for vm in one.vms)


def _follows_from(draft: PlanDraft, near: Sequence[MatchedPromise], arriving: Sequence[Arrival]) -> tuple[object, ...]:
    """All that decides which of these promises lack something."""
    snapshot, hosts = draft.state.snapshot, draft.state.hosts.hosts
    rows = sorted({row for one in near for row in one.stay.host_rows})
    groups = sorted({group for one in near for group in one.groups})
    vms, there, those = snapshot.vms, {int(draft.state.hosts.ids[row]) for row in rows}, frozenset(groups)
    giving, leaving, lease_of = promises_ahead(draft).giving, leaving_leases(draft), draft.state.lease_of_vm
    now_s = draft.state.now_s
    return (
        # Who began already is there from now on, since whenever.
        tuple((one.lease, one.vms, one.stay.host_rows, _begins_s(one, now_s), one.until_s) for one in near),
        tuple(
            (vm.id, vm.host_id, vm.state, ends_s_of(draft, vm), *_is_in(lease_of.get(vm.id), giving, leaving))
            for vm in guests_near(draft, near)
        ),
        tuple((row, hosts[row].pci_devices, hosts[row].numa_nodes) for row in rows),
        tuple(snapshot.vm_groups.get(group) for group in groups),
        tuple(
            one for one in arriving if one.placement.host_id in there or vms[one.placement.vm_id].vm_group_id in those
        ),
    )


def _begins_s(one: MatchedPromise, now_s: int) -> int | None:
    return one.stay.start_s if one.stay.start_s > now_s else None


def _is_in(lease_id: int | None, *groups: Set[int]) -> tuple[bool, ...]:
    return tuple(lease_id in group for group in groups)


def _would_leave_for(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], one: MatchedPromise) -> bool:
    """What starts now would be sent out for that promise, has time until then, and gives back what is wanted of it."""
    if not one.lease.preempts or one.lease.state is not LeaseState.WAITING:
        return False
    methods = draft.ways_out(lease)
    if methods is None or not all(leaves_what_is_matched(vm, one.vms) for vm in vms):
        return False
    return one.stay.start_s >= draft.state.now_s + worth_s(draft.policies, draft.rates, lease, vms, methods)


def _promised_to_others(one: MatchedPromise, code: str) -> Unplaced:
    start = utc_text(one.stay.start_s)
    text = (
        f"Others were promised {_THINGS[code]} that it could have now, from {start} on: "
        "only what ends by then may start."
    )
    return Unplaced(Reason(code, text), {code: 1})


def _asks_for(one: MatchedPromise) -> str:
    if any(vm.pci_requests for vm in one.vms):
        return reasons.DEVICES
    return reasons.NUMA if any(vm.topology is not None for vm in one.vms) else reasons.AFFINITY
