"""Carry on the preemptions under way, or give them up.

Each is one sequence: the victims leave, their leaving is observed, the preemptor is deployed, and is over when
the preemptor runs. Whatever does not go as planned (a victim that will not leave, an owner or administrator
who acts meanwhile, a host that dies) ends it: nothing is undone by force, the victims that left return by the
queue, and a preemptor that still needs room is decided upon anew, in this same cycle.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from one_preempt.core.availability.timeline import Stay
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.model.cluster_state import IntArray
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.lease_lifecycle import VmPhase, may_be_sent_out, phase_of
from one_preempt.core.model.ledger import OpenPreemption
from one_preempt.core.model.plan import Preemption, PreemptionEnd, Reason, Victim
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.model.written_time import utc_text
from one_preempt.core.observed_room import left_of_promise
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.preempting.lent_room import lent_room
from one_preempt.core.phases.preempting.preemption_end import (
    TAKEN_BY_THEN,
    begins_s,
    give_up,
    is_due,
    is_open_for_long,
    is_under_way,
    lost_host,
    obstacle_of,
    over,
)
from one_preempt.core.phases.preempting.preemptor_places import placed_after, placed_anywhere, places_after
from one_preempt.core.phases.preempting.room_in_time import moves_aside
from one_preempt.core.phases.preempting.sequence import (
    leave_id,
    making_room,
    sequence_actions,
    start_actions,
    start_id,
    waits_for,
)
from one_preempt.core.phases.queue.starts import hindrance_of, start
from one_preempt.core.phases.reservations.ending_guests import gone_any_moment
from one_preempt.core.phases.reservations.giving_way import note_leavers
from one_preempt.core.phases.reservations.in_danger import warn_of_late_leavers
from one_preempt.core.phases.reservations.leaving_in_time import leaves_s, take_turns_until
from one_preempt.core.phases.reservations.promised import has_exact_start, is_promised
from one_preempt.core.phases.reservations.stays import book, takes_s
from one_preempt.core.victims import has_left, is_resting


def continue_preemptions(draft: PlanDraft) -> None:
    """Take each open preemption one step further, the oldest first; last those of which nobody is leaving yet."""
    in_turn = sorted(draft.state.preemptions, key=lambda one: not _has_begun(draft, one.preemption))
    for number, open_preemption in enumerate(in_turn):
        later = [one.preemption for one in in_turn[number + 1 :]]
        lent = lent_room(draft, open_preemption.preemption, later)
        with draft.room.beside(lent):
            _continue(draft, open_preemption, lent)


def _continue(draft: PlanDraft, open_preemption: OpenPreemption, lent: IntArray) -> None:
    """`lent` is the room of what rests on its hosts, as long as it goes on."""
    preemption = open_preemption.preemption
    if not draft.state.mistaken_lease_ids.isdisjoint((preemption.preemptor_lease_id, *preemption.victim_lease_ids)):
        draft.ended.append(give_up(preemption, "vm-is-another", "another VM has the id of one of its VMs by now"))
        return
    if _is_half_seen(draft, preemption):
        _wait_until_seen(draft, open_preemption)
        return
    lease = draft.state.leases.get(preemption.preemptor_lease_id)
    end = over(draft, preemption, lease)
    if end is None and lease is not None:
        outstanding = [victim for victim in preemption.victims if not has_left(draft.state, preemption, victim)]
        end = obstacle_of(draft, open_preemption, outstanding)
        if end is None and not is_due(draft, lease):
            if _has_room_without(draft, preemption, lease, outstanding):
                return
            end = _prepare(draft, preemption, lease, outstanding)
        elif end is None and outstanding and _starts_elsewhere(draft, preemption, lease, outstanding, lent):
            # It has its room already: none is to be given back.
            return
        elif end is None and outstanding:
            end = _keep_victims_leaving(draft, preemption, lease, outstanding)
        elif end is None:
            end = _deploy_preemptor(draft, preemption, lease)
    if end is not None:
        draft.ended.append(end)
        if lease is not None and not any(vm.host_id is not None for vm in draft.members(lease)):
            _give_back(draft, preemption, lease, by_others=end.reason.code == TAKEN_BY_THEN)


def _has_begun(draft: PlanDraft, preemption: Preemption) -> bool:
    """Some victim was told to leave, or leaves, and is not only being warned or waiting for its turn."""
    return any(_begins(draft, preemption, one) for one in preemption.victims)


def _begins(draft: PlanDraft, preemption: Preemption, victim: Victim) -> bool:
    return is_under_way(draft, preemption, victim) or _is_leaving(draft, victim)


def _is_leaving(draft: PlanDraft, victim: Victim) -> bool:
    vm = draft.state.snapshot.vms.get(victim.vm_id)
    return vm is not None and not may_be_sent_out(vm)


def _starts_elsewhere(
    draft: PlanDraft, preemption: Preemption, lease: Lease, outstanding: list[Victim], lent: IntArray
) -> bool:
    """Nobody has to leave any more, and whoever was told to is seen to; it starts where there is room now.

    Of a gang that leaves nobody is left behind.
    """
    vms = [draft.state.snapshot.vms[placement.vm_id] for placement in preemption.placements]
    begun = {one.lease_id for one in preemption.victims if _begins(draft, preemption, one)}
    following = [victim for victim in outstanding if victim.lease_id in begun]
    if not all(_is_leaving(draft, victim) for victim in following):
        return False
    if not all(vm.may_be_deployed for vm in vms) or hindrance_of(draft, lease, vms) is not None:
        return False
    meanwhile = "those who leave for it are still there" if begun else "nobody has been told to leave yet"
    with draft.room.beside(-lent):
        # Nothing is lent to it any more once its preemption is over.
        placed = placed_anywhere(draft, lease, vms, outstanding)
    if isinstance(placed, Unplaced):
        return False
    draft.ended.append(give_up(preemption, "room-elsewhere", f"there is room for it by now, and {meanwhile}"))
    start(draft, lease, vms, placed)
    return True


def _has_room_without(draft: PlanDraft, preemption: Preemption, lease: Lease, outstanding: list[Victim]) -> bool:
    """Nobody has to leave for its start to come any more, and nobody has: it is promised what has become free."""
    if len(outstanding) < len(preemption.victims) or _has_begun(draft, preemption):
        return False
    vms, stays = draft.startable(lease), draft.timeline.stays.get(lease.id, ())
    if len(vms) < len(lease.vm_ids) or not stays or stays[0].displaced:
        return False
    if not moves_aside(draft, lease, vms, stays[0]):
        return False
    text = "there will be room for it by its start, and nobody has been told to leave yet"
    draft.ended.append(give_up(preemption, "room-elsewhere", text))
    return True


def _give_back(draft: PlanDraft, preemption: Preemption, lease: Lease, *, by_others: bool) -> None:
    """The room that was kept for it is anybody's again, and a reservation to come is booked anew, or stays as it is
    written; what is late has nothing else, and keeps it, unless a host of it is lost.

    Where it was taken `by_others`, whether these leave for it or it moves is the reservation's question.
    """
    exact = is_promised(draft, lease) and has_exact_start(draft, lease)
    stays = draft.timeline.stays.get(lease.id, ())
    written = left_of_promise(draft.state, lease, draft.state.reservations.get(lease.id, ()))
    has_lost = _has_lost_a_host(draft, stays[:1]) or lost_host(draft, preemption) is not None
    if has_lost or not exact or not (by_others or is_due(draft, lease)):
        draft.timeline.replace(lease.id, written)
    elif by_others and [one.host_rows for one in written] == [one.host_rows for one in stays]:
        draft.timeline.replace(lease.id, tuple(replace(one, displaced=False, vm_ids=()) for one in written))
    elif stays:
        # Room may have been made on other hosts than those that are written, for no longer than it still takes.
        left_s = lease.remaining_s
        end_s = stays[0].end_s
        if left_s is not None and end_s is not None:
            end_s = min(end_s, max(draft.state.now_s, stays[0].start_s) + left_s)
        book(draft, lease, (replace(stays[0], end_s=end_s), *stays[1:]))


def _has_lost_a_host(draft: PlanDraft, stays: Iterable[Stay]) -> bool:
    accepts_vms = draft.state.hosts.accepts_vms
    return any(stay.displaced or not accepts_vms[list(stay.host_rows)].all() for stay in stays)


def _prepare(draft: PlanDraft, preemption: Preemption, lease: Lease, outstanding: list[Victim]) -> PreemptionEnd | None:
    """Have its victims leave before its time comes; the timeline keeps the room, and where it goes is settled then."""
    full = _keep_targets(draft, preemption, outstanding)
    if full is not None:
        return full
    ours = _ours(draft, preemption, outstanding)
    for victim in preemption.victims:
        if is_resting(draft.state.snapshot, victim):
            draft.room.hold(victim.host_id, draft.state.snapshot.vms[victim.vm_id].resources)
    draft.actions.extend(sequence_actions(draft, preemption, lease, ours, ()))
    draft.hold_memory_images(outstanding)
    # Who has left may return elsewhere: it may be long until the START, and what rests in place is not asked here.
    here = {one.lease_id for one in preemption.victims if one in outstanding or is_resting(draft.state.snapshot, one)}
    draft.busy_leases.update({lease.id, *here})
    start_at_s = begins_s(draft, lease)
    draft.wake_by(start_at_s)
    if outstanding and _take_turns(draft, preemption, lease, outstanding) > start_at_s:
        warn_of_late_leavers(draft, lease, start_at_s)
    else:
        starts = f"reserved: starts at {utc_text(start_at_s)}"
        draft.statuses[lease.id] = making_room(start_at_s) if outstanding else starts
    return None


def _take_turns(draft: PlanDraft, preemption: Preemption, lease: Lease, outstanding: list[Victim]) -> int:
    """Nobody else is saved meanwhile where that takes turns; when the last of its victims will have left."""
    vms, gone_at_s = draft.state.snapshot.vms, _gone_at_s(draft, preemption, outstanding)
    leaving = [(vms[victim.vm_id], victim.method) for victim in outstanding]
    gone_at_s = take_turns_until(draft, leaving, gone_at_s)
    note_leavers(draft, preemption, outstanding, gone_at_s, begins_s(draft, lease))
    return gone_at_s


def _gone_at_s(draft: PlanDraft, preemption: Preemption, outstanding: list[Victim]) -> int:
    """When the last of its victims will have left if that takes as long as is planned."""
    vms = draft.state.snapshot.vms
    unsent = [victim for victim in outstanding if not is_under_way(draft, preemption, victim)]
    # Those that have left already had their turn before the others.
    sent = [victim for victim in preemption.victims if victim.vm_id in vms and victim not in unsent]
    sent_at_s = [
        record.intended_at_s if record.outcome_at_s is None else record.outcome_at_s
        for victim in sent
        if (record := draft.state.actions.get(leave_id(preemption, victim))) is not None
    ]
    first_s = max(draft.state.now_s, preemption.decided_at_s + draft.policies.time.grace_s)
    return max(
        began_s + leaves_s(draft, [(vms[victim.vm_id], victim.method) for victim in leaving])
        for began_s, leaving in ((min(sent_at_s, default=first_s), sent), (first_s, unsent))
        if leaving
    )


def _its_room_comes(draft: PlanDraft, preemption: Preemption, lease: Lease) -> bool:
    """All have left for a start that is due, and who is ending there as well leaves in a moment."""
    if not (is_promised(draft, lease) and has_exact_start(draft, lease)):
        return False
    coming = [(one.host_id, draft.state.snapshot.vms[one.vm_id]) for one in preemption.placements]
    wanted = [(host_id, vm.resources) for host_id, vm in coming if vm.may_be_deployed]
    return gone_any_moment(draft, lease, wanted)


def _ours(draft: PlanDraft, preemption: Preemption, outstanding: list[Victim]) -> list[Victim]:
    """Those that run or are paused, or leave by our hand; others leave by somebody else's."""
    vms = draft.state.snapshot.vms
    return [
        victim
        for victim in outstanding
        if may_be_sent_out(vms[victim.vm_id]) or is_under_way(draft, preemption, victim)
    ]


def _is_half_seen(draft: PlanDraft, preemption: Preemption) -> bool:
    """A VM of it exists and could not be read: nothing is concluded, and nothing done, in this cycle."""
    unreadable = draft.state.snapshot.unreadable_vm_ids
    concerned = {placement.vm_id for placement in preemption.placements}
    concerned.update(victim.vm_id for victim in preemption.victims)
    return not unreadable.isdisjoint(concerned)


def _wait_until_seen(draft: PlanDraft, open_preemption: OpenPreemption) -> None:
    """Keep all that it may need, but not for ever: an owner can make a VM unreadable on purpose."""
    preemption = open_preemption.preemption
    if is_open_for_long(draft, open_preemption):
        draft.ended.append(
            give_up(preemption, "unreadable", "one of its VMs could not be read for preemption_timeout_s")
        )
        return
    draft.busy_leases.update({preemption.preemptor_lease_id, *preemption.victim_lease_ids})
    for placement in preemption.placements:
        draft.hold_whole_host(placement.host_id)
    draft.hold_memory_images(victim for victim in preemption.victims if not has_left(draft.state, preemption, victim))


def _keep_victims_leaving(
    draft: PlanDraft, preemption: Preemption, lease: Lease, outstanding: list[Victim]
) -> PreemptionEnd | None:
    """Ask again for what is still to leave, and keep the room that comes free for the preemptor."""
    vms = draft.state.snapshot.vms
    full = _keep_targets(draft, preemption, outstanding)
    if full is not None:
        return full
    placements = places_after(draft, preemption, lease, outstanding)
    if isinstance(placements, Reason):
        return give_up(preemption, "room-taken", f"the room was taken meanwhile: {placements.text}")
    ours = _ours(draft, preemption, outstanding)
    # While a victim leaves by somebody else's hand there is no step of ours that the start could wait for.
    places = placements if len(ours) == len(outstanding) else ()
    draft.actions.extend(sequence_actions(draft, preemption, lease, ours, places))
    draft.hold_rooms(placements, [(victim.host_id, vms[victim.vm_id]) for victim in outstanding])
    draft.hold_memory_images(outstanding)
    draft.busy_leases.update({lease.id, *preemption.victim_lease_ids})
    gone_at_s = _take_turns(draft, preemption, lease, outstanding)
    starting = [vms[placement.vm_id] for placement in preemption.placements]
    draft.statuses[lease.id] = waits_for(draft, lease, starting, len(outstanding), gone_at_s)
    _lasts_from(draft, preemption, lease, gone_at_s)
    return None


def _lasts_from(draft: PlanDraft, preemption: Preemption, lease: Lease, gone_at_s: int) -> None:
    """It is there for as long as planned from then on: its victims may have had to wait for others to leave first."""
    stays, vms = draft.timeline.stays.get(lease.id, ()), draft.state.snapshot.vms
    whole_s = takes_s(draft, lease, [vms[placement.vm_id] for placement in preemption.placements])
    if stays and whole_s is not None and stays[0].end_s is not None and stays[0].end_s < gone_at_s + whole_s:
        draft.timeline.replace(lease.id, (replace(stays[0], end_s=gone_at_s + whole_s), *stays[1:]))


def _keep_targets(draft: PlanDraft, preemption: Preemption, outstanding: list[Victim]) -> PreemptionEnd | None:
    """Keep the room to which victims are still to be moved; somebody else's hand may have taken it."""
    room, mark = draft.room, draft.room.checkpoint()
    for victim in outstanding:
        vm, host_id = draft.state.snapshot.vms[victim.vm_id], victim.target_host_id
        if host_id is None or phase_of(vm) is not VmPhase.RUNNING:
            continue
        room.hold(host_id, vm.resources)
        if (room.free[draft.state.hosts.index_by_id[host_id]] < 0).any():
            room.rollback(mark)
            text = f"victim VM {vm.id} has no room on host {host_id} any more, where it was to move"
            return give_up(preemption, "victim-cannot-move", text)
    return None


def _deploy_preemptor(draft: PlanDraft, preemption: Preemption, lease: Lease) -> PreemptionEnd | None:
    """All victims have left: put the preemptor's VMs where they were meant to go, or wherever they fit now."""
    waiting: list[VirtualMachine] = []
    for placement in preemption.placements:
        vm = draft.state.snapshot.vms[placement.vm_id]
        if vm.may_be_deployed:
            waiting.append(vm)
        record = draft.attempts.last(start_id(preemption, vm.id))
        if record is not None and record.succeeded is False and record.attempts >= draft.policies.limits.attempts:
            return give_up(
                preemption,
                "preemptor-would-not-start",
                f"VM {vm.id} did not start: {record.error_text or vm.state_name}",
            )
    if not waiting:
        return None
    placed = placed_after(draft, preemption, lease, waiting)
    if isinstance(placed, Unplaced) and _its_room_comes(draft, preemption, lease):
        draft.busy_leases.add(lease.id)
        draft.statuses[lease.id] = "late: starts as soon as its room is actually free, which can be any moment"
        return None
    if isinstance(placed, Unplaced):
        return give_up(preemption, "room-taken", f"the room was taken meanwhile: {placed.reason.text}")
    at_once = [one for one in placed if not draft.attempts.must_pause_before(start_id(preemption, one.vm_id))]
    draft.actions += start_actions(draft, preemption, lease, at_once, ())
    draft.busy_leases.add(lease.id)
    draft.starting.add(lease.id)
    return None
