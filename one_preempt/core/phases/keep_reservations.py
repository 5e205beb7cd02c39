"""What was promised is kept: others leave in time, and what is due starts.

What cannot be kept as things stand is said to its owner at once, not when it is too late; it starts as soon as it can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from one_preempt.core.availability.gang_demand import BoolArray
from one_preempt.core.availability.slot_table import fit_in
from one_preempt.core.availability.timeline import Stay
from one_preempt.core.matching.reasons import NEXT_CYCLE, Unplaced
from one_preempt.core.model.cluster_state import IntArray
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.plan import Placement, Reason
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.model.written_time import utc_text
from one_preempt.core.phases.beside_promised import what_it_lacks
from one_preempt.core.phases.book_reservations import piece_rules
from one_preempt.core.phases.boot_turns import turns_lack_s
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.drawn_place import drawn_place
from one_preempt.core.phases.in_danger import warn, warn_of_late_leavers
from one_preempt.core.phases.matched_then import has_all_then, is_matched, matched_then
from one_preempt.core.phases.mend_reservations import planned_anew
from one_preempt.core.phases.never_placed import never_placed
from one_preempt.core.phases.place_waiting import hindrance_of, lock_on, start
from one_preempt.core.phases.preempt_for_waiting import RoomWanted, preempt_in_time
from one_preempt.core.phases.preparations import Leaving, prepare, spared_until_s, who_must_leave
from one_preempt.core.phases.promised import has_exact_start, promised_leases, standing_stays
from one_preempt.core.phases.queue_room import lacks_room
from one_preempt.core.phases.room_ahead import (
    book,
    ceiling,
    end_of,
    firm_ceiling,
    free_but_for,
    gang_demand,
    is_taken,
    meets_overbooked,
    most_places,
    rows_of,
    smallest_need,
    stay_at,
    takes_s,
)
from one_preempt.core.phases.unknown_ends import overruns_going_on

# So long before and after the end of its boot a host counts as up any moment: then nobody else's hosts are looked at.
ENABLED_WITHIN_S = 30
# Of reservations for devices, cores or by a VM group so many are matched with other hosts before others must leave for
# them, the first ones first: whoever comes later is matched later.
MATCHED_EARLY = 40
_STILL_THERE = "somebody who should have left its hosts is still there, and nobody knows for how long"
_PROMISED_TO_OTHERS = Reason("behind", "waits for its slot: sooner, others were promised what it needs")
_IS_THERE = "somebody is on its hosts, and nobody knows for how long"


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
            _await_start(draft, lease)
            continue
        # What is done for one may take room that others count on.
        overbooked = None
        if len(vms) < len(lease.vm_ids):
            _complete(draft, lease, vms)
        elif has_exact_start(draft, lease):
            _keep_start(draft, lease, vms)
        else:
            _keep_work(draft, lease, vms)
    _look_at_one_more(draft)


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
        draft.wake_by(lease.terms.start_at_s or 0)
        return
    stays = draft.timeline.stays.get(lease.id, ())
    end_at_s = stays[0].end_s if stays else end_of(now_s, takes_s(draft, lease, vms))
    free_then = firm_ceiling(draft, lease, now_s, end_at_s)
    if free_then is not None and stays:
        for row, amounts in zip(stays[0].host_rows, stays[0].amounts, strict=True):
            free_then[row] -= amounts
    placed = _place(draft, lease, vms, (), free_then)
    if placed is not None:
        rest = stay_at(lease, vms, rows_of(draft, placed), now_s, end_at_s, firm=True)
        draft.timeline.replace(lease.id, stays[:1])
        draft.timeline.hold_beside(rest)
        start(draft, lease, vms, placed)


# -- an exact start ------------------------------------------------------------------------------------------


def _is_undisturbed(
    draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], overbooked: Mapping[int, int]
) -> bool:
    """All of it starts later, exactly when it was said, on hosts that hold it and where nobody is in its way by then.

    As most of what was promised, in most cycles: there is nothing to do for it but to wait.
    """
    stays = draft.timeline.stays.get(lease.id, ())
    if not stays or not stays[0].firm or stays[0].displaced or draft.there.get(lease.id) != (stays[0], ()):
        return False
    is_ahead = (lease.terms.start_at_s or 0) > draft.state.now_s and len(vms) == len(lease.vm_ids)
    if not is_ahead or not has_exact_start(draft, lease) or meets_overbooked(stays[0], overbooked):
        return False
    if not lease.preempts and not set(draft.overrun_rows).isdisjoint(stays[0].host_rows):
        return False
    return what_it_lacks(draft, lease, stays[0]) is None


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
        _make_room_in_time(draft, lease, vms, stays[0])
        return
    warn(draft, lease, f"it cannot start at {utc_text(start_at_s)} as things stand: a host of it is lost")


def _make_room_in_time(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], stay: Stay) -> None:
    """Have others leave early enough; say so now if they cannot."""
    leaving = who_must_leave(draft, lease, stay)
    # Nobody leaves for who preempts nobody.
    is_barred = not lease.preempts and _is_barred(draft, lease, stay, leaving)
    leaving = leaving if lease.preempts else ()
    things = what_it_lacks(draft, lease, stay, leaving)
    if things is not None and has_exact_start(draft, lease):
        _make_up_for(draft, lease, vms, stay, things)
        return
    if not leaving:
        if (is_barred or is_taken(draft, lease, stay)) and not _moves_aside(draft, lease, vms, stay):
            elsewhere = _moves_to_who_can_leave(draft, lease, vms, stay)
            if elsewhere is not None:
                _make_room_in_time(draft, lease, vms, elsewhere)
                return
            text = _STILL_THERE if _meets_overrun(draft, stay) else _IS_THERE
            warn(draft, lease, f"it may not start at {utc_text(stay.start_s)}: {text}")
        return
    prepared = draft.preparations.get(lease.id)
    # Who really leaves may take longer than who was counted on: it is looked at in good time.
    begin_s = look_at_s = draft.state.now_s
    if prepared is not None:
        begin_s = prepared.begin_s
        in_good_time_s = 2 * begin_s - stay.start_s
        look_at_s = min(begin_s, max(in_good_time_s, spared_until_s(draft, leaving)))
    is_early = draft.state.now_s < look_at_s
    if not (is_early and _is_costly(draft, vms)) and _moves_aside(draft, lease, vms, stay):
        return
    lock = lock_on(vms)
    if lock is not None:
        # Whoever left would be out, and his room idle, for as long as it is locked.
        warn(draft, lease, f"it may not start at {utc_text(stay.start_s)}, and nobody leaves for it: {lock.text}")
        return
    if is_early:
        draft.wake_by(look_at_s)
        return
    within = _beside_sleepers(draft, stay)
    wanted = RoomWanted(lease, tuple(vms), stay.start_s, stay.end_s, within)
    obstacle = preempt_in_time(draft, wanted)
    if obstacle is not None and obstacle.code == NEXT_CYCLE:
        draft.put_off.append((wanted, begin_s))
    else:
        _tell_of_leavers(draft, wanted, obstacle)


def _look_at_one_more(draft: PlanDraft) -> None:
    """The last look goes to any of those behind: for those who get the others, perhaps nobody can leave any more."""
    if not draft.put_off:
        return
    wanted, _ = draft.put_off.pop(drawn_place(len(draft.put_off), draft.state.now_s))
    _tell_of_leavers(draft, wanted, preempt_in_time(draft, wanted, is_last=True))
    for _, begin_s in draft.put_off:
        # Those that must begin before it were looked at: nothing has gone wrong yet.
        draft.wake_by(max(begin_s, draft.state.now_s + 1))


def _tell_of_leavers(draft: PlanDraft, wanted: RoomWanted, obstacle: Reason | None) -> None:
    """Warn of what keeps others from leaving in time."""
    lease = wanted.lease
    if obstacle is not None:
        warn(draft, lease, f"it may not start at {utc_text(wanted.start_s)}: {obstacle.text}")
    elif lease.id in draft.busy_leases and lease.id not in draft.preparations:
        warn_of_late_leavers(draft, lease, wanted.start_s)


def _make_up_for(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], stay: Stay, things: str) -> None:
    """Others have what it needs beside CPU and memory: other hosts may have it, else its owner is told."""
    if _moves_aside(draft, lease, vms, stay):
        return
    elsewhere = _moves_to_who_can_leave(draft, lease, vms, stay)
    if elsewhere is None:
        text = f"others have {things} of its hosts, as far as is known also then"
        if _meets_overrun(draft, stay):
            text = _STILL_THERE
        never = never_placed(draft, vms)
        warn(draft, lease, f"it may not start at {utc_text(stay.start_s)}: {text if never is None else never.text}")
    elif elsewhere.host_rows != stay.host_rows:
        _make_room_in_time(draft, lease, vms, elsewhere)


def _is_barred(draft: PlanDraft, lease: Lease, stay: Stay, in_its_way: Leaving) -> bool:
    """Its hosts have too little room for it by then, unless somebody leaves who need not."""
    rows = tuple(dict.fromkeys(stay.host_rows))
    if not in_its_way and set(draft.overrun_rows).isdisjoint(rows):
        return False
    with overruns_going_on(draft, lease):
        free = free_but_for(draft.timeline, lease.id, stay.start_s, stay.end_s, rows, firmly=False).copy()
    for row, amounts in zip(stay.host_rows, stay.amounts, strict=True):
        free[rows.index(row)] -= amounts
    return bool((free < 0).any())


def _meets_overrun(draft: PlanDraft, stay: Stay) -> bool:
    """Somebody on its hosts was to end by now, and may any second."""
    any_second_s, rows = draft.state.now_s + 1, set(stay.host_rows)
    return any(
        one[0].end_s == any_second_s and not rows.isdisjoint(one[0].host_rows) for one in draft.timeline.stays.values()
    )


def _is_costly(draft: PlanDraft, vms: Sequence[VirtualMachine]) -> bool:
    """Whether it may move aside is asked when others are about to leave for it, for enough was asked in this cycle."""
    if not is_matched(vms):
        return False
    draft.matched_early += 1
    return draft.matched_early > MATCHED_EARLY


def _moves_aside(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], stay: Stay) -> bool:
    """Other hosts have become free for the same time: nobody has to leave."""
    timeline = draft.timeline
    able = _beside_sleepers(draft, stay)
    with overruns_going_on(draft, lease):
        free = free_but_for(timeline, lease.id, stay.start_s, stay.end_s, firmly=False)
    if most_places(free if able is None else free[able], smallest_need(vms)) < len(vms):
        # So it is for most, wherever they may go.
        return False
    demand = gang_demand(draft, vms, able, stay.start_s)
    rows = fit_in(demand, free)
    if rows is None:
        return False
    there = stay_at(lease, vms, rows, stay.start_s, stay.end_s, firm=True)
    aside = matched_then(draft, vms, there, demand, timeline.all_stays.table)
    if isinstance(aside, Reason) or is_taken(draft, lease, aside) or turns_lack_s(draft, lease, [aside]):
        return False
    book(draft, lease, [aside, *timeline.stays.get(lease.id, ())[1:]])
    return True


def _moves_to_who_can_leave(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], stay: Stay) -> Stay | None:
    """The same time on the first hosts that nobody was promised firmly; None where who is there cannot leave in time.

    Better than to hope that what outlives its DURATION ends. Should it end, the stay moves aside and nobody leaves.
    """
    if not lease.preempts:
        return None
    free = free_but_for(draft.timeline, lease.id, stay.start_s, stay.end_s, firmly=True)
    demand = gang_demand(draft, vms, _beside_sleepers(draft, stay), stay.start_s)
    rows = fit_in(demand, free)
    if rows is None:
        return None
    there = stay_at(lease, vms, rows, stay.start_s, stay.end_s, firm=True)
    elsewhere = matched_then(draft, vms, there, demand, draft.timeline.firm_stays)
    if isinstance(elsewhere, Reason):
        return None
    leaving = who_must_leave(draft, lease, elsewhere)
    if turns_lack_s(draft, lease, [elsewhere]) or (not leaving and is_taken(draft, lease, elsewhere)):
        return None
    if leaving and prepare(draft, lease.id, elsewhere.start_s, leaving, spared_until_s(draft, leaving)) is None:
        return None
    book(draft, lease, [elsewhere, *draft.timeline.stays.get(lease.id, ())[1:]])
    return elsewhere


def _beside_sleepers(draft: PlanDraft, stay: Stay) -> BoolArray | None:
    """All hosts but those that would have to be woken, where the energy policy has said how many are; else None."""
    power = draft.power
    if power is None or not power.asks_policy() or power.rules.policy.puts_off:
        return None
    able = ~power.asleep
    able[list(stay.host_rows)] = True
    return able


def _start_due(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], start_at_s: int) -> None:
    """Its time has come: on the hosts that were reserved, else on any others."""
    stays = standing_stays(draft, lease)
    end_at_s = end_of(draft.state.now_s, takes_s(draft, lease, vms))
    if stays and end_at_s is not None and _is_long_enough(draft, lease, stays[0]):
        # A cycle that comes seconds late takes them off the overheads, not off whoever comes right behind.
        end_at_s = stays[0].end_s
    free_then = firm_ceiling(draft, lease, draft.state.now_s, end_at_s)
    placed = _place(draft, lease, vms, stays, free_then)
    if placed is None:
        if stays and _come_up(draft, stays[0]):
            _waits_for_its_hosts(draft, lease)
            return
        late = draft.waits.get(lease.id)
        why = late.text if late is not None else "it has no room"
        draft.statuses[lease.id] = f"late: it was to start at {utc_text(start_at_s)}; {why}"
        return
    stay = stay_at(lease, vms, rows_of(draft, placed), draft.state.now_s, end_at_s, firm=True)
    draft.timeline.replace(lease.id, (stay,))
    start(draft, lease, vms, placed)


def _come_up(draft: PlanDraft, stay: Stay) -> bool:
    """Hosts of it are up any moment: they were woken for it, and nobody is to leave others for so little."""
    power = draft.power
    if power is None or power.to_come is None:
        return False
    due_s = power.to_come.expected.due_s
    coming = [due_s[row] for row in set(stay.host_rows) if row in due_s]
    # What never lost its power has no such instant.
    return bool(coming) and all(not at_s or abs(power.now_s - at_s) < ENABLED_WITHIN_S for at_s in coming)


def _waits_for_its_hosts(draft: PlanDraft, lease: Lease) -> None:
    draft.lacking_room.discard(lease.id)
    draft.waits[lease.id] = Reason("waking", "waits for hosts that are being switched on")
    draft.statuses[lease.id] = "reserved: starts as soon as its hosts are up, which is any moment"
    draft.wake_by(draft.state.now_s + 1)


def _is_long_enough(draft: PlanDraft, lease: Lease, stay: Stay) -> bool:
    """All of its duration is left before the end that was promised."""
    return stay.end_s is not None and stay.end_s - draft.state.now_s >= (lease.remaining_s or 0)


# -- so much work, done in time ------------------------------------------------------------------------------


def _keep_work(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine]) -> None:
    """A lease with a deadline, or one suspended often enough: as early as it can, at the latest as promised."""
    now_s = draft.state.now_s
    if (lease.terms.start_at_s or 0) > now_s:
        draft.wake_by(lease.terms.start_at_s or 0)
    elif not _has_left_its_slot(draft, lease, vms) and _start_at_once(draft, lease, vms):
        return
    stays = standing_stays(draft, lease)
    if stays and _has_left_its_slot(draft, lease, vms) and _are_enough(draft, lease, stays[1:]):
        stays = stays[1:]
        book(draft, lease, stays)
    elif not stays or stays[0].start_s <= now_s:
        stays = planned_anew(draft, lease, vms)
        if stays and stays[0].start_s == now_s + 1:
            # Somebody who should have left is still there: no instant tells when he will have.
            if lease.terms.deadline_at_s is not None:
                warn(draft, lease, f"its DEADLINE may not be kept: {_STILL_THERE}")
            else:
                draft.statuses[lease.id] = "reserved: starts as soon as the room for it is really free"
            return
    if stays:
        draft.wake_by(stays[0].start_s)
        draft.statuses[lease.id] = f"reserved: starts at {utc_text(stays[0].start_s)} at the latest"
        # It has its slot: nobody is sent away only so that it may start earlier.
        draft.lacking_room.discard(lease.id)
        _make_room_in_time(draft, lease, vms, stays[0])
        return
    what = "its DEADLINE" if lease.terms.deadline_at_s is not None else "a time for it"
    warn(draft, lease, f"{what} cannot be kept as things stand: there is no room in time")


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
        return _place_nowhere(draft, lease, vms)
    with draft.room.beside(draft.resting_room):
        is_full = not draft.matchmaker.has_room(vms, draft.room)
    if is_full:
        # So it is for most that wait, and it is settled whatever was promised to whom.
        return _place_nowhere(draft, lease, vms)
    if _start_whole(draft, lease, vms):
        return True
    if not is_due:
        return False
    slot_end_s = stays[0].end_s
    placed = _place_beside(draft, lease, vms, stays, firm_ceiling(draft, lease, now_s, slot_end_s), slot_end_s)
    if placed is None:
        return False
    first = stay_at(lease, vms, rows_of(draft, placed), now_s, slot_end_s, firm=True)
    book(draft, lease, [first, *stays[1:]])
    start(draft, lease, vms, placed)
    return True


def _start_whole(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine]) -> bool:
    """Start it now for all that is left of it, where nobody else was promised that room; whether it starts."""
    now_s = draft.state.now_s
    if not draft.timeline.has_counted_nodes(lease.id, len(vms), now_s):
        return _place_nowhere(draft, lease, vms)
    whole_s = takes_s(draft, lease, vms)
    if not draft.timeline.has_counted_room(lease.id, len(vms), whole_s, now_s):
        # What was promised by number stands on none of the hosts; all that is free is somebody's.
        return _place_nowhere(draft, lease, vms)
    end_at_s = end_of(now_s, whole_s)
    stays = draft.timeline.withdraw(lease.id)
    placed = _place_beside(draft, lease, vms, (), ceiling(draft, lease, now_s, end_at_s), end_at_s)
    if placed is None:
        if stays:
            draft.timeline.hold(stays)
        return False
    book(draft, lease, [stay_at(lease, vms, rows_of(draft, placed), now_s, end_at_s, firm=True)])
    start(draft, lease, vms, placed)
    return True


def _place_beside(
    draft: PlanDraft,
    lease: Lease,
    vms: Sequence[VirtualMachine],
    promised: Sequence[Stay],
    free_then: IntArray | None,
    end_s: int | None,
) -> tuple[Placement, ...] | None:
    """Hosts now as `_place` finds them, where no device or core of theirs was promised to others before `end_s`."""
    mark = draft.room.checkpoint()
    placed = _place(draft, lease, vms, promised, free_then)
    if placed is None:
        return None
    stay = stay_at(lease, vms, rows_of(draft, placed), draft.state.now_s, end_s, firm=True)
    if has_all_then(draft, vms, stay):
        return placed
    draft.room.rollback(mark)
    draft.waits[lease.id] = _PROMISED_TO_OTHERS
    return None


# -- both ----------------------------------------------------------------------------------------------------


def _place(
    draft: PlanDraft,
    lease: Lease,
    vms: Sequence[VirtualMachine],
    promised: Sequence[Stay],
    free_then: IntArray | None,
) -> tuple[Placement, ...] | None:
    """Hosts for all VMs now, the promised ones first; None with the reason noted."""
    hindrance = hindrance_of(draft, lease, vms)
    if hindrance is not None:
        draft.waits[lease.id] = hindrance
        return None
    counted = any(vm.pci_requests or vm.topology is not None for vm in vms)
    resting = np.zeros_like(draft.resting_room) if counted else draft.resting_room
    with draft.room.beside(resting), draft.room.capped(free_then):
        placed: tuple[Placement, ...] | Unplaced | None = None
        if promised and len(promised[0].host_rows) == len(vms):
            ids = draft.state.hosts.ids
            rows = promised[0].host_rows
            there = [Placement(vm.id, int(ids[row])) for vm, row in zip(vms, rows, strict=True)]
            placed = draft.matchmaker.place_at(vms, there, draft.room)
        if placed is None or isinstance(placed, Unplaced):
            placed = draft.matchmaker.place_together(vms, draft.room)
    if isinstance(placed, Unplaced):
        _wait(draft, lease, placed)
        return None
    draft.waits.pop(lease.id, None)
    return placed


def _place_nowhere(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine]) -> bool:
    """Nothing is left for it on any host; the reason is noted that a search would come to."""
    unplaced = draft.matchmaker.where_all_is_full(vms, draft.room)
    if unplaced is None:
        return _place(draft, lease, vms, (), np.zeros_like(draft.room.free)) is not None
    hindrance = hindrance_of(draft, lease, vms)
    if hindrance is not None:
        draft.waits[lease.id] = hindrance
    else:
        _wait(draft, lease, unplaced)
    return False


def _wait(draft: PlanDraft, lease: Lease, unplaced: Unplaced) -> None:
    draft.waits[lease.id] = unplaced.reason
    if lacks_room(unplaced):
        draft.lacking_room.add(lease.id)
