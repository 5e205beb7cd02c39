"""Who claims a host at which instants, without a plan and with it.

Claims are firm reservations, and runs of leases that nobody may make leave. The world may have made a host too
small for its promises; a plan is judged by what it adds: nowhere, at no instant, may it claim more than there is
and more than was claimed without it. Only hosts that get something by the plan are looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.model.lease import Lease, LeaseState
from one_preempt.core.model.plan import ActionKind, Preemption
from one_preempt.core.model.reservation import Reservation
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.verify.lease_over_time import (
    gives_way_by_type,
    has_deadline_promised,
    has_outlived_its_duration,
    is_accepted,
    leaves_by_s,
    left_s,
    may_give_way,
    may_overstay,
    slots,
)
from one_preempt.core.verify.recount import ARRIVALS, DEPARTURES, MOVES, Recount

LEAVING_STATES = frozenset(
    {
        "SAVE_STOP", "EPILOG_STOP", "SHUTDOWN", "SHUTDOWN_UNDEPLOY", "EPILOG", "EPILOG_UNDEPLOY", "CLEANUP_DELETE",
    }
)  # fmt: skip

# Some of a gang may have room while others are still to start; whom its owner stopped is not.
STARTS_IN_PART = frozenset({LeaseState.STARTING, LeaseState.RETURNING, LeaseState.FAILED})


class Claim(Struct, frozen=True):
    """The part of a host that `vm` takes from `start_s` until `end_s`, None: for ever."""

    host_id: int
    start_s: int
    end_s: int | None
    vm: VirtualMachine


class JudgedClaim(Struct, frozen=True):
    """A claim that stands `before` the plan, `after` it, or both."""

    claim: Claim
    before: bool
    after: bool


def anything_is_firm(recount: Recount) -> bool:
    """Somebody was promised a time, before or by the plan."""
    if recount.books.firm_lease_ids:
        return True
    return bool([one for booking in recount.plan.bookings for one in booking.reservations if one.firm])


def hosts_that_get_more(recount: Recount) -> frozenset[int]:
    """Those on which the plan starts, makes room for, or promises anything."""
    found = hosts_of_arrivals(recount)
    found.update(placement.host_id for one in recount.plan.preemptions for placement in one.placements)
    for booking in recount.plan.bookings:
        found.update(host_id for one in booking.reservations if one.firm for host_id in one.host_ids)
    return frozenset(found & recount.hosts.keys())


def hosts_of_arrivals(recount: Recount) -> set[int]:
    """Those on which VMs start, or to which they move, by the plan."""
    return {
        action.host_id
        for action in recount.plan.actions
        if action.kind in ARRIVALS and action.host_id is not None and not recount.under_way(action)
    }


def hosts_claimed_by_the_plan(recount: Recount) -> frozenset[int]:
    """Those that get more and on which a lease of the plan claims anything: nowhere else does the plan claim more.

    Most of what starts claims nothing, for others may be promised its room.
    """
    reader = _ClaimReader(recount, hosts_that_get_more(recount), overruns_stay=False)
    leases = [recount.leases[lease_id] for lease_id in leases_of_the_plan(recount) & recount.leases.keys()]
    return frozenset(claim.host_id for lease in leases for claim in reader.claims(lease, planned=True))


def claims_on_hosts(
    recount: Recount, host_ids: frozenset[int], *, overruns_stay: bool = False, best_effort_stays: bool = False
) -> list[JudgedClaim]:
    """What is claimed of these hosts from now on.

    `overruns_stay`: what outlives its DURATION never ends, and of slots only those count that stand without the plan.
    `best_effort_stays`: what gives way to those who may preempt has its room until it ends, or one of them may have it.
    """
    now_s = recount.state.now_s
    reader = _ClaimReader(recount, host_ids, overruns_stay=overruns_stay, best_effort_stays=best_effort_stays)
    touched = leases_of_the_plan(recount)
    concerned = touched | _leases_with_claims(recount, host_ids)
    leased, guests = recount.state.lease_of_vm, [recount.books.guests(recount.state, one) for one in host_ids]
    concerned |= {leased[vm_id] for vm_ids in guests for vm_id in vm_ids if vm_id in leased}
    found: list[JudgedClaim] = []
    for lease_id in sorted(concerned & recount.state.leases.keys()):
        lease = recount.state.leases[lease_id]
        # Best effort of which the plan says nothing may have to leave sooner by it.
        may_differ = lease_id in touched or best_effort_stays
        without = reader.claims(lease, planned=False)
        by_plan = reader.claims(lease, planned=True) if may_differ else without
        ways = [(without, True, True)] if by_plan == without else [(without, True, False), (by_plan, False, True)]
        for claims, before, after in ways:
            found += [
                JudgedClaim(claim, before, after) for claim in claims if claim.end_s is None or claim.end_s > now_s
            ]
    return found


def guests_of_hosts(recount: Recount, host_ids: frozenset[int]) -> dict[int, list[VirtualMachine]]:
    """The VMs of leases that oned charges each host for."""
    books, leased = recount.books, recount.state.lease_of_vm
    return {
        host_id: [recount.vms[one] for one in sorted(books.guests(recount.state, host_id) & leased.keys())]
        for host_id in host_ids
    }


def leases_of_the_plan(recount: Recount) -> frozenset[int]:
    """Those whose claims the plan may change."""
    plan = recount.plan
    ended = [recount.preemptions[end.preemption_id] for end in plan.ended_preemptions]
    found = {action.lease_id for action in plan.actions} | recount.booking_by_lease.keys()
    found |= {given.lease_id for given in plan.verdicts}
    for preemption in (*plan.preemptions, *ended):
        found |= {preemption.preemptor_lease_id, *preemption.victim_lease_ids}
    return frozenset(found)


def _leases_with_claims(recount: Recount, host_ids: frozenset[int]) -> frozenset[int]:
    """Those that were promised one of these hosts, or for whom room is made there."""
    found = {
        lease_id
        for lease_id in recount.books.firm_lease_ids
        if any(
            one.firm and not host_ids.isdisjoint(one.host_ids) for one in recount.state.reservations.get(lease_id, ())
        )
    }
    for opened in recount.state.preemptions:
        if any(placement.host_id in host_ids for placement in opened.preemption.placements):
            found.add(opened.preemption.preemptor_lease_id)
    return frozenset(found)


class _ClaimReader:
    """What each lease claims of some hosts, without the plan and with it; `claims_on_hosts` says what is counted."""

    def __init__(
        self, recount: Recount, host_ids: Set[int], *, overruns_stay: bool, best_effort_stays: bool = False
    ) -> None:
        plan = recount.plan
        self._host_ids, self._overruns_stay, self._best_effort_stays = host_ids, overruns_stay, best_effort_stays
        new = [action for action in plan.actions if not recount.under_way(action)]
        self._recount = recount
        self._now_s = recount.state.now_s
        self._arrivals = {one.vm_id: one.host_id or 0 for one in new if one.kind is ActionKind.DEPLOY}
        self._targets = {one.vm_id: one.host_id or 0 for one in new if one.kind in MOVES and one.preemption_id is None}
        opened = [one.preemption for one in recount.state.preemptions]
        ended = self._ended = {end.preemption_id for end in plan.ended_preemptions}
        going_on = [*(one for one in opened if one.id not in ended), *plan.preemptions]
        self._making_room = {False: _by_preemptor(opened), True: _by_preemptor(going_on)}
        sent_out = {(one.vm_id, one.host_id) for one in plan.actions if one.kind in DEPARTURES}
        self._leaving = {False: _leavers(opened), True: _leavers((*opened, *plan.preemptions)) | sent_out}

    @cached_property
    def _there(self) -> Set[int]:
        """Those of the hosts that are not lost to whoever was promised them."""
        hosts_then = [(host_id, self._recount.host_then(host_id)) for host_id in self._host_ids]
        return frozenset([host_id for host_id, host in hosts_then if host is not None and host.accepts_vms])

    def claims(self, lease: Lease, *, planned: bool) -> list[Claim]:
        """Where it is or starts now, or where room is made for it; and what it was promised after that."""
        own = slots(self._recount, lease, planned=planned)
        preemption = self._making_room[planned].get(lease.id)
        stays = self._best_effort_stays or not gives_way_by_type(self._recount, lease)
        if not own and preemption is None and not stays:
            # By far the most: somebody may be promised its room, and it was promised nothing.
            return []
        vms = [self._recount.vms[vm_id] for vm_id in lease.vm_ids]
        there = [vm for vm in vms if vm.host_id is not None]
        runs = [(vm, host_id) for vm in there for host_id in self._hosts_of(vm, planned=planned)]
        arrivals = self._arrivals if planned else {}
        starts = [(vm, arrivals[vm.id]) for vm in vms if vm.id in arrivals] if arrivals else []
        found: list[Claim] = []
        if runs or starts:
            found, until_s = self._claims_of_run(lease, runs, starts, own, planned=planned)
            rest = [vm for vm in vms if vm.host_id is None and vm.id not in arrivals]
            if rest:
                # Not all of the gang is there: its slots are still to come for the others.
                until_s = self._now_s
                found += self._begun_without(lease, rest, own, vms)
        elif there:
            # It is leaving. What it was promised before that is over; it may go on in a later slot.
            until_s = self._now_s + 1
        elif preemption is not None:
            until_s = None
            found = self._claims_of_preemptor(lease, preemption, own, planned=planned)
        else:
            until_s = 0
        for slot in self._standing(lease, own):
            if until_s is not None and slot.start_at_s >= until_s and not self._host_ids.isdisjoint(slot.host_ids):
                found += self._claims_of_slot(slot, vms)
        return found

    def _claims_of_run(
        self,
        lease: Lease,
        runs: Sequence[tuple[VirtualMachine, int]],
        starts: Sequence[tuple[VirtualMachine, int]],
        own: Sequence[Reservation],
        *,
        planned: bool,
    ) -> tuple[list[Claim], int | None]:
        """What it claims where it runs or starts, with the hosts' ids, and until when it is there."""
        where = (*runs, *starts)
        leaves_s = leaves_by_s(self._recount, lease, planned=planned) if runs else None
        until_s = _earlier(self._end_of_run(lease, [vm for vm, _ in runs], own), leaves_s)
        if self._overruns_stay and may_overstay(self._recount, lease):
            return self._claims_on(where, self._now_s, leaves_s), until_s
        if not may_give_way(self._recount, lease):
            return self._claims_on(where, self._now_s, until_s), until_s
        if self._best_effort_stays and not has_outlived_its_duration(lease, self._now_s):
            resting = self._recount.books.resting_ids
            stay = [(vm, host_id) for vm, host_id in where if vm.id not in resting]
            return self._until_preempted(stay, until_s, planned=planned), until_s
        return [], until_s

    def _begun_without(
        self, lease: Lease, rest: Sequence[VirtualMachine], own: Sequence[Reservation], vms: Sequence[VirtualMachine]
    ) -> list[Claim]:
        """What the `rest` of its VMs, which are on no host yet, claim of slots that have begun already."""
        if lease.state not in STARTS_IN_PART:
            return []
        begun = [slot for slot in self._standing(lease, own) if slot.start_at_s < self._now_s]
        rest_ids = {vm.id for vm in rest}
        return [claim for slot in begun for claim in self._claims_of_slot(slot, vms) if claim.vm.id in rest_ids]

    def _standing(self, lease: Lease, own: Sequence[Reservation]) -> Sequence[Reservation]:
        """Those of its slots that are judged: what is booked anew beside an overrun may hope for its end."""
        if not self._overruns_stay:
            return own
        before = slots(self._recount, lease, planned=False)
        return [one for one in own if one in before]

    def _claims_of_preemptor(
        self, lease: Lease, preemption: Preemption, own: Sequence[Reservation], *, planned: bool
    ) -> list[Claim]:
        """The room that is made for it, in place of what it was promised.

        What has a deadline has it made for its slot, or for now where that has begun. Where the plan gives that up, the
        slot stands again as it is written: for longer than it runs, for starting takes its time.
        """
        promised_s = lease.terms.start_at_s if is_accepted(self._recount, lease) else None
        if own and has_deadline_promised(self._recount, lease):
            promised_s = own[0].start_at_s
        from_s = max(self._now_s, promised_s or 0)
        until_s = self._end(lease, from_s, own[0] if len(own) > 1 else None)
        if not planned and preemption.id in self._ended and own and until_s is not None:
            until_s = None if own[0].end_at_s is None else max(until_s, own[0].end_at_s)
        where = {placement.vm_id: placement.host_id for placement in preemption.placements}
        own_vms = [(self._recount.vms[vm_id], host_id) for vm_id, host_id in where.items() if vm_id in lease.vm_ids]
        return self._claims_on(own_vms, from_s, until_s)

    def _claims_on(self, where: Iterable[tuple[VirtualMachine, int]], start_s: int, end_s: int | None) -> list[Claim]:
        return [Claim(host_id, start_s, end_s, vm) for vm, host_id in where if host_id in self._host_ids]

    def _until_preempted(
        self, where: Iterable[tuple[VirtualMachine, int]], end_s: int | None, *, planned: bool
    ) -> list[Claim]:
        """What it takes until it ends, or until somebody begins there for whom it may have to leave."""
        begins_s = self._preempting_from_s[planned]
        claims = self._claims_on(where, self._now_s, end_s)
        return [replace(one, end_s=_earlier(one.end_s, begins_s.get(one.host_id))) for one in claims]

    @cached_property
    def _preempting_from_s(self) -> dict[bool, dict[int, int]]:
        """By host, when the first of those who may preempt has a slot there that is still to come."""
        recount, found = self._recount, dict[bool, dict[int, int]]({False: {}, True: {}})
        lease_ids = recount.books.firm_lease_ids | recount.booking_by_lease.keys()
        for lease in [recount.leases[one] for one in lease_ids & recount.leases.keys()]:
            for planned, begins_s in found.items() if lease.preempts else ():
                for slot in slots(recount, lease, planned=planned):
                    for host_id in slot.host_ids if slot.start_at_s > self._now_s else ():
                        begins_s[host_id] = min(begins_s.get(host_id, slot.start_at_s), slot.start_at_s)
        return found

    def _claims_of_slot(self, slot: Reservation, vms: Sequence[VirtualMachine]) -> list[Claim]:
        """One host a VM, as far as they are not lost; of a lease of which some VMs are on hosts already, the others."""
        waiting = vms if len(slot.host_ids) == len(vms) else [vm for vm in vms if vm.host_id is None]
        start_s, end_s, there = slot.start_at_s, slot.end_at_s, self._there
        hosts = zip(waiting, slot.host_ids, strict=False)
        return [Claim(host_id, start_s, end_s, vm) for vm, host_id in hosts if host_id in there]

    def _hosts_of(self, vm: VirtualMachine, *, planned: bool) -> Sequence[int]:
        """The hosts that it stays on: none where it is leaving."""
        if planned and vm.id in self._targets:
            return (self._targets[vm.id],)
        if vm.state_name in LEAVING_STATES:
            return ()
        return [host_id for host_id in vm.charged_host_ids if (vm.id, host_id) not in self._leaving[planned]]

    def _end_of_run(self, lease: Lease, running: Sequence[VirtualMachine], own: Sequence[Reservation]) -> int | None:
        """Until when it stays that runs or starts: at most until its slot ends, if that is not its only one.

        What starts in its slot too late gets no more than the slot. How long a start takes is not known here.
        """
        slot = own[0] if own and own[0].start_at_s <= self._now_s and (len(own) > 1 or not running) else None
        if lease.run_began_at_s is not None or not running:
            return self._end(lease, self._now_s, slot)
        return self._end(lease, max(vm.history[-1].start_at_s for vm in running), slot)

    def _end(self, lease: Lease, from_s: int, slot: Reservation | None) -> int | None:
        """When it ends that has run from an instant on, or will: after now, and not after its slot."""
        left = left_s(lease, self._now_s)
        ends_s = [] if left is None else [max(from_s + left, self._now_s + 1)]
        if slot is not None and slot.end_at_s is not None:
            ends_s.append(slot.end_at_s)
        return min(ends_s, default=None)


def _earlier(one_s: int | None, other_s: int | None) -> int | None:
    """The first of two instants; None: never."""
    return min((at_s for at_s in (one_s, other_s) if at_s is not None), default=None)


def _by_preemptor(preemptions: Iterable[Preemption]) -> dict[int, Preemption]:
    return {preemption.preemptor_lease_id: preemption for preemption in preemptions}


def _leavers(preemptions: Iterable[Preemption]) -> frozenset[tuple[int, int]]:
    """Who leaves which host: (VM id, host id)."""
    return frozenset((victim.vm_id, victim.host_id) for one in preemptions for victim in one.victims)
