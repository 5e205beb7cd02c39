"""Who would have to leave for what is firm, who is leaving already, and whom a stay to come meets there."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import NamedTuple

from one_preempt.core.availability.timeline import Stay
from one_preempt.core.memory.remembered_giving_way import GivingWay
from one_preempt.core.model.lease import Lease, LeaseState, PreemptionMethod
from one_preempt.core.model.plan import Preemption, Victim
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.observed_room import amounts_of
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.found_giving_way import GoneBy
from one_preempt.core.phases.reservations.known_ends import known_end_s
from one_preempt.core.victims import first_methods, has_left, has_overrun, is_guarded


class Taken(NamedTuple):
    """What somebody takes of the host of a row, and when he ends; None: nobody knows."""

    row: int
    ends_at_s: int | None
    amounts: Sequence[int]


def there_at(draft: PlanDraft, lease: Lease, stay: Stay) -> Sequence[GivingWay]:
    """Others on the hosts of a stay who would still be there when it starts, and could be sent away; by lease id.

    Remembered for the last stay of each lease: several phases ask of the same.
    """
    known = draft.giving_way.at_stay.get(lease.id)
    if known is None or known[0] is not stay:
        known = draft.giving_way.at_stay[lease.id] = (stay, _there_at(draft, lease, stay))
    return known[1]


def _there_at(draft: PlanDraft, lease: Lease, stay: Stay) -> Sequence[GivingWay]:
    leases = giving_way(draft)
    on_row = draft.memory.giving_way.by_row()
    if on_row.keys().isdisjoint(stay.host_rows):
        return []
    if len(leases) > len(stay.host_rows):
        found = {one.lease.id: one for row in stay.host_rows for one in on_row.get(row, ())}
        leases = tuple([found[lease_id] for lease_id in sorted(found)])
    there = [
        one for one in leases if one.lease.id != lease.id and (one.ends_at_s is None or one.ends_at_s > stay.start_s)
    ]
    return [one for one in there if not set(one.rows).isdisjoint(stay.host_rows)] if there else there


def alone_from_the_start(draft: PlanDraft, stays: Sequence[Stay]) -> Set[int]:
    """The leases of these stays, one for each, for which `there_at` says that nobody is there: looked at all together.

    For most of what is promised hours ahead it is so in every cycle. The answers are remembered as `there_at` does.
    """
    if not stays:
        return frozenset()
    giving_way(draft)
    last_ends_s = draft.memory.giving_way.last_ends_s(len(draft.state.hosts.ids))
    alone = draft.memory.stays_ahead.ending_before(stays, last_ends_s)
    draft.giving_way.at_stay.update((stay.lease_id, (stay, ())) for stay in alone)
    return {stay.lease_id for stay in alone}


def reserved_ahead(draft: PlanDraft) -> tuple[int, ...]:
    """The leases that were promised a start to come firmly, and will have others leave for it.

    Not those for which they are leaving, or have left: whoever came there after them would not be made to leave.
    """
    leases, busy = draft.state.leases, draft.busy_leases
    return tuple(
        lease_id
        for lease_id, stays in draft.timeline.stays.items()
        if stays[-1].firm
        and not stays[-1].promise
        and stays[-1].start_s > draft.state.now_s
        and leases[lease_id].preempts
        and leases[lease_id].state is LeaseState.WAITING
        and lease_id not in busy
    )


def left_for_starts(draft: PlanDraft) -> Set[int]:
    """The leases that leave, or have left, for what starts later: on its hosts they would have to leave once more."""
    now_s, stays = draft.state.now_s, draft.timeline.stays
    ahead = (one for one in preemptions_under_way(draft) if stays.get(one.preemptor_lease_id))
    return {
        lease_id
        for one in ahead
        if stays[one.preemptor_lease_id][0].start_s > now_s
        for lease_id in one.victim_lease_ids
    }


def preemptions_under_way(draft: PlanDraft) -> list[Preemption]:
    """Those that go on in this cycle, and those that were decided upon in it."""
    over = {end.preemption_id for end in draft.ended}
    opened = [one.preemption for one in draft.state.preemptions]
    return [*(one for one in opened if one.id not in over), *draft.preemptions]


def note_leavers(
    draft: PlanDraft, preemption: Preemption, outstanding: Sequence[Victim], gone_at_s: int, begins_s: int
) -> None:
    """Those who leave have their room until they are gone, as planned.

    What the preemptor takes of it is his from now on, or once he begins, at `begins_s`.
    """
    vms, now_s = draft.state.snapshot.vms, draft.state.now_s
    wanted: dict[int, tuple[int, int]] = {}
    coming = [(one.host_id, vms[one.vm_id]) for one in preemption.placements if one.vm_id in vms]
    for host_id, vm in coming if begins_s <= now_s else ():
        cpu_centi, memory_mib = wanted.get(host_id, (0, 0))
        wanted[host_id] = cpu_centi + vm.cpu_centi, memory_mib + vm.memory_mib
    for victim in outstanding if gone_at_s > now_s else ():
        vm = vms[victim.vm_id]
        if vm.host_id != victim.host_id:
            continue
        cpu_centi, memory_mib = wanted.get(victim.host_id, (0, 0))
        wanted[victim.host_id] = max(0, cpu_centi - vm.cpu_centi), max(0, memory_mib - vm.memory_mib)
        beside = max(0, vm.cpu_centi - cpu_centi), max(0, vm.memory_mib - memory_mib)
        if any(beside):
            draft.giving_way.gone_by[vm.id] = GoneBy(preemption.preemptor_lease_id, gone_at_s, beside)


def taken_by(draft: PlanDraft, lease: Lease, one: GivingWay, start_s: int, *, is_leaving: bool) -> list[Taken]:
    """What one takes of hosts beside a stay of `lease` that starts then. Who leaves for that lease takes nothing."""
    if not is_leaving:
        amounts = amounts_of(one.vms)
        return [Taken(row, one.ends_at_s, amount) for row, amount in zip(one.rows, amounts, strict=True)]
    found, gone_by = list[Taken](), draft.giving_way.gone_by
    for row, vm in zip(one.rows, one.vms, strict=True):
        gone = gone_by.get(vm.id)
        if gone is not None and gone.preemptor_id != lease.id and gone.at_s > start_s:
            ends_at_s = gone.at_s if one.ends_at_s is None else min(one.ends_at_s, gone.at_s)
            found.append(Taken(row, ends_at_s, gone.amounts))
    return found


def leaving_leases(draft: PlanDraft) -> frozenset[int]:
    """Those whose room is somebody else's already: they are being sent out. What was moved has its own room again."""
    leaving = set[int]()
    for preemption, victim in [(one, victim) for one in preemptions_under_way(draft) for victim in one.victims]:
        # Most have several VMs there.
        if victim.lease_id not in leaving and not has_left(draft.state, preemption, victim):
            leaving.add(victim.lease_id)
    return frozenset(leaving)


def giving_way(draft: PlanDraft) -> tuple[GivingWay, ...]:
    """All leases that give way to reservations, by id; found once in a cycle."""
    if draft.giving_way.leases is None:
        found, resumed = _giving_way(draft), draft.giving_way.resumed
        if resumed:
            found = (*(one for one in found if one.lease.id not in resumed), *resumed.values())
        draft.giving_way.leases = tuple(sorted(found, key=_lease_id)) if resumed else found
        draft.memory.giving_way.remember(draft.giving_way.leases)
    return draft.giving_way.leases


def note_resumed(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], end_s: int | None) -> None:
    """These rested, and what is firm counted on their room: from now on they are there, and give way as before."""
    if is_guarded(lease) or lease.promised_deadline_at_s is not None:
        # Nobody counted on it.
        return
    rows = tuple([draft.state.hosts.index_by_id[vm.history[-1].host_id] for vm in vms])
    methods = (PreemptionMethod.SUSPEND,) * len(vms)
    draft.giving_way.resumed[lease.id] = GivingWay(lease, tuple(vms), methods, rows, end_s)
    draft.giving_way.leases = None
    draft.giving_way.at_stay.clear()


def _lease_id(one: GivingWay) -> int:
    return one.lease.id


def _once_whole(
    lease: Lease, vms: Sequence[VirtualMachine], methods: tuple[PreemptionMethod, ...]
) -> tuple[PreemptionMethod, ...] | None:
    """How these leave together with the rest of their lease, by then; None where `methods` are not of all its VMs."""
    if len(methods) < len(lease.vm_ids):
        return None
    of_all = dict(zip(lease.vm_ids, methods, strict=True))
    return tuple([of_all[vm.id] for vm in vms])


def _giving_way(draft: PlanDraft) -> tuple[GivingWay, ...]:
    state, policies, remembered = draft.state, draft.policies, draft.memory.giving_way
    row_of_host, found = state.hosts.index_by_id, list[GivingWay]()
    remembered.look_at(row_of_host)
    leaving = leaving_leases(draft)
    for lease in state.leases.values():
        if lease.state is LeaseState.WAITING:
            continue
        if not lease.terms.type.preemptable and not has_overrun(lease, state.now_s) and lease.id not in leaving:
            continue
        known = remembered.of(lease)
        vms = known.vms if known is not None else remembered.on_hosts(lease, state.snapshot.vms)
        methods = draft.ways_out(lease) if vms else None
        if methods is not None and len(vms) < len(lease.vm_ids):
            methods = first_methods(state.snapshot, lease, vms, policies.victims) or _once_whole(lease, vms, methods)
        if methods is None and vms and lease.id in leaving:
            # Who may not be suspended once more is there until he has left, as others are.
            methods = (PreemptionMethod.STOP,) * len(vms)
        if methods is None:
            continue
        stays = draft.timeline.stays.get(lease.id, ())
        ends_at_s = known_end_s(draft, lease, stays[0]) if stays else None
        if known is None or known.methods != methods or known.ends_at_s != ends_at_s:
            rows = tuple([row_of_host[vm.history[-1].host_id] for vm in vms])
            known = GivingWay(lease, vms, methods, rows, ends_at_s)
        found.append(known)
    return tuple(found)
