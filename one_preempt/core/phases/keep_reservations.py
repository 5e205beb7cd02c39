"""What was promised is kept: others leave in time, and what is due starts.

What cannot be kept as things stand is said to its owner at once, not when it is too late; it starts as soon as it can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from one_preempt.core.availability.timeline import Stay
from one_preempt.core.lease_status import started_in_part
from one_preempt.core.matching import reasons
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.plan import Reason
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.model.written_time import utc_text
from one_preempt.core.phases.devices_and_groups.beside_promised import what_it_lacks
from one_preempt.core.phases.devices_and_groups.datastores_and_networks_then import lacks_addresses
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.power.waking_times import come_up_any_moment
from one_preempt.core.phases.preempting.room_in_time import STILL_THERE, look_at_one_more, make_room_in_time
from one_preempt.core.phases.queue.starts import bar_to, is_refused_for_long, lock_on, start
from one_preempt.core.phases.reservations.ending_guests import gone_any_moment
from one_preempt.core.phases.reservations.half_started_gangs import without_the_rest
from one_preempt.core.phases.reservations.in_danger import IN_DANGER, warn
from one_preempt.core.phases.reservations.overbooked_hosts import firm_ceiling_in_turn
from one_preempt.core.phases.reservations.placed_now import place_now, place_now_beside, place_nowhere
from one_preempt.core.phases.reservations.planned_stays import piece_rules, planned_anew
from one_preempt.core.phases.reservations.promised import has_exact_start, not_before_s, promised_leases, standing_stays
from one_preempt.core.phases.reservations.room_ahead import ceiling, firm_ceiling, meets_overbooked
from one_preempt.core.phases.reservations.stays import (
    book,
    end_of,
    expected_end_s,
    stay_of_placed,
    takes_s,
)
from one_preempt.core.phases.reservations.unsuited_hosts import has_unsuited_host

_BESIDE_ROOM = frozenset({reasons.NETWORK, reasons.DATASTORE, reasons.UNMONITORED})


def keep_reservations(draft: PlanDraft) -> None:
    """Take each promised lease that does not run one step further; the first for which something begins comes first."""
    overbooked: Mapping[int, int] | None = None
    for lease in sorted(_holders(draft), key=lambda lease: (_begins_s(draft, lease), lease.id)):
        draft.reserved.add(lease.id)
        vms = draft.startable(lease)
        if not vms:
            continue
        if overbooked is None:
            overbooked = draft.timeline.firm_stays.overbooked()
        if _is_undisturbed(draft, lease, vms, overbooked):
            draft.undisturbed[lease.id] = draft.timeline.stays[lease.id][0]
            _await_start(draft, lease)
            continue
        # What is done for one may take room that others count on.
        overbooked = None
        if len(vms) < len(lease.vm_ids):
            _complete(draft, lease, vms)
        elif is_refused_for_long(draft, lease, vms):
            _keep_no_hosts(draft, lease, vms)
        elif has_exact_start(draft, lease):
            _keep_start(draft, lease, vms)
        else:
            _keep_work(draft, lease, vms)
    look_at_one_more(draft)


def _holders(draft: PlanDraft) -> list[Lease]:
    """Leases that wait for what they were promised: accepted ones, and those suspended often enough (SR11)."""
    return [lease for lease in promised_leases(draft) if lease.id not in draft.busy_leases]


def _begins_s(draft: PlanDraft, lease: Lease) -> int:
    """When others must begin to leave for it; else its promised start."""
    prepared = draft.preparations.get(lease.id)
    if prepared is not None:
        return prepared.begin_s
    stays = draft.timeline.stays.get(lease.id, ())
    return stays[0].start_s if stays else lease.terms.start_at_s or 0


def _complete(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine]) -> None:
    """Of a gang some VMs have room already: the others follow for as long, and nothing is promised anew."""
    now_s = draft.state.now_s
    if draft.is_accepted(lease) and (lease.terms.start_at_s or 0) > now_s:
        # Those were deployed by somebody's hand, which is no reason to start the others before their time.
        _await_start(draft, lease)
        starts = f"starts at {utc_text(lease.terms.start_at_s or 0)}"
        draft.statuses[lease.id] = started_in_part(draft.members(lease), starts)
        return
    stays = without_the_rest(draft.timeline.stays.get(lease.id, ()))
    end_at_s = stays[0].end_s if stays else expected_end_s(draft, lease, vms, now_s)
    free_then = firm_ceiling(draft, lease, now_s, end_at_s)
    if free_then is not None and stays:
        for row, amounts in zip(stays[0].host_rows, stays[0].amounts, strict=True):
            free_then[row] -= amounts
    placed = place_now(draft, lease, vms, (), free_then, end_at_s)
    if placed is not None:
        rest = stay_of_placed(draft, lease, vms, placed, end_at_s)
        draft.timeline.replace(lease.id, (*stays[:1], *(one for one in stays[1:] if one.start_s > now_s)))
        draft.timeline.hold_beside(rest)
        start(draft, lease, vms, placed)


def _keep_no_hosts(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine]) -> None:
    """oned refuses to start it, for long: others have its hosts, and nobody leaves. Where there is room it is tried."""
    now_s = draft.state.now_s
    if draft.timeline.stays.get(lease.id) or lease.id in draft.state.reservations:
        book(draft, lease, ())
    end_at_s = expected_end_s(draft, lease, vms, now_s)
    placed = place_now(draft, lease, vms, (), ceiling(draft, lease, now_s, end_at_s), end_at_s)
    draft.lacking_room.discard(lease.id)
    if placed is not None:
        draft.timeline.replace(lease.id, (stay_of_placed(draft, lease, vms, placed, end_at_s),))
        start(draft, lease, vms, placed)
    elif lease.id in draft.waits:
        draft.statuses[lease.id] = f"late, and no hosts are kept for it any longer: {draft.waits[lease.id].text}"


# -- an exact start ------------------------------------------------------------------------------------------


def _is_undisturbed(
    draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], overbooked: Mapping[int, int]
) -> bool:
    """All of it starts later, exactly when it was said, on hosts that hold it and where nobody is in its way by then.

    As most of what was promised, in most cycles: there is nothing to do for it but to wait.
    """
    stays = draft.timeline.stays.get(lease.id, ())
    if not stays or not stays[0].firm or stays[0].displaced or draft.giving_way.at_stay.get(lease.id) != (stays[0], ()):
        return False
    is_ahead = (lease.terms.start_at_s or 0) > draft.state.now_s and len(vms) == len(lease.vm_ids)
    if not is_ahead or not has_exact_start(draft, lease) or meets_overbooked(stays[0], overbooked):
        return False
    known = draft.memory.queue.is_locked(lease)
    if known or (known is None and lock_on(vms) is not None):
        return False
    if not lease.preempts and not set(draft.overrun_rows).isdisjoint(stays[0].host_rows):
        return False
    return what_it_lacks(draft, lease, stays[0]) is None and lacks_addresses(draft, vms, stays[0]) is None


def _await_start(draft: PlanDraft, lease: Lease) -> None:
    start_at_s = lease.terms.start_at_s or draft.state.now_s
    draft.wake_by(start_at_s)
    draft.statuses[lease.id] = _reserved_from(start_at_s)


@lru_cache(maxsize=4096)
def _reserved_from(start_at_s: int) -> str:
    return f"reserved: starts at {utc_text(start_at_s)}"


def _keep_start(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine]) -> None:
    start_at_s = lease.terms.start_at_s or draft.state.now_s
    if start_at_s <= draft.state.now_s:
        _start_due(draft, lease, vms, start_at_s)
        return
    stays = standing_stays(draft, lease)
    _await_start(draft, lease)
    if stays:
        make_room_in_time(draft, lease, vms, stays[0])
        _warn_of_what_bars(draft, lease, vms, stays[0])
        return
    is_unsuited = has_unsuited_host(draft, lease)
    why = "a host of it does not suit it any more" if is_unsuited else "a host of it is lost or disabled"
    warn(draft, lease, f"it cannot start at {utc_text(start_at_s)} as things stand: {why}")


def _warn_of_what_bars(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], stay: Stay) -> None:
    """What would hold it up if it were due, a lock, a quota or a want of addresses: said now, unless worse is."""
    told = draft.waits.get(lease.id)
    if told is not None and told.code == IN_DANGER:
        return
    bar = bar_to(draft, vms) or lacks_addresses(draft, vms, stay)
    if bar is not None:
        warn(draft, lease, f"it might not start at {utc_text(stay.start_s)}: {bar.text}")


def _start_due(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], start_at_s: int) -> None:
    """Its time has come: on the hosts that were reserved, else on any others."""
    stays = standing_stays(draft, lease)
    end_at_s = expected_end_s(draft, lease, vms, draft.state.now_s)
    if stays and end_at_s is not None and _is_long_enough(draft, lease, stays[0]):
        # A cycle that comes seconds late takes them off the overheads, not off whoever comes right behind.
        end_at_s = stays[0].end_s
    free_then = firm_ceiling_in_turn(draft, lease, stays[0] if stays else None, end_at_s)
    placed = place_now(draft, lease, vms, stays, free_then, end_at_s)
    if placed is None:
        if stays and come_up_any_moment(draft, stays[0]):
            _waits_for_its_hosts(draft, lease)
            return
        late = draft.waits.get(lease.id)
        why = late.text if late is not None else "it has no room"
        draft.statuses[lease.id] = f"late: it was to start at {utc_text(start_at_s)}; {why}"
        if stays and len(stays[0].host_rows) == len(vms):
            ids = draft.state.hosts.ids
            wanted = [(int(ids[row]), vm.resources) for row, vm in zip(stays[0].host_rows, vms, strict=True)]
            if gone_any_moment(draft, lease, wanted):
                draft.lacking_room.discard(lease.id)
        return
    stay = stay_of_placed(draft, lease, vms, placed, end_at_s)
    draft.timeline.replace(lease.id, (stay,))
    start(draft, lease, vms, placed)


def _waits_for_its_hosts(draft: PlanDraft, lease: Lease) -> None:
    draft.lacking_room.discard(lease.id)
    draft.waits[lease.id] = Reason("waking", "waits for hosts that are being switched on")
    draft.statuses[lease.id] = "reserved: starts as soon as its hosts are up, which can be any moment"
    draft.wake_by(draft.state.now_s + 1)


def _is_long_enough(draft: PlanDraft, lease: Lease, stay: Stay) -> bool:
    """All of its duration is left before the end that was promised."""
    return stay.end_s is not None and stay.end_s - draft.state.now_s >= (lease.remaining_s or 0)


# -- so much work, done in time ------------------------------------------------------------------------------


def _keep_work(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine]) -> None:
    """A lease with a deadline, or one suspended often enough: as early as it can, at the latest as promised."""
    now_s = draft.state.now_s
    ready_at_s = not_before_s(draft, lease)
    if ready_at_s > now_s:
        draft.wake_by(ready_at_s)
    elif not _has_left_its_slot(draft, lease, vms) and _start_at_once(draft, lease, vms):
        return
    lack = None if ready_at_s > now_s else _lack_beside_room(draft, lease)
    stays = standing_stays(draft, lease)
    if stays and _has_left_its_slot(draft, lease, vms) and _are_enough(draft, lease, stays[1:]):
        stays = stays[1:]
        book(draft, lease, stays)
    elif not stays or stays[0].start_s <= now_s:
        stays = planned_anew(draft, lease, vms)
        if stays and stays[0].start_s == now_s + 1:
            # Somebody who should have left is still there: no instant tells when he will have.
            if lease.terms.deadline_at_s is not None:
                warn(draft, lease, f"its DEADLINE might not be kept: {STILL_THERE if lack is None else lack.text}")
            elif lack is None:
                draft.statuses[lease.id] = "reserved: starts as soon as its room is actually free"
            return
    if stays:
        draft.wake_by(stays[0].start_s)
        draft.statuses[lease.id] = f"reserved: starts at {utc_text(stays[0].start_s)} at the latest"
        # It has its slot: nobody is sent away only so that it may start earlier.
        draft.lacking_room.discard(lease.id)
        make_room_in_time(draft, lease, vms, stays[0])
        _warn_of_what_bars(draft, lease, vms, stays[0])
        return
    what = "its DEADLINE" if lease.terms.deadline_at_s is not None else "a time for it"
    lacks_room_now = lease.id in draft.lacking_room
    bar = bar_to(draft, vms)
    also = f", and {bar.text}" if bar is not None else "" if lack is None else f". {lack.text}"
    warn(draft, lease, f"{what} cannot be kept as things stand: there is no room in time{also}")
    if lacks_room_now and lease.preempts:
        # It has no slot to wait for, and makes room now, as who is late for an exact start does.
        draft.lacking_room.add(lease.id)


def _lack_beside_room(draft: PlanDraft, lease: Lease) -> Reason | None:
    """What it lacks besides room on hosts, by the try to start it now: time alone does not bring that."""
    told = draft.waits.get(lease.id)
    return told if told is not None and told.code in _BESIDE_ROOM else None


def _has_left_its_slot(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine]) -> bool:
    """The slot that is due has only the time left that was set aside for leaving it: not worth coming back for."""
    stays = standing_stays(draft, lease)
    if len(stays) < 2 or lease.terms.deadline_at_s is None or stays[0].end_s is None:
        return False
    return stays[0].end_s - draft.state.now_s <= piece_rules(draft, lease, vms).suspend_s


def _are_enough(draft: PlanDraft, lease: Lease, stays: Sequence[Stay]) -> bool:
    """Do these last for all that is left of the lease?"""
    left_s = lease.left_at(draft.state.now_s)
    lengths_s = [stay.end_s - stay.start_s for stay in stays if stay.end_s is not None]
    return left_s is not None and (len(lengths_s) < len(stays) or sum(lengths_s) >= left_s)


def _start_at_once(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine]) -> bool:
    """Start it now for all that is left of it, or for the slot that is due; whether it starts."""
    now_s = draft.state.now_s
    stays = standing_stays(draft, lease)
    is_due = bool(stays) and stays[0].start_s <= now_s
    if not is_due and not draft.timeline.has_counted_nodes(lease.id, len(vms), now_s):
        # What was promised by number stands on none of the hosts; all that is free is somebody's.
        return place_nowhere(draft, lease, vms)
    with draft.room.beside(draft.resting_room):
        is_full = not draft.matchmaker.has_room(vms, draft.room)
    if is_full:
        # So it is for most that wait, and it is settled whatever was promised to whom.
        return place_nowhere(draft, lease, vms)
    if _start_whole(draft, lease, vms):
        return True
    if not is_due:
        return False
    slot_end_s = stays[0].end_s
    free_then = firm_ceiling_in_turn(draft, lease, stays[0], slot_end_s)
    placed = place_now_beside(draft, lease, vms, stays, free_then, slot_end_s)
    if placed is None:
        return False
    first = stay_of_placed(draft, lease, vms, placed, slot_end_s)
    book(draft, lease, [first, *stays[1:]])
    start(draft, lease, vms, placed)
    return True


def _start_whole(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine]) -> bool:
    """Start it now for all that is left of it, where nobody else was promised that room; whether it starts."""
    now_s = draft.state.now_s
    if not draft.timeline.has_counted_nodes(lease.id, len(vms), now_s):
        return place_nowhere(draft, lease, vms)
    whole_s = takes_s(draft, lease, vms)
    if not draft.timeline.has_counted_room(lease.id, len(vms), whole_s, now_s):
        # What was promised by number stands on none of the hosts; all that is free is somebody's.
        return place_nowhere(draft, lease, vms)
    end_at_s = end_of(now_s, whole_s)
    stays = draft.timeline.withdraw(lease.id)
    placed = place_now_beside(draft, lease, vms, (), ceiling(draft, lease, now_s, end_at_s), end_at_s)
    if placed is None:
        if stays:
            draft.timeline.hold(stays)
        return False
    book(draft, lease, [stay_of_placed(draft, lease, vms, placed, end_at_s)])
    start(draft, lease, vms, placed)
    return True
