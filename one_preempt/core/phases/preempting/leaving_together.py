"""Can those who were chosen leave, all together, and how? Where they cannot, who of them had better stay is named."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from one_preempt.core.availability.gang_demand import BoolArray
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.model.lease import Lease, PreemptionMethod
from one_preempt.core.model.modes_and_limits import VictimRules
from one_preempt.core.model.plan import CandidateSet, Preemption, Reason, Victim
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.overhead.planning import Leaver
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.preempting.sequence import leave_id
from one_preempt.core.phases.queue.moves import another_host, hold_target
from one_preempt.core.phases.reservations.giving_way import preemptions_under_way
from one_preempt.core.phases.reservations.leaving_in_time import leaves_s, overtakes_until_s, takes_turns_of_others
from one_preempt.core.phases.reservations.promised import is_promised
from one_preempt.core.phases.reservations.room_ahead import firm_room_left, is_short
from one_preempt.core.phases.reservations.stays import stay_at
from one_preempt.core.tried_in_vain import methods_in_vain, moved_in_vain_for
from one_preempt.core.victims import (
    MOVES,
    Hindered,
    PossibleVictim,
    first_methods,
    has_left,
    memory_images_obstacle,
    method_is_possible,
    methods_of,
)

# Those who would be done too late by a deadline, their own or somebody else's.
TOO_LATE = Reason("deadlines", "does not fit; the leases that could make room would miss a deadline, or delay others")

SAVED_FOR_OTHERS = Reason(
    "saved-for-others",
    "does not fit; the leases that could make room would be saved while others are saved for a reservation",
)


def rules_for(draft: PlanDraft, preemptor: Lease, vms: Sequence[VirtualMachine]) -> VictimRules:
    """Nobody rests in place for what oned must count itself: devices, pinned threads, huge pages (decision 0039).

    Nor is anybody moved for a request for which a migration failed lately: the next one would often fail as well, and
    each is tried several times. Types that may leave in no other way are moved all the same.
    """
    rules = draft.policies.victims
    if any(vm.needs_hardware for vm in vms):
        rules = replace(rules, suspend_in_place=False)
    if moved_in_vain_for(draft.state, draft.policies.limits, preemptor):
        rules = _without_moves(rules)
    return rules


def _without_moves(rules: VictimRules) -> VictimRules:
    without = {one: tuple(way for way in ways if way not in MOVES) for one, ways in rules.methods.items()}
    return replace(rules, methods={one: without[one] or ways for one, ways in rules.methods.items()})


def where_nobody_can_move(draft: PlanDraft, possible: list[PossibleVictim], rules: VictimRules) -> list[PossibleVictim]:
    """The same with the methods left to those for whom no other host that suits has room now: what they cost is asked.

    Where there is some, it may still be promised, or lack something else, or somebody else may take it.
    """
    if not any(method in MOVES for one in possible for method in one.methods):
        return possible
    hosts, limits = draft.state.hosts, draft.policies.limits
    free = np.where(hosts.accepts_vms[:, None], draft.room.free, -1)
    in_vain, there = methods_in_vain(draft.state, limits), dict[tuple[int, int, int], tuple[BoolArray, BoolArray]]()

    def may_move(vm: VirtualMachine) -> bool:
        suits = draft.matchmaker.match(vm).mask
        kind = vm.cpu_centi, vm.memory_mib, id(suits)
        if kind not in there:
            # With the very mask by whose identity it is found.
            there[kind] = suits, suits & (free >= (vm.cpu_centi, vm.memory_mib)).all(axis=1)
        able, own_row = there[kind][1], hosts.index_by_id[vm.history[-1].host_id]
        return bool(able.sum() > able[own_row])

    staying = _without_moves(rules)

    def as_it_can(one: PossibleVictim) -> PossibleVictim:
        moving = [vm for vm, method in zip(one.vms, one.methods, strict=True) if method in MOVES]
        if all(map(may_move, moving)):
            return one
        tried = in_vain.get(one.lease.id, frozenset())
        methods = first_methods(draft.state.snapshot, one.lease, one.vms, staying, tried)
        return one if methods is None else replace(one, methods=methods)

    return [as_it_can(one) for one in possible]


def over_limits(
    draft: PlanDraft, chosen: Sequence[PossibleVictim], considered: Sequence[CandidateSet]
) -> Hindered | None:
    """They are too many for this hour, or their memory has no room together where it is written.

    That is counted by the first method of each; how they leave at last is counted again by `as_victims`. Of those that
    are too many the largest had better stay, if some set that was `considered` makes room without it.
    """
    ceiling = victim_ceiling(draft, sum(len(victim.vms) for victim in chosen))
    if ceiling is not None:
        in_all = frozenset([one.lease.id for one in chosen]).intersection(*(one.lease_ids for one in considered))
        others = [one for one in chosen if one.lease.id not in in_all] or chosen
        largest = sorted(others, key=lambda victim: (-len(victim.vms), victim.lease.id))[:1]
        return Hindered(frozenset(victim.lease.id for victim in largest), ceiling)
    leaving = [(one.lease.id, vm, method) for one in chosen for vm, method in zip(one.vms, one.methods, strict=True)]
    return memory_images_obstacle(draft.room, leaving)


def victim_ceiling(draft: PlanDraft, new: int) -> Reason | None:
    """`victims_per_hour` counts VMs: those sent out lately, those decided upon that are still to go, and the new."""
    to_go = sum(_still_to_go(draft, preemption) for preemption in preemptions_under_way(draft))
    spent = len(draft.state.victims_last_hour) + to_go
    ceiling = draft.policies.limits.victims_per_hour
    if spent + new <= ceiling:
        return None
    if new > ceiling:
        needed = "a victim is" if new == 1 else f"{new} victims are"
        text = f"does not fit; {needed} needed, and no more than {ceiling} are allowed an hour"
    else:
        more = "one more victim" if new == 1 else f"{new} more victims"
        text = f"does not fit; {more} would exceed the {ceiling} allowed an hour"
    return Reason("victim-ceiling", text)


def _still_to_go(draft: PlanDraft, preemption: Preemption) -> int:
    """Victims of a preemption that were not sent out yet, and are not counted among those that were."""
    return sum(
        not has_left(draft.state, preemption, victim) and _unsent(draft, leave_id(preemption, victim))
        for victim in preemption.victims
    )


def _unsent(draft: PlanDraft, action_id: str) -> bool:
    record = draft.attempts.last(action_id)
    return record is None or record.attempts == 0


def who_hold_others_up(draft: PlanDraft, preemptor: Lease, chosen: Sequence[PossibleVictim]) -> Hindered | None:
    """Some of `chosen` would be done before they could be saved, where others were promised their room by then."""
    if not draft.timeline.firm_stays.reservations():
        return None
    now_s, found = draft.state.now_s, set[int]()
    for one in chosen:
        ends_s, vms = one.lease.expected_end_at_s, one.vms
        left_s = now_s + draft.policies.time.grace_s + leaves_s(draft, zip(vms, one.methods, strict=True))
        if ends_s is None or not now_s < ends_s < left_s:
            continue
        rows = [draft.state.hosts.index_by_id[vm.history[-1].host_id] for vm in vms]
        longer = stay_at(one.lease, vms, rows, ends_s, left_s, firm=True)
        if is_short(firm_room_left(draft, preemptor, longer, ())):
            found.add(one.lease.id)
    return Hindered(frozenset(found), TOO_LATE) if found else None


def who_take_turns_of_others(draft: PlanDraft, preemptor: Lease, chosen: Sequence[PossibleVictim]) -> Hindered | None:
    """Who of `chosen` is saved longest, where saving them now keeps others from leaving in time for starts to come.

    Whoever was promised his start himself, and is late, has them leave all the same.
    """
    if not chosen or is_promised(draft, preemptor) or not takes_turns_of_others(draft, leaving_of(chosen)):
        return None
    return _without_the_slowest(draft, chosen)


def who_overtake_others(draft: PlanDraft, start_s: int, chosen: Sequence[PossibleVictim]) -> Hindered | None:
    """The same for a start at a time to come that will be late: until then no other one is to be late because of it."""
    until_s = overtakes_until_s(draft, leaving_of(chosen))
    if until_s is None:
        return None
    draft.wake_by(min(until_s, start_s))
    return _without_the_slowest(draft, chosen)


def _without_the_slowest(draft: PlanDraft, chosen: Sequence[PossibleVictim]) -> Hindered:
    """Perhaps the others are saved soon enough."""
    slowest = max(chosen, key=lambda one: (leaves_s(draft, leaving_of([one])), one.lease.id))
    return Hindered(frozenset({slowest.lease.id}), SAVED_FOR_OTHERS)


def leaving_of(chosen: Sequence[PossibleVictim]) -> list[Leaver]:
    """The VMs of those chosen, each with how it leaves."""
    return [pair for one in chosen for pair in zip(one.vms, one.methods, strict=True)]


def as_victims(draft: PlanDraft, chosen: Sequence[PossibleVictim], rules: VictimRules) -> tuple[Victim, ...] | Hindered:
    """One entry a VM. A migration needs a place that is free now; where there is none, the next method is taken.

    Those who are saved after all have room for their memory together, beside all that is being saved already.
    """
    victims: list[Victim] = []
    for possible in chosen:
        of_lease = _of_lease(draft, possible, rules)
        if isinstance(of_lease, Hindered):
            return of_lease
        victims += of_lease
    vms = draft.state.snapshot.vms
    leaving = [(victim.lease_id, vms[victim.vm_id], victim.method) for victim in victims]
    return memory_images_obstacle(draft.room, leaving) or tuple(victims)


def _of_lease(draft: PlanDraft, possible: PossibleVictim, rules: VictimRules) -> list[Victim] | Hindered:
    """All VMs of a lease move, or none of them: what is left of a gang would run on alone."""
    lease = possible.lease
    mark, stays = draft.room.checkpoint(), draft.timeline.stays.get(lease.id, ())
    victims = _each(draft, possible, rules)
    if not isinstance(victims, Hindered) and len({victim.method in MOVES for victim in victims}) > 1:
        draft.room.rollback(mark)
        draft.timeline.replace(lease.id, stays)
        victims = _each(draft, possible, rules, may_move=False)
    return victims


def _each(
    draft: PlanDraft, possible: PossibleVictim, rules: VictimRules, *, may_move: bool = True
) -> list[Victim] | Hindered:
    victims: list[Victim] = []
    for vm, method in zip(possible.vms, possible.methods, strict=True):
        victim = _as_victim(draft, possible.lease, vm, method, rules, may_move=may_move)
        if victim is None:
            text = f"does not fit; VM {vm.id} would have to move and fits nowhere else"
            return Hindered(frozenset({possible.lease.id}), Reason("nowhere-to-move", text))
        victims.append(victim)
    return victims


def _as_victim(
    draft: PlanDraft, lease: Lease, vm: VirtualMachine, first: PreemptionMethod, rules: VictimRules, *, may_move: bool
) -> Victim | None:
    methods = methods_of(lease, rules)
    in_vain = methods_in_vain(draft.state, draft.policies.limits).get(lease.id, ())
    host_id, sequence = vm.history[-1].host_id, vm.history[-1].sequence
    if vm.is_at_rest:
        return Victim(vm.id, lease.id, host_id, first, sequence=sequence)
    for method in methods[methods.index(first) :]:
        if method in in_vain:
            continue
        if method is PreemptionMethod.SUSPEND is not first and len(lease.vm_ids) > 1:
            # The others have another way: what rests in place must return as a whole.
            continue
        if method not in MOVES:
            if method_is_possible(draft.state.snapshot, vm, lease, method):
                return Victim(vm.id, lease.id, host_id, method, sequence=sequence)
            continue
        if not may_move:
            continue
        target = another_host(draft, lease, vm, draft.state.hosts.ids != host_id)
        if not isinstance(target, Unplaced):
            hold_target(draft, lease, vm, target[0])
            return Victim(vm.id, lease.id, host_id, method, target[0].host_id, sequence)
    return None
