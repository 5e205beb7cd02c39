"""Room for a start to come: who must leave is made to in time, or it moves to hosts where nobody has to."""

from __future__ import annotations

from collections.abc import Sequence

from one_preempt.core.availability.gang_demand import BoolArray, GangDemand
from one_preempt.core.availability.slot_table import fit_in
from one_preempt.core.availability.timeline import Stay
from one_preempt.core.matching.reasons import NEXT_CYCLE
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.plan import Reason
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.model.written_time import utc_text
from one_preempt.core.phases.devices_and_groups.beside_promised import what_it_lacks
from one_preempt.core.phases.devices_and_groups.matched_then import matched_then, need_matching
from one_preempt.core.phases.devices_and_groups.never_placed import never_placed
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.images.promised_images import may_be_staged
from one_preempt.core.phases.power.boot_turns import turns_lack_s
from one_preempt.core.phases.preempting.room_made import decide_who_leaves
from one_preempt.core.phases.queue.starts import lock_on
from one_preempt.core.phases.queue.turns_by_lot import drawn_place
from one_preempt.core.phases.reservations.beside_late_leavers import beside_late_leavers
from one_preempt.core.phases.reservations.demand_ahead import gang_demand
from one_preempt.core.phases.reservations.in_danger import warn, warn_of_late_leavers
from one_preempt.core.phases.reservations.leaving_in_time import Leaving, prepare, spared_until_s, who_must_leave
from one_preempt.core.phases.reservations.promised import has_exact_start
from one_preempt.core.phases.reservations.room_ahead import free_but_for, is_taken, most_places, smallest_need
from one_preempt.core.phases.reservations.stays import book, stay_at
from one_preempt.core.phases.reservations.unknown_ends import overruns_going_on
from one_preempt.core.phases.room_wanted import RoomWanted

# Of reservations for devices, cores or by a VM group so many are matched with other hosts before others must leave for
# them, the first ones first: whoever comes later is matched later.
MATCHED_EARLY = 40
STILL_THERE = "a lease that should have left its hosts is still there, and it is not known for how long"
_IS_THERE = "another lease is on its hosts, and it is not known for how long"
_PAUSED = "another lease is on its hosts, and preempting is paused"


def make_room_in_time(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], stay: Stay) -> None:
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
        if (is_barred or is_taken(draft, lease, stay)) and not moves_aside(draft, lease, vms, stay):
            elsewhere = _moves_to_who_can_leave(draft, lease, vms, stay)
            if elsewhere is not None:
                make_room_in_time(draft, lease, vms, elsewhere)
                return
            warn(draft, lease, f"it might not start at {utc_text(stay.start_s)}: {_who_is_there(draft, lease, stay)}")
        return
    prepared = draft.preparations.get(lease.id)
    # Who really leaves may take longer than who was counted on: it is looked at in good time.
    begin_s = look_at_s = draft.state.now_s
    if prepared is not None:
        begin_s = prepared.begin_s
        in_good_time_s = 2 * begin_s - stay.start_s
        look_at_s = min(begin_s, max(in_good_time_s, spared_until_s(draft, leaving)))
    is_early = draft.state.now_s < look_at_s
    if not (is_early and _is_costly(draft, vms)) and moves_aside(draft, lease, vms, stay):
        return
    lock = lock_on(vms)
    if lock is not None:
        # Whoever left would be out, and his room idle, for as long as it is locked.
        text = f"it might not start at {utc_text(stay.start_s)}, and nobody is preempted for it: {lock.text}"
        warn(draft, lease, text)
        return
    if is_early:
        draft.wake_by(look_at_s)
        return
    within = _beside_sleepers(draft, stay)
    wanted = RoomWanted(lease, tuple(vms), stay.start_s, stay.end_s, within)
    obstacle = decide_who_leaves(draft, wanted)
    if obstacle is not None and obstacle.code == NEXT_CYCLE:
        draft.choices.put_off.append((wanted, begin_s))
    else:
        _tell_of_leavers(draft, wanted, obstacle)


def look_at_one_more(draft: PlanDraft) -> None:
    """The last look goes to any of those behind: for those who get the others, perhaps nobody can leave any more."""
    if not draft.choices.put_off:
        return
    wanted, _ = draft.choices.put_off.pop(drawn_place(len(draft.choices.put_off), draft.state.now_s))
    _tell_of_leavers(draft, wanted, decide_who_leaves(draft, wanted, is_last=True))
    for _, begin_s in draft.choices.put_off:
        # Those that must begin before it were looked at: nothing has gone wrong yet.
        draft.wake_by(max(begin_s, draft.state.now_s + 1))


def _tell_of_leavers(draft: PlanDraft, wanted: RoomWanted, obstacle: Reason | None) -> None:
    """Warn of what keeps others from leaving in time."""
    lease = wanted.lease
    if obstacle is not None:
        warn(draft, lease, f"it might not start at {utc_text(wanted.start_s)}: {obstacle.text}")
    elif lease.id in draft.busy_leases and lease.id not in draft.preparations:
        warn_of_late_leavers(draft, lease, wanted.start_s)


def _make_up_for(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], stay: Stay, things: str) -> None:
    """Others have what it needs beside CPU and memory: other hosts may have it, else its owner is told."""
    if moves_aside(draft, lease, vms, stay):
        return
    elsewhere = _moves_to_who_can_leave(draft, lease, vms, stay)
    if elsewhere is None:
        text = f"others have {things} of its hosts, and as far as is known will have them then"
        if _meets_overrun(draft, stay):
            text = STILL_THERE
        never = never_placed(draft, vms)
        warn(draft, lease, f"it might not start at {utc_text(stay.start_s)}: {text if never is None else never.text}")
    elif elsewhere.host_rows != stay.host_rows:
        make_room_in_time(draft, lease, vms, elsewhere)


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


def _who_is_there(draft: PlanDraft, lease: Lease, stay: Stay) -> str:
    if draft.state.paused and lease.preempts:
        return _PAUSED
    if _meets_overrun(draft, stay):
        return STILL_THERE
    until_s = _there_until_s(draft, stay)
    until_s = _there_until_s(draft, stay)
    return _IS_THERE if until_s is None else f"another lease is on its hosts until {utc_text(until_s)}"


def _there_until_s(draft: PlanDraft, stay: Stay) -> int | None:
    """When the last of those who are on its hosts beyond its start will have left; None where that is not known.

    Of what has not begun to run it is guessed anew in each cycle, which nobody is told.
    """
    state = draft.state
    host_ids = {int(state.hosts.ids[row]) for row in stay.host_rows}
    guests = {state.lease_of_vm.get(vm_id) for host_id in host_ids for vm_id in state.snapshot.hosts[host_id].vm_ids}
    ends_s: list[int] = []
    for lease_id in guests:
        guest = state.leases.get(lease_id) if lease_id is not None else None
        if guest is None or guest.expected_end_at_s is None:
            return None
        ends_s.append(guest.expected_end_at_s)
    return max((end_s for end_s in ends_s if end_s > stay.start_s), default=None)


def _meets_overrun(draft: PlanDraft, stay: Stay) -> bool:
    """Somebody on its hosts was to end by now, and may any second."""
    any_second_s, rows = draft.state.now_s + 1, set(stay.host_rows)
    return any(
        one[0].end_s == any_second_s and not rows.isdisjoint(one[0].host_rows) for one in draft.timeline.stays.values()
    )


def _is_costly(draft: PlanDraft, vms: Sequence[VirtualMachine]) -> bool:
    """Whether it may move aside is asked when others are about to leave for it, for enough was asked in this cycle."""
    if not need_matching(vms):
        return False
    draft.matched.early += 1
    return draft.matched.early > MATCHED_EARLY


def moves_aside(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], stay: Stay) -> bool:
    """Other hosts have become free for the same time: nobody has to leave."""
    timeline = draft.timeline
    able = _beside_sleepers(draft, stay)
    crowded, follows_from = draft.memory.crowded, (stay, timeline.all_stays.freed_at)
    if able is None and crowded.holds(lease.id, follows_from):
        return False
    with overruns_going_on(draft, lease):
        free = free_but_for(timeline, lease.id, stay.start_s, stay.end_s, firmly=False)
    if most_places(free if able is None else free[able], smallest_need(vms)) < len(vms):
        # So it is for most, wherever they may go. When somebody leaves who was to end any second, nobody is told.
        if able is None and not draft.overrun_rows:
            crowded.keep(lease.id, follows_from, len(draft.state.leases))
        return False
    demand = gang_demand(draft, vms, able, stay.start_s)
    rows = fit_in(demand, free)
    if rows is None:
        return False
    there = stay_at(lease, vms, rows, stay.start_s, stay.end_s, firm=True)
    aside = matched_then(draft, vms, there, demand, timeline.all_stays.table)
    if isinstance(aside, Reason) or is_taken(draft, lease, aside) or turns_lack_s(draft, lease, [aside]):
        return False
    if not may_be_staged(draft, lease, vms, aside):
        return False
    book(draft, lease, [aside, *timeline.stays.get(lease.id, ())[1:]])
    return True


def _moves_to_who_can_leave(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], stay: Stay) -> Stay | None:
    """The same time on other hosts that nobody was promised firmly; None where nobody there can leave in time.

    Better than to hope that what outlives its DURATION ends. Should it end, the stay moves aside and nobody leaves.
    """
    if not lease.preempts:
        return None
    free = free_but_for(draft.timeline, lease.id, stay.start_s, stay.end_s, firmly=True)
    demand = gang_demand(draft, vms, _beside_sleepers(draft, stay), stay.start_s)
    rows = fit_in(demand, free)
    if rows is None:
        return None
    elsewhere = _others_leave_in_time(draft, lease, vms, stay, demand, rows)
    if elsewhere is None:
        rows = beside_late_leavers(draft, lease, demand, stay.start_s, stay.end_s)
        elsewhere = None if rows is None else _others_leave_in_time(draft, lease, vms, stay, demand, rows)
    if elsewhere is not None:
        book(draft, lease, [elsewhere, *draft.timeline.stays.get(lease.id, ())[1:]])
    return elsewhere


def _others_leave_in_time(
    draft: PlanDraft,
    lease: Lease,
    vms: Sequence[VirtualMachine],
    stay: Stay,
    demand: GangDemand,
    rows: tuple[int, ...],
) -> Stay | None:
    """The same time on these rows; None where they lack anything by then."""
    there = stay_at(lease, vms, rows, stay.start_s, stay.end_s, firm=True)
    elsewhere = matched_then(draft, vms, there, demand, draft.timeline.firm_stays)
    if isinstance(elsewhere, Reason):
        return None
    leaving = who_must_leave(draft, lease, elsewhere)
    if turns_lack_s(draft, lease, [elsewhere]) or (not leaving and is_taken(draft, lease, elsewhere)):
        return None
    if leaving and prepare(draft, lease.id, elsewhere.start_s, leaving, spared_until_s(draft, leaving)) is None:
        return None
    return elsewhere


def _beside_sleepers(draft: PlanDraft, stay: Stay) -> BoolArray | None:
    """All hosts but those that would have to be woken, where the energy policy has said how many are; else None."""
    power = draft.power
    if power is None or not power.asks_policy() or power.rules.policy.puts_off:
        return None
    able = ~power.asleep
    able[list(stay.host_rows)] = True
    return able
