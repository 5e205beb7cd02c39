"""Devices, cores and places beside a VM group that were promised for a time to come are not given away before.

The slot table counts CPU and memory alone. So it is looked at as if each promised start had come, with those there who
are there now and do not end by then: once with whoever is to be placed, and once without.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from one_preempt.core.availability.gang_demand import BoolArray
from one_preempt.core.availability.steps import END_OF_TIME_S
from one_preempt.core.availability.timeline import Stay
from one_preempt.core.matching import reasons
from one_preempt.core.matching.devices import assign_devices, serves
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.matching.room import Room
from one_preempt.core.matching.vm_groups import RoleRules, group_rules, role_of, rules_of_role
from one_preempt.core.memory.lease_concerns import Concern
from one_preempt.core.model.lease import Lease, LeaseState, PreemptionMethod
from one_preempt.core.model.plan import Placement, Reason
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.model.virtual_machine import PciRequest, VirtualMachine
from one_preempt.core.model.written_time import utc_text
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.matched_then import is_matched, leaves_what_is_matched
from one_preempt.core.phases.power_draft import needs_hardware
from one_preempt.core.phases.room_ahead import GivingWay, giving_way, leaving_leases, rows_of, stay_at
from one_preempt.core.suspendable import worth_s
from one_preempt.core.victims import has_overrun

Placed = tuple[Placement, ...] | Unplaced

# So many times hosts are looked for where others were promised nothing; then all such hosts are left alone.
HOSTS_TRIED = 4
# So many placements a decision are held against what was promised, until so many VMs were put on the hosts for it that
# they were promised; who is behind them is kept off all that was.
PLACEMENTS_HELD_AGAINST = 64
PUT_FOR_PLACEMENTS = 20_000
_THINGS = {
    reasons.DEVICES: "the PCI devices",
    reasons.NUMA: "the cores",
    reasons.AFFINITY: "the place beside its VM group",
}


@dataclass(frozen=True, slots=True)
class MatchedPromise:
    """A stay to come of a lease that asks for more than CPU and memory, and is promised firmly."""

    lease: Lease
    vms: tuple[VirtualMachine, ...]
    stay: Stay
    groups: frozenset[int]

    @property
    def until_s(self) -> int:
        """When it ends; the end of time where nobody knows."""
        return END_OF_TIME_S if self.stay.end_s is None else self.stay.end_s


class MatchedPromises:
    """What one decision knows of them: found when first asked for, and again once a stay has changed.

    `held_against`: so many placements were looked at beside them, for which so many of them were `put` on their hosts,
    of those `looked_at` in all. `giving` are the leases that give way.
    """

    def __init__(self, draft: PlanDraft) -> None:
        self.held_against = self.put = self.looked_at = 0
        self.giving = frozenset(one.lease.id for one in giving_way(draft))
        self._as_of = (-1, -1, -1)
        self._by_row: dict[int, list[MatchedPromise]] = {}
        self._by_group: dict[int, list[MatchedPromise]] = {}
        self._rules: dict[tuple[int, str], RoleRules] = {}
        self._guests: dict[int, list[VirtualMachine]] = {}
        for vm in draft.state.snapshot.vms.values():
            wants_more = vm.pci_requests or vm.topology is not None or vm.vm_group_id is not None
            if wants_more and vm.host_id is not None:
                self._guests.setdefault(vm.host_id, []).append(vm)

    def near(self, draft: PlanDraft, rows: Set[int], groups: Set[int]) -> list[MatchedPromise]:
        """Those on hosts of these rows or with VMs of these VM groups; first come first."""
        self._follow(draft)
        found = {(one.lease.id, one.stay.start_s): one for row in rows for one in self._by_row.get(row, ())}
        found |= {(one.lease.id, one.stay.start_s): one for group in groups for one in self._by_group.get(group, ())}
        return sorted(found.values(), key=_first)

    def rows(self, draft: PlanDraft) -> list[int]:
        """The rows of all hosts of theirs."""
        self._follow(draft)
        return sorted(self._by_row)

    def guests(self, draft: PlanDraft, near: Sequence[MatchedPromise]) -> list[VirtualMachine]:
        """Who is on a host of these promises, or in a VM group of theirs, and has more than CPU and memory."""
        ids, groups = draft.state.hosts.ids, frozenset[int]().union(*[one.groups for one in near])
        host_ids = {int(ids[row]) for one in near for row in one.stay.host_rows}
        there = [vm for host_id in sorted(host_ids) for vm in self._guests.get(host_id, ())]
        if not groups:
            return there
        elsewhere = [vm for host_id, vms in self._guests.items() if host_id not in host_ids for vm in vms]
        return [*there, *(vm for vm in elsewhere if vm.vm_group_id in groups)]

    def rules(self, draft: PlanDraft, one: MatchedPromise) -> tuple[frozenset[int], frozenset[int]]:
        """The VMs that the VM groups of a promise keep apart from its own, and those that they have share a host."""
        apart, together = frozenset[int](), frozenset[int]()
        for vm in one.vms:
            found = role_of(vm, draft.state.snapshot)
            if found is None:
                continue
            group, role = found
            if (group.id, role.name) not in self._rules:
                self._rules[group.id, role.name] = rules_of_role(group, role, draft.room_then)
            rules = self._rules[group.id, role.name]
            apart, together = apart | rules.apart, together.union(*rules.together)
        return apart, together

    def _follow(self, draft: PlanDraft) -> None:
        as_of = (draft.timeline.firm_stays.number, len(draft.starting), len(draft.verdicts))
        if as_of == self._as_of:
            return
        self._as_of, self._by_row, self._by_group = as_of, {}, {}
        for one in _stays_ahead(draft):
            for row in set(one.stay.host_rows):
                self._by_row.setdefault(row, []).append(one)
            for group in one.groups:
                self._by_group.setdefault(group, []).append(one)


@dataclass(frozen=True, slots=True)
class _Arrival:
    """Who is placed in this decision and asks for more than CPU and memory, until when as far as that is known."""

    placement: Placement
    until_s: int


def placed_beside(
    draft: PlanDraft,
    lease: Lease,
    vms: Sequence[VirtualMachine],
    end_s: int | None,
    place: Callable[[BoolArray | None], Placed],
) -> Placed:
    """What `place` finds, on hosts where nobody else loses what was promised for a time before `end_s`.

    `place` puts VMs of `lease` on hosts now, among these rows where a mask is given, and charges the draft's room.
    """
    promises = _matched_promises(draft)
    if promises is None or not is_matched(vms):
        return place(None)
    refused: Unplaced | None = None
    among = np.ones(len(draft.room.free), dtype=np.bool_)
    for tried in range(HOSTS_TRIED):
        mark = draft.room.checkpoint()
        placed = place(None if refused is None else among)
        if isinstance(placed, Unplaced):
            return refused or placed
        refused = takes_promised(draft, lease, vms, placed, end_s)
        if refused is None:
            return placed
        draft.room.rollback(mark)
        among[list(rows_of(draft, placed))] = False
        if tried == HOSTS_TRIED - 2:
            among[promises.rows(draft)] = False
    assert refused is not None, "it was tried at least once"
    return refused


def takes_promised(
    draft: PlanDraft,
    lease: Lease,
    vms: Sequence[VirtualMachine],
    placed: Sequence[Placement],
    end_s: int | None,
    leaving: Set[int] = frozenset(),
) -> Unplaced | None:
    """Why VMs that are placed now, and charged, had better not be: others would lack what was promised to them.

    They stay until `end_s`; VMs `leaving` will have left by then. None where nobody lacks anything by it.
    """
    promises = _matched_promises(draft)
    if promises is None or not is_matched(vms):
        return None
    until_s = END_OF_TIME_S if end_s is None else end_s
    near = [
        one
        for one in promises.near(draft, frozenset(rows_of(draft, placed)), _groups(vms))
        if one.lease.id != lease.id and one.stay.start_s < until_s and not _would_leave_for(draft, lease, vms, one)
    ]
    if not near:
        return None
    promises.held_against += 1
    if promises.held_against > PLACEMENTS_HELD_AGAINST or promises.put > PUT_FOR_PLACEMENTS:
        return _promised_to_others(near[0], _asks_for(near[0]))
    own = {placement.vm_id for placement in placed}
    others = [one for one in _arrivals(draft) if one.placement.vm_id not in own]
    arriving = [*others, *(_Arrival(placement, until_s) for placement in placed)]
    there = stay_at(lease, vms, rows_of(draft, placed), draft.state.now_s, end_s, firm=False)
    with_own = [*near, MatchedPromise(lease, tuple(vms), there, _groups(vms))]
    near = _who_matter(draft, with_own, len(near), arriving)[:-1]
    instants, put_before = sorted({one.stay.start_s for one in near}), promises.looked_at
    lost: Unplaced | None = None
    # Whoever is in the way is so at the first of them, mostly.
    for some in (instants[:1], instants[1:]):
        lost = lost or _lost_by(draft, near, some, arriving, others, leaving)
    promises.put += promises.looked_at - put_before
    return lost


def _lost_by(
    draft: PlanDraft,
    near: Sequence[MatchedPromise],
    instants: Sequence[int],
    arriving: Sequence[_Arrival],
    others: Sequence[_Arrival],
    leaving: Set[int],
) -> Unplaced | None:
    """What the first of these promises lacks with all who are `arriving`, and does not with the `others` of them."""
    without = dict[int, Mapping[int, str]]()
    for at_s, lacking in _lacking_at_each(draft, near, instants, arriving, leaving):
        if lacking and not without:
            without = dict(_lacking_at_each(draft, near, instants, others, leaving))
        for one in near if lacking else ():
            if one.lease.id in lacking and one.lease.id not in without[at_s]:
                return _promised_to_others(one, lacking[one.lease.id])
    return None


def what_it_lacks(
    draft: PlanDraft, lease: Lease, stay: Stay, sent_out: Sequence[tuple[VirtualMachine, PreemptionMethod]] = ()
) -> str | None:
    """Which things others have on the hosts that a lease was promised, and will not give back by then; None: none.

    VMs that are to be `sent_out` for it will have left. Remembered as long as nobody comes or goes there.
    """
    promises = _matched_promises(draft) if lease.id in draft.concerns.all(Concern.PROMISED_MATCHED) else None
    if promises is None:
        return None
    near, leaving = _with_those_near(draft, promises, lease, stay), frozenset(vm.id for vm, _ in sent_out)
    arriving, known = _arrivals(draft), draft.memory.matched_promises.get(lease.id)
    follows_from = (*_follows_from(draft, near, arriving), leaving)
    if known is not None and known[0] == follows_from:
        return known[1]
    instants = sorted({one.stay.start_s for one in near if one.stay.start_s >= stay.start_s})
    own = next(place for place, one in enumerate(near) if one.lease.id == lease.id)
    lacking = _lacking_at_each(draft, _who_matter(draft, near, own, arriving), instants, arriving, leaving, lease.id)
    code = next((those[lease.id] for _, those in lacking if those), None)
    things = None if code is None else _THINGS[code]
    if len(draft.memory.matched_promises) > 2 * len(draft.state.leases):
        draft.memory.matched_promises.clear()
    draft.memory.matched_promises[lease.id] = (follows_from, things)
    return things


def who_has_its_devices(
    draft: PlanDraft, lease: Lease, stay: Stay, there: Sequence[GivingWay], leaving: Set[int]
) -> list[GivingWay]:
    """Those of `there` who must leave for a stay as well as VMs `leaving`: they have devices that it would lack."""
    requests = [one for vm in draft.members(lease) for one in vm.pci_requests]
    holders = [one for one in there if leaving.isdisjoint(vm.id for vm in one.vms) and _serves(draft, one, requests)]
    found: list[GivingWay] = []
    if not requests or not holders:
        return found
    near, gone = _with_those_near(draft, _known(draft), lease, stay), set(leaving)
    arriving = [one.placement for one in _arrivals(draft) if one.until_s > stay.start_s]
    active = [one for one in near if one.stay.start_s <= stay.start_s]
    ended = _gone_by(draft, near, stay.start_s)
    for one in holders:
        lacking = _placed_in_turn(draft, active, arriving, frozenset(), ended | gone)
        if lacking.get(lease.id) != reasons.DEVICES:
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
    own = MatchedPromise(lease, vms, stay, _groups(vms))
    beside = promises.near(draft, frozenset(stay.host_rows), own.groups)
    beside = [one for one in beside if one.stay.start_s < own.until_s and one.until_s > stay.start_s]
    return sorted((*(one for one in beside if one.lease.id != lease.id), own), key=_first)


def _who_matter(
    draft: PlanDraft, near: Sequence[MatchedPromise], own: int, arriving: Sequence[_Arrival]
) -> list[MatchedPromise]:
    """The promise at the place `own` behind those before it that meet with it, or with whom that do; in order.

    Who meet may take something from each other, and nobody takes anything from who comes before him.
    """
    on_row: dict[int, list[int]] = {}
    for place, one in enumerate(near[:own]):
        for row in set(one.stay.host_rows):
            on_row.setdefault(row, []).append(place)
    found, asked = {own}, [own]
    while asked:
        one = near[asked.pop()]
        apart, together = _known(draft).rules(draft, one)
        there = {place for row in set(one.stay.host_rows) for place in on_row.get(row, ())}
        met = {
            place
            for place in there - found
            if (_has_hardware(one) and _has_hardware(near[place])) or not apart.isdisjoint(near[place].lease.vm_ids)
        }
        if together:
            beside = [place for place in range(own) if not together.isdisjoint(near[place].lease.vm_ids)]
            rows = {row for place in beside for row in near[place].stay.host_rows} | set(one.stay.host_rows)
            placed = (arrival.placement for arrival in arriving if arrival.placement.vm_id in together)
            rows |= set(rows_of(draft, tuple(placed)))
            # Where all of them share one host, they are in nobody's way, whoever of them is there.
            if len(rows) > 1:
                met |= set(beside) - found
        found |= met
        asked.extend(met)
    return [near[place] for place in sorted(found)]


def _has_hardware(one: MatchedPromise) -> bool:
    return any(map(needs_hardware, one.vms))


def _follows_from(draft: PlanDraft, near: Sequence[MatchedPromise], arriving: Sequence[_Arrival]) -> tuple[object, ...]:
    """All that decides which of these promises lack something."""
    snapshot, hosts = draft.state.snapshot, draft.state.hosts.hosts
    rows = sorted({row for one in near for row in one.stay.host_rows})
    groups = sorted({group for one in near for group in one.groups})
    giving, leaving, lease_of = _known(draft).giving, leaving_leases(draft), draft.state.lease_of_vm
    return (
        tuple((one.lease, one.vms, one.stay) for one in near),
        tuple(
            (vm.id, vm.host_id, vm.state, _ends_s(draft, vm), *_is_in(lease_of.get(vm.id), giving, leaving))
            for vm in _known(draft).guests(draft, near)
        ),
        tuple((row, hosts[row].pci_devices, hosts[row].numa_nodes) for row in rows),
        tuple(snapshot.vm_groups.get(group) for group in groups),
        tuple(arriving),
    )


def _is_in(lease_id: int | None, *groups: Set[int]) -> tuple[bool, ...]:
    return tuple(lease_id in group for group in groups)


# -- what was promised ---------------------------------------------------------------------------------------


def _matched_promises(draft: PlanDraft) -> MatchedPromises | None:
    """What is known of them; None where there are none."""
    if draft.matched_promises is None:
        if not (draft.concerns.all(Concern.PROMISED_MATCHED) or draft.verdicts):
            return None
        if next(_stays_ahead(draft), None) is None:
            return None
    return _known(draft)


def _known(draft: PlanDraft) -> MatchedPromises:
    if draft.matched_promises is None:
        draft.matched_promises = MatchedPromises(draft)
    return draft.matched_promises


def _first(one: MatchedPromise) -> tuple[int, int]:
    return one.stay.start_s, one.lease.id


def _stays_ahead(draft: PlanDraft) -> Iterator[MatchedPromise]:
    """All that still lie ahead."""
    known, leases, now_s = draft.concerns.all(Concern.PROMISED_MATCHED), draft.state.leases, draft.state.now_s
    judged = [leases[one.lease_id] for one in draft.verdicts.values() if one.verdict is Verdict.ACCEPTED]
    for lease in (*known.values(), *(one for one in judged if one.id not in known)):
        stays = draft.timeline.stays.get(lease.id, ())
        ahead = [one for one in stays if one.firm and not one.displaced and one.start_s > now_s]
        if not ahead or lease.id in draft.starting:
            continue
        vms = tuple(draft.members(lease))
        if is_matched(vms) and all(vm.host_id is None for vm in vms):
            whole = (one for one in ahead if len(one.host_rows) == len(vms))
            yield from (MatchedPromise(lease, vms, one, _groups(vms)) for one in whole)


def _groups(vms: Sequence[VirtualMachine]) -> frozenset[int]:
    return frozenset(vm.vm_group_id for vm in vms if vm.vm_group_id is not None)


def _would_leave_for(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], one: MatchedPromise) -> bool:
    """What starts now would be sent out for that promise, has time until then, and gives back what is wanted of it."""
    if not one.lease.preempts or one.lease.state is not LeaseState.WAITING:
        return False
    methods = draft.ways_out(lease)
    if methods is None or not all(leaves_what_is_matched(vm, one.vms) for vm in vms):
        return False
    return one.stay.start_s >= draft.state.now_s + worth_s(draft.policies, draft.rates, lease, vms, methods)


# -- who is there then ---------------------------------------------------------------------------------------


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


def _lacking_at_each(
    draft: PlanDraft,
    near: Sequence[MatchedPromise],
    instants: Sequence[int],
    arriving: Sequence[_Arrival],
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
                enough[key] = promise.lease.id not in _placed_in_turn(draft, before, one.there, leaving, gone)
            if enough[key]:
                del lacking[promise.lease.id]
        yield one.at_s, lacking


def _moments(
    draft: PlanDraft,
    near: Sequence[MatchedPromise],
    instants: Sequence[int],
    arriving: Sequence[_Arrival],
    leaving: Set[int],
) -> list[_Moment]:
    """These promises put on their hosts in turn, at one instant after the other.

    Where nobody leaves from one to the next, only those are put there who come: each takes what it finds before the
    next, so all before them are as they were.
    """
    room, known, found = draft.room_then, _known(draft), list[_Moment]()
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
            known.looked_at += len(coming)
        found.append(_Moment(at_s, since, active, there, gone, lacking))
    room.rollback(mark)
    return found


def _guests_end_s(draft: PlanDraft, near: Sequence[MatchedPromise]) -> dict[int, int]:
    """When the VMs there will have left that end, or are being sent out already."""
    leaving, lease_of = leaving_leases(draft), draft.state.lease_of_vm
    guests = _known(draft).guests(draft, near)
    ends_s = {vm.id: 0 if lease_of.get(vm.id) in leaving else _ends_s(draft, vm) for vm in guests}
    return {vm_id: end_s for vm_id, end_s in ends_s.items() if end_s is not None}


def _sent_out_for(draft: PlanDraft, one: MatchedPromise, near: Sequence[MatchedPromise]) -> set[int]:
    """The VMs there that could be made to leave for a lease, and would leave what it wants."""
    giving, lease_of = _known(draft).giving, draft.state.lease_of_vm
    guests = _known(draft).guests(draft, near)
    return {vm.id for vm in guests if lease_of.get(vm.id) in giving and leaves_what_is_matched(vm, one.vms)}


def _placed_in_turn(
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
    _known(draft).looked_at += len(promises)
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


def _arrivals(draft: PlanDraft) -> list[_Arrival]:
    """Who was placed in this decision so far, and has more than CPU and memory."""
    vms, found = draft.state.snapshot.vms, list[_Arrival]()
    for placement in draft.room.placed.values():
        if is_matched((vms[placement.vm_id],)):
            lease_id = draft.state.lease_of_vm.get(placement.vm_id, -1)
            ends_s = [stay.end_s for stay in draft.timeline.stays.get(lease_id, ())[-1:]]
            found.append(_Arrival(placement, END_OF_TIME_S if not ends_s or ends_s[0] is None else ends_s[0]))
    return found


def _gone_by(draft: PlanDraft, near: Sequence[MatchedPromise], at_s: int) -> set[int]:
    """The VMs there that will have ended by an instant, or are being sent out already."""
    return {vm_id for vm_id, end_s in _guests_end_s(draft, near).items() if end_s <= at_s}


def _ends_s(draft: PlanDraft, vm: VirtualMachine) -> int | None:
    """When a VM will have left its host; None where nobody knows."""
    lease = draft.state.leases.get(draft.state.lease_of_vm.get(vm.id, -1))
    stays = () if lease is None else draft.timeline.stays.get(lease.id, ())
    return stays[0].end_s if lease is not None and stays and not has_overrun(lease, draft.state.now_s) else None


def _promised_to_others(one: MatchedPromise, code: str) -> Unplaced:
    start = utc_text(one.stay.start_s)
    text = f"Others were promised {_THINGS[code]} that it could have now, from {start} on: what ends by then may start."
    return Unplaced(Reason(code, text), {code: 1})


def _asks_for(one: MatchedPromise) -> str:
    if any(vm.pci_requests for vm in one.vms):
        return reasons.DEVICES
    return reasons.NUMA if any(vm.topology is not None for vm in one.vms) else reasons.AFFINITY
