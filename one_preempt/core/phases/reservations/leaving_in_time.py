"""Who must leave for a start to come, and the latest time in which all of them can.

Saving memory takes turns on a host, or on the storage that all share: what is laid down for one start is nobody
else's time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence, Set
from operator import add, sub

from one_preempt.core.availability.lanes import Operation
from one_preempt.core.availability.timeline import Stay
from one_preempt.core.memory.remembered_giving_way import GivingWay
from one_preempt.core.memory.remembered_leavers import InTheWay
from one_preempt.core.model.lease import Lease, LeaseState, PreemptionMethod
from one_preempt.core.model.time_rules import Exclusion
from one_preempt.core.overhead.planning import Leaver, leave_in_turns_s, leave_lanes_s, leave_s, shut_down_s
from one_preempt.core.phases.devices_and_groups.beside_promised import who_has_its_devices
from one_preempt.core.phases.draft import PlanDraft, Preparation
from one_preempt.core.phases.reservations.giving_way import leaving_leases, taken_by, there_at
from one_preempt.core.phases.reservations.room_ahead import firm_room_left, is_short
from one_preempt.core.queue_turn import Turn
from one_preempt.core.victims import runs_since_s, undisturbed_s

Leaving = Sequence[Leaver]
# What is left of a host, by the instant from which on it is so; such an instant; and what a VM takes there.
_Part = tuple[dict[int, list[int]], int, Sequence[int]]
_NOT_YET = frozenset({LeaseState.STARTING, LeaseState.RETURNING})
_SHUT_DOWN = frozenset({PreemptionMethod.TERMINATE, PreemptionMethod.UNDEPLOY})


def prepare(
    draft: PlanDraft, lease_id: int, start_s: int, leaving: Leaving, not_before_s: int | None = None
) -> Preparation | None:
    """Take the latest time before `start_s` in which all of `leaving` can leave; None where there is none.

    It begins at `not_before_s` (None: now) or later, and replaces what was laid down for the lease before.
    """
    before = draft.preparations.pop(lease_id, None)
    if before is not None:
        _occupy(draft, before, -1)
    if not leaving:
        return Preparation(start_s, ())
    prepared = _latest(draft, start_s, leaving, max(draft.state.now_s, not_before_s or 0))
    if prepared is not None:
        draft.preparations[lease_id] = prepared
        _occupy(draft, prepared, 1)
    return prepared


def who_leave_too_late(draft: PlanDraft, lease_id: int, start_s: int, leavers: Sequence[Leaving]) -> list[bool]:
    """For each of `leavers`, whether it could not have left by a start to come of this lease, even if nobody else did.

    The margin may be used up, and what was laid down for the lease itself is in nobody's way.
    """
    before = draft.preparations.pop(lease_id, None)
    if before is not None:
        _occupy(draft, before, -1)
    with_margin_s = start_s + draft.policies.time.preparation_margin_s
    too_late = [_latest(draft, with_margin_s, leaving, draft.state.now_s) is None for leaving in leavers]
    lay_back(draft, lease_id, before)
    return too_late


def may_leave_again(
    draft: PlanDraft,
    turn: Turn,
    methods: Sequence[PreemptionMethod],
    rows: Collection[int],
    reserved: Iterable[int],
    worthwhile_until_s: int,
) -> bool:
    """Whether who starts now could be saved again for the first start of these leases that it meets on its hosts.

    It could if the storage has time for that beside all that is laid down, at the end of what makes its start worth its
    while or later; then it is laid down, too. Asked only where all take turns on one storage.
    """
    rules, stays = draft.policies.time, draft.timeline.stays
    there = [stay for one in reserved for stay in stays[one] if not set(rows).isdisjoint(stay.host_rows)]
    first_s = min((stay.start_s for stay in there if stay.start_s > draft.state.now_s), default=None)
    if _turns_on(draft) is not Exclusion.SHARED_STORAGE or first_s is None:
        return True
    method_of = dict(zip(turn.lease.vm_ids, methods, strict=True))
    leaving = [(vm, method_of[vm.id]) for vm in turn.vms]
    begin_s = worthwhile_until_s - rules.preparation_margin_s - leaves_s(draft, leaving) - rules.grace_s
    prepared = _latest(draft, first_s, leaving, begin_s)
    if prepared is not None:
        _occupy(draft, prepared, 1)
    return prepared is not None


def _latest(draft: PlanDraft, start_s: int, leaving: Leaving, not_before_s: int) -> Preparation | None:
    """The latest time before a start in which all of `leaving` can leave that begins at `not_before_s` or later."""
    rules, lanes_s = draft.policies.time, _lanes_s(draft, leaving)
    end_by_s = start_s - rules.preparation_margin_s
    in_turns_s = leave_in_turns_s(leaving, draft.rates, draft.policies.limits.victims_in_flight)
    shutdowns_s = shut_down_s(leaving, draft.rates, _turns_on(draft))
    begin_s = end_by_s - max(in_turns_s, shutdowns_s, *lanes_s.values())
    if _turns_on(draft) is Exclusion.NONE:
        prepared = Preparation(begin_s - rules.grace_s, ())
    else:
        operations = [Operation(lane, took_s) for lane, took_s in sorted(lanes_s.items()) if took_s > 0]
        starts = draft.lanes.as_late_as_possible(operations, not_before_s, end_by_s)
        if starts is None:
            return None
        slots = tuple((one.lane, at_s, at_s + one.duration_s) for one, at_s in zip(operations, starts, strict=True))
        prepared = Preparation(min((begin_s, *starts)) - rules.grace_s, slots)
    return prepared if prepared.begin_s >= not_before_s else None


def take_turns_until(draft: PlanDraft, leaving: Leaving, gone_at_s: int) -> int:
    """Those who leave already have their turns until then, as is planned: nobody else is saved in these.

    Where others who leave have turns at that time they come behind these: the instant is given when they are gone.
    """
    now_s = draft.state.now_s
    if _turns_on(draft) is Exclusion.NONE or gone_at_s <= now_s:
        return gone_at_s
    last_s = gone_at_s
    for lane, took_s in _lanes_s(draft, leaving).items():
        begin_s = max(now_s, gone_at_s - took_s)
        if took_s > 0:
            rest = Operation(lane, gone_at_s - begin_s)
            begin_s = draft.lanes.earliest(rest, begin_s)
            draft.lanes.occupy(lane, begin_s, begin_s + rest.duration_s)
            last_s = max(last_s, begin_s + rest.duration_s)
    return last_s


def takes_turns_of_others(draft: PlanDraft, leaving: Leaving) -> bool:
    """Who leaves from now on would be saved while others are to be saved for starts to come, where that takes turns.

    The next decision is due when the first of these is done.
    """
    rules, ends_s = draft.policies.time, [end_s for one in draft.preparations.values() for _, _, end_s in one.slots]
    if _turns_on(draft) is Exclusion.NONE or not ends_s:
        return False
    begin_s = draft.state.now_s + rules.grace_s
    operations = _savings(draft, leaving)
    if all(draft.lanes.as_late_as_possible((one,), begin_s, begin_s + one.duration_s) for one in operations):
        return False
    draft.wake_by(min(ends_s))
    return True


def overtakes_until_s(draft: PlanDraft, leaving: Leaving) -> int | None:
    """Until when who leaves would be saved before others who are to be for starts to come, and who had to wait for him.

    None where he is not. Whoever is saved already comes before all of them.
    """
    rules, begin_s = draft.policies.time, draft.state.now_s + draft.policies.time.grace_s
    if _turns_on(draft) is Exclusion.NONE or not draft.preparations:
        return None
    operations = _savings(draft, leaving)
    behind_s = [draft.lanes.earliest(one, begin_s) for one in operations]
    prepared = list(draft.preparations.values())
    for one in prepared:
        _occupy(draft, one, -1)
    at_once_s = [draft.lanes.earliest(one, begin_s) for one in operations]
    for one in prepared:
        _occupy(draft, one, 1)
    return None if at_once_s == behind_s else max(behind_s) - rules.grace_s


def _savings(draft: PlanDraft, leaving: Leaving) -> list[Operation]:
    """How long those who leave take each lane; whoever shuts down is in nobody's way who is saved, if several may leave
    at once."""
    taking = [(vm, method) for vm, method in leaving if _leave_one_by_one(draft) or method not in _SHUT_DOWN]
    lanes_s = _lanes_s(draft, taking)
    return [Operation(lane, took_s) for lane, took_s in sorted(lanes_s.items()) if took_s > 0]


def _turns_on(draft: PlanDraft) -> Exclusion:
    """What those who leave take turns on: where only one may leave at once, it is as if all shared one storage."""
    return Exclusion.SHARED_STORAGE if _leave_one_by_one(draft) else draft.policies.time.exclusion


def _leave_one_by_one(draft: PlanDraft) -> bool:
    return draft.policies.limits.victims_in_flight == 1


def _lanes_s(draft: PlanDraft, leaving: Leaving) -> dict[int, int]:
    """For how long those who leave take each lane; where only one may at once, even who takes no time has a turn."""
    lanes_s = leave_lanes_s(leaving, draft.rates, _turns_on(draft), with_shutdowns=_leave_one_by_one(draft))
    return {lane: max(1, took_s) for lane, took_s in lanes_s.items()} if _leave_one_by_one(draft) else lanes_s


def leaves_s(draft: PlanDraft, leaving: Iterable[Leaver]) -> int:
    """How long all of `leaving` take to leave for others, as many at once as the administrator's limit allows."""
    policies = draft.policies
    return leave_s(leaving, draft.rates, policies.time.exclusion, policies.limits.victims_in_flight)


def lay_back(draft: PlanDraft, lease_id: int, before: Preparation | None) -> None:
    """Have laid down for a lease what was before something was tried of which nothing comes."""
    tried = draft.preparations.pop(lease_id, None)
    if tried is not before:
        if tried is not None:
            _occupy(draft, tried, -1)
        if before is not None:
            _occupy(draft, before, 1)
    if before is not None:
        draft.preparations[lease_id] = before


def _occupy(draft: PlanDraft, preparation: Preparation, sign: int) -> None:
    change = draft.lanes.occupy if sign > 0 else draft.lanes.vacate
    for lane, start_s, end_s in preparation.slots:
        change(lane, start_s, end_s)


def who_must_leave(draft: PlanDraft, lease: Lease, stay: Stay) -> Leaving:
    """Those who would still be on the hosts of `stay` and are in its way, as far as can be told now.

    On each host the largest go first until there is room, or, where they would be late and others not, of these the
    largest; and who has its devices where it asks for some. Who really leaves, the preemption policy chooses.
    """
    there = there_at(draft, lease, stay)
    if not there or draft.timeline.is_empty:
        return ()
    timeline, known = draft.timeline, draft.memory.leavers
    gone = leaving_leases(draft).intersection(one.lease.id for one in there)
    gone_by = draft.giving_way.gone_by
    asked = InTheWay(stay, timeline.stays.get(lease.id, ()), tuple(there), gone, dict(gone_by) if gone else {})
    # Of whom nobody leaves for it is asked whether they are in the way, which others may change.
    lasts = stay.start_s >= draft.state.now_s and stay.lease_id == lease.id and lease.preempts
    largest = known.of(timeline.firm_stays, asked) if lasts else None
    if largest is None:
        largest = tuple(_in_the_way(draft, lease, stay, there, gone)[0])
        if lasts:
            known.keep(timeline.firm_stays, asked, largest, len(draft.state.leases))
    leavers = _in_time_if_possible(draft, lease, stay, there, gone, largest)
    if not draft.matched.hosts_have_devices or not any(vm.pci_requests for vm in draft.members(lease)):
        return leavers
    out = {vm.id for vm, _ in leavers}
    holders = who_has_its_devices(draft, lease, stay, sorted(there, key=_largest_first), out)
    return (*leavers, *(pair for one in holders for pair in zip(one.vms, one.methods, strict=True)))


def _in_time_if_possible(
    draft: PlanDraft, lease: Lease, stay: Stay, there: Sequence[GivingWay], gone: Set[int], leavers: Leaving
) -> Leaving:
    """Others in place of `leavers` where these could not have left by the start of a stay, and those can.

    Not where any of them is leaving already: he has his room until he has left, whoever else leaves.
    """
    if stay.start_s <= draft.state.now_s or not leaves_late(draft, leavers, stay.start_s):
        return leavers
    if gone and any(draft.state.lease_of_vm[vm.id] in gone for vm, _ in leavers):
        return leavers
    prompt = [one for one in there if not leaves_late(draft, vms_leaving(one), stay.start_s)]
    if not prompt:
        return leavers
    others, is_enough = _in_the_way(draft, lease, stay, there, gone, prompt)
    return others if is_enough and not leaves_late(draft, others, stay.start_s) else leavers


def _in_the_way(
    draft: PlanDraft,
    lease: Lease,
    stay: Stay,
    there: Sequence[GivingWay],
    gone: Set[int],
    among: Sequence[GivingWay] | None = None,
) -> tuple[Leaving, bool]:
    """Who of those `there` leaves, None: of all of them, `among` these alone; and whether that is enough.

    Those who are `gone`, by lease id, leave already: they are in the way if they will not have left by its start.
    """
    left = firm_room_left(draft, lease, stay, there)
    leaving: list[tuple[GivingWay, list[_Part]]] = []
    for one in sorted(there if among is None else among, key=_largest_first):
        # Whoever ends sooner is in nobody's way from then on.
        in_the_way: list[_Part] = [
            (parts, from_s, taken.amounts)
            for taken in taken_by(draft, lease, one, stay.start_s, is_leaving=one.lease.id in gone)
            for parts in [left.get(taken.row, {})]
            for from_s in parts
            if taken.ends_at_s is None or from_s < taken.ends_at_s
        ]
        if any(amount < 0 for parts, from_s, _ in in_the_way for amount in parts[from_s]):
            leaving.append((one, in_the_way))
            _change(in_the_way, add)
    # The largest of all is not always the one that leaves most where it is needed.
    for at in [at for at in leaving[:-1] if at[0].lease.id not in gone]:
        _change(at[1], sub)
        if any(amount < 0 for parts, from_s, _ in at[1] for amount in parts[from_s]):
            _change(at[1], add)
        else:
            leaving.remove(at)
    return [pair for one, _ in leaving for pair in vms_leaving(one)], not is_short(left)


def _change(in_the_way: Sequence[_Part], by: Callable[[int, int], int]) -> None:
    for parts, from_s, amounts in in_the_way:
        parts[from_s] = list(map(by, parts[from_s], amounts))


def vms_leaving(one: GivingWay) -> Leaving:
    """The VMs of a lease that gives way, each with how it leaves."""
    return list(zip(one.vms, one.methods, strict=True))


def leaves_late(draft: PlanDraft, leaving: Leaving, start_s: int) -> bool:
    """Some of them would still be there at a start, or its margin be used up, even if nobody else left."""
    return bool(leaving) and gone_by_s(draft, leaving) > start_s


def gone_by_s(draft: PlanDraft, leaving: Leaving) -> int:
    """From when on something may start, with its margin, for which all of these leave as soon as they may."""
    rules = draft.policies.time
    from_s = max(draft.state.now_s, spared_until_s(draft, leaving)) + rules.grace_s
    return from_s + leaves_s(draft, leaving) + rules.preparation_margin_s


def spared_until_s(draft: PlanDraft, leaving: Leaving) -> int:
    """What has only just started is left alone for a while; the instant from which on all of them may be asked.

    Unless its owner has paused it since.
    """
    state, limits = draft.state, draft.policies.limits
    # The VMs of a gang mostly began together.
    began = {(state.lease_of_vm[vm.id], vm.history[-1].running_start_at_s) for vm, _ in leaving if not vm.is_at_rest}
    leases = [(state.leases[lease_id], at_s) for lease_id, at_s in began]
    return max(
        [_runs_since_s(draft, lease, at_s) + undisturbed_s(lease, limits) for lease, at_s in leases],
        default=state.now_s,
    )


def _runs_since_s(draft: PlanDraft, lease: Lease, running_start_at_s: int) -> int:
    """Since when a VM of it runs; what boots, or is read back, has not begun to."""
    if not running_start_at_s or (lease.run_began_at_s is None and lease.state in _NOT_YET):
        return draft.state.now_s
    return runs_since_s(lease, running_start_at_s)


def _largest_first(one: GivingWay) -> tuple[int, int, int]:
    return (-one.lease.total.cpu_centi, -one.lease.total.memory_mib, one.lease.id)
