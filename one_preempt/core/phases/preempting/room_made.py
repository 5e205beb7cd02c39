"""Room is made for a request that may preempt: who leaves is chosen, and the preemption decided (CCPE13 section 6).

The same for what is to start at a time to come: others begin to leave early enough, and not earlier (VW07 6.1).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from one_preempt.core.availability.gang_demand import BoolArray
from one_preempt.core.matching.reasons import NEXT_CYCLE, Unplaced
from one_preempt.core.model.lease import Lease, LeaseState
from one_preempt.core.model.modes_and_limits import Mode
from one_preempt.core.model.plan import Placement, Reason
from one_preempt.core.phases.devices_and_groups.never_placed import never_placed
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.preempting.chosen_for_later import (
    others_were_promised,
    promise_elsewhere,
    there_is_time,
)
from one_preempt.core.phases.preempting.decided_preemption import decided_preemption
from one_preempt.core.phases.preempting.lease_prices import price_of
from one_preempt.core.phases.preempting.leaving_together import (
    TOO_LATE,
    as_victims,
    leaving_of,
    over_limits,
    rules_for,
    victim_ceiling,
    where_nobody_can_move,
    who_hold_others_up,
    who_take_turns_of_others,
)
from one_preempt.core.phases.preempting.preemptor_places import lacks_to_start, placements_for
from one_preempt.core.phases.preempting.request_problem import hosts_of_all, request_problem
from one_preempt.core.phases.preempting.room_then import room_then
from one_preempt.core.phases.preempting.sequence import (
    making_room,
    named_leases,
    sequence_actions,
    steps_of,
    waits_for,
)
from one_preempt.core.phases.preempting.sure_victims import hosts_if_all_left, leaves_surely, may_miss_its_deadline
from one_preempt.core.phases.queue.starts import start
from one_preempt.core.phases.queue.turns import refused_too_often
from one_preempt.core.phases.reservations.giving_way import note_leavers
from one_preempt.core.phases.reservations.known_ends import has_ended_by
from one_preempt.core.phases.reservations.leaving_in_time import lay_back, leaves_s
from one_preempt.core.phases.reservations.planned_stays import plan_rest
from one_preempt.core.phases.reservations.stays import book, rows_of, stay_at
from one_preempt.core.phases.room_wanted import RoomWanted
from one_preempt.core.preemption.problem import Choice, NoChoice
from one_preempt.core.preemption.victim_choice import NOT_ENOUGH_ROOM
from one_preempt.core.victims import (
    Hindered,
    PossibleVictim,
    possible_victims,
)

# Choosing among thousands of leases takes a second or two; what is not looked at now is looked at next.
CHOICES_A_CYCLE = 4


# The same for what was promised a time to come: however many of these there are, who waits is looked at as well.
CHOICES_AHEAD_A_CYCLE = 3


# How often victims are chosen for one request, each time without some who could not leave after all, or some hosts that
# would not do; at last among those alone who surely can, for hosts that surely would.
CHOICES_A_REQUEST = 4


def decide_who_leaves(draft: PlanDraft, wanted: RoomWanted, *, is_last: bool = False) -> Reason | None:
    """Decide who leaves for `wanted`, unless there is time for that yet; what keeps it from having room, or None.

    Asked for leases that preempt alone. Of the looks for what starts at a time to come one is kept for whoever is said
    to be the last.
    """
    obstacle = _why_not_now(draft, wanted.lease)
    is_ahead = wanted.start_s > draft.state.now_s
    if obstacle is None and not is_ahead:
        # For a time to come there may be room without any victim; those who are chosen are counted then.
        obstacle = victim_ceiling(draft, 1)
    if obstacle is not None:
        return obstacle
    never = never_placed(draft, wanted.vms) if is_ahead else None
    if never is not None:
        return never
    looks = draft.choices.ahead + (not is_last) if is_ahead else draft.choices.now
    if looks >= (CHOICES_AHEAD_A_CYCLE if is_ahead else CHOICES_A_CYCLE):
        return Reason(NEXT_CYCLE, "does not fit; which leases could make room is looked at in the next cycle")
    if is_ahead:
        draft.choices.ahead += 1
    else:
        draft.choices.now += 1
    return _ask_until_some_can(draft, wanted)


def _ask_until_some_can(draft: PlanDraft, wanted: RoomWanted) -> Reason | None:
    """Decide who leaves, at last who surely can; what kept the first from it who were chosen, or None."""
    staying, lacking = frozenset[int](), frozenset[int]()
    first: Reason | None = None
    own = _on_its_own_hosts(draft, wanted)
    for asked_before in range(CHOICES_A_REQUEST - 1):
        asked, lacks = wanted, lacking
        if asked_before == 1 and lacking and own is not None:
            # Where others are cheaper to empty and will not do, those that it was promised come before the rest, and
            # all of them: one was perhaps tried together with one that would not do.
            asked, lacks = own, frozenset()
        outcome = _ask_once(draft, asked, staying, lacks, asked_before)
        if not isinstance(outcome, Hindered):
            return outcome
        first = first or outcome.reason
        if asked is wanted and not (outcome.lease_ids or outcome.host_rows):
            # Perhaps because too many were set aside.
            staying = frozenset()
            break
        staying, lacking = staying | outcome.lease_ids, lacking | outcome.host_rows
    # Which hosts will do is asked of all of them anew.
    outcome = _ask_once(draft, wanted, staying, frozenset(), CHOICES_A_REQUEST - 1)
    return first if isinstance(outcome, Hindered) else outcome


def _on_its_own_hosts(draft: PlanDraft, wanted: RoomWanted) -> RoomWanted | None:
    """The same on the hosts alone that it was promised; None where it was promised none that stand."""
    stays = draft.timeline.stays.get(wanted.lease.id, ())
    if not stays or not stays[0].firm or stays[0].displaced:
        return None
    mask = np.zeros_like(draft.state.hosts.accepts_vms)
    mask[list(stays[0].host_rows)] = True
    return replace(wanted, within=mask if wanted.within is None else mask & wanted.within)


def _why_not_now(draft: PlanDraft, lease: Lease) -> Reason | None:
    """What forbids preempting for this lease now, whoever the victims would be."""
    if lease.state is LeaseState.STARTING:
        return Reason("returns", "does not fit; a lease of which some VMs have started takes no room from others")
    if lease.state is not LeaseState.WAITING:
        return Reason("returns", "does not fit; a lease that returns takes no room from others")
    if draft.state.paused:
        return Reason("paused", "does not fit, and preempting is paused")
    if draft.policies.begins_none_for is not None:
        return draft.policies.begins_none_for
    if refused_too_often(draft, lease):
        return Reason(
            "refused-too-often", "does not fit; no room is made for it, because it was not started when it had room"
        )
    return None


def _ask_once(
    draft: PlanDraft, wanted: RoomWanted, staying: frozenset[int], lacking: frozenset[int], asked_before: int
) -> Hindered | Reason | None:
    """Decide one preemption without those who are `staying`, on no host of the rows `lacking`, and add it to the draft.

    Else say why there is none, and who of those chosen had better stay; a reason alone is advice, or says that nobody
    could help. Where it was `asked_before` as often as it is asked, only who surely can leaves.
    """
    policies, surely = draft.policies, asked_before == CHOICES_A_REQUEST - 1
    possible, spared = _who_could_leave(draft, wanted, staying, surely=surely)
    prices = {one.lease.id: price_of(draft, one.vms, one.methods) for one in possible}
    then = room_then(draft, wanted, possible, prices)
    within = _within(draft, wanted, possible, lacking, surely=surely)
    problem = request_problem(draft, wanted, possible, prices, then, within)
    choice = draft.memory.choices.of(wanted.lease.id, problem, policies.preemption, policies.search, asked_before)
    choice = hosts_of_all(choice, wanted.vms)
    if isinstance(choice, NoChoice):
        why = _with_promised(draft, wanted, _with_spared(choice.reason, spared))
        return Hindered(frozenset(), why) if asked_before else why
    chosen = [victim for victim in possible if victim.lease.id in choice.lease_ids]
    obstacle = over_limits(draft, chosen, choice.considered)
    if obstacle is not None:
        return obstacle
    if not chosen and wanted.start_s > draft.state.now_s:
        lacks = lacks_to_start(draft, wanted, chosen, choice) if lacking else None
        return lacks or promise_elsewhere(draft, wanted, choice)
    taken = others_were_promised(draft, wanted, choice) if wanted.start_s > draft.state.now_s else None
    if taken is not None:
        return taken
    is_early = there_is_time(draft, wanted, chosen, choice, surely=surely)
    if isinstance(is_early, Hindered):
        return is_early
    if is_early:
        return None
    if wanted.start_s <= draft.state.now_s:
        obstacle = who_take_turns_of_others(draft, wanted.lease, chosen)
        if obstacle is not None:
            return obstacle
    placements = placements_for(draft, wanted, chosen, choice, then)
    if isinstance(placements, Hindered):
        return placements
    if not chosen:
        return _start_before_the_queue(draft, wanted, placements)
    obstacle = who_hold_others_up(draft, wanted.lease, chosen)
    return obstacle or _decide_or_undo(draft, wanted, chosen, choice, placements)


def _who_could_leave(
    draft: PlanDraft, wanted: RoomWanted, staying: frozenset[int], *, surely: bool
) -> tuple[list[PossibleVictim], dict[str, int]]:
    """Those among whom victims are chosen, and how many preemptable leases are spared, by the cause."""
    policies = draft.policies
    taking_part = frozenset(draft.busy_leases) | staying
    rules = rules_for(draft, wanted.lease, wanted.vms)
    possible, spared = possible_victims(draft.state, policies.limits, rules, taking_part, policies.time)
    possible = [one for one in possible if not has_ended_by(draft, one.lease, wanted.start_s)]
    possible = where_nobody_can_move(draft, possible, rules)
    if wanted.start_s > draft.state.now_s:
        # Before its time comes, nobody leaves for it but those who give way to reservations (`time.suspension`).
        possible = [one for one in possible if draft.gives_way(one.lease)]
    if surely:
        possible = [one for one in possible if leaves_surely(draft, one)]
    return possible, spared


def _within(
    draft: PlanDraft, wanted: RoomWanted, possible: Sequence[PossibleVictim], lacking: frozenset[int], *, surely: bool
) -> BoolArray | None:
    """The hosts among which it is looked for room, for all VMs or for each.

    Of a time to come nobody knows what else they will have.
    """
    within = wanted.within
    if lacking:
        able = np.ones_like(draft.state.hosts.accepts_vms)
        able[list(lacking)] = False
        within = able if within is None else within & able
    if surely and wanted.start_s <= draft.state.now_s:
        able = hosts_if_all_left(draft, wanted.vms, possible)
        within = able if within is None else within & able
    return within


def _start_before_the_queue(draft: PlanDraft, wanted: RoomWanted, placements: Sequence[Placement]) -> Hindered | None:
    """Nobody has to leave: it takes room that was only promised to the queue."""
    placed = draft.matchmaker.place_at(wanted.vms, placements, draft.room)
    if isinstance(placed, Unplaced):
        return Hindered(frozenset(), placed.reason)
    _hold_for(draft, wanted, placed)
    draft.waits.pop(wanted.lease.id, None)
    start(draft, wanted.lease, wanted.vms, placed)
    return None


def _hold_for(draft: PlanDraft, wanted: RoomWanted, placements: Sequence[Placement], later_s: int = 0) -> None:
    """Let nobody else count on these places for as long as they are wanted, if it starts so much later."""
    end_s = None if wanted.end_s is None else wanted.end_s + later_s
    stay = stay_at(wanted.lease, wanted.vms, rows_of(draft, placements), wanted.start_s, end_s, firm=True)
    draft.timeline.replace(wanted.lease.id, (stay,))


def _decide_or_undo(
    draft: PlanDraft,
    wanted: RoomWanted,
    chosen: list[PossibleVictim],
    choice: Choice,
    placements: tuple[Placement, ...],
) -> Hindered | Reason | None:
    """Decide upon the preemption; where nothing comes of it, nobody holds or was promised anything else than before."""
    lease_ids = [wanted.lease.id, *(one.lease.id for one in chosen)]
    before = [(one, draft.timeline.stays.get(one, ()), draft.bookings.get(one)) for one in lease_ids]
    prepared = [(one, draft.preparations.get(one)) for one in lease_ids]
    mark = draft.room.checkpoint()
    # Before anything else is looked for: nobody returns, or is moved, to where it will run once they have left.
    is_due = wanted.start_s <= draft.state.now_s
    later_s = draft.policies.time.grace_s + leaves_s(draft, leaving_of(chosen)) if is_due else 0
    _hold_for(draft, wanted, placements, later_s)
    late = _late_for_deadlines(draft, chosen)
    outcome = late or _decide_upon(draft, wanted, chosen, choice, placements)
    if outcome is not None:
        draft.room.rollback(mark)
        for lease_id, stays, booking in before:
            if draft.timeline.stays.get(lease_id, ()) != stays:
                draft.timeline.replace(lease_id, stays)
            draft.bookings.pop(lease_id, None)
            if booking is not None:
                draft.book(booking)
        for lease_id, laid_down in prepared:
            lay_back(draft, lease_id, laid_down)
    return outcome


def _decide_upon(
    draft: PlanDraft,
    wanted: RoomWanted,
    chosen: list[PossibleVictim],
    choice: Choice,
    placements: tuple[Placement, ...],
) -> Hindered | Reason | None:
    """Add the preemption to the draft, or what it would be where only advice is asked for."""
    policies, lease = draft.policies, wanted.lease
    if wanted.start_s <= draft.state.now_s:
        leaving = [vm for victim in chosen for vm in victim.vms]
        draft.hold_rooms(placements, [(vm.history[-1].host_id, vm) for vm in leaving])
    victims = as_victims(draft, chosen, rules_for(draft, wanted.lease, wanted.vms))
    if isinstance(victims, Hindered):
        return victims
    draft.hold_memory_images(victims)
    preemption = decided_preemption(draft, wanted, choice, victims, placements)
    if policies.mode is not Mode.ACT:
        draft.advised.append(preemption)
        draft.advised_actions.extend(steps_of(draft, preemption, lease, victims, placements))
        return Reason(
            "advise",
            f"does not fit; advice only: preempting {named_leases(preemption.victim_lease_ids)} would make room",
        )
    draft.preemptions.append(preemption)
    if wanted.start_s > draft.state.now_s:
        # Others leave where that costs least, which may be on other hosts than those that were written down for it.
        book(draft, lease, draft.timeline.stays[lease.id])
    gone_at_s = draft.state.now_s + policies.time.grace_s + leaves_s(draft, leaving_of(chosen))
    note_leavers(draft, preemption, victims, gone_at_s, wanted.start_s)
    now = wanted.start_s <= draft.state.now_s
    draft.actions.extend(sequence_actions(draft, preemption, lease, victims, placements if now else ()))
    draft.busy_leases.update({lease.id, *choice.lease_ids})
    draft.waits.pop(lease.id, None)
    waits = waits_for(draft, lease, wanted.vms, len(victims), gone_at_s) if now else making_room(wanted.start_s)
    draft.statuses[lease.id] = waits
    return None


def _late_for_deadlines(draft: PlanDraft, chosen: list[PossibleVictim]) -> Hindered | None:
    """Some of `chosen` could not be done by their deadlines any more; none: the others' new slots are booked."""
    with_deadline = [one for one in chosen if may_miss_its_deadline(draft, one.lease)]
    if not with_deadline or draft.policies.mode is not Mode.ACT:
        return None
    for one in with_deadline:
        draft.timeline.withdraw(one.lease.id)
    missing: set[int] = set()
    for one in sorted(with_deadline, key=lambda one: (one.lease.terms.deadline_at_s or 0, one.lease.id)):
        stays = plan_rest(draft, one.lease, one.vms, one.methods)
        if stays is None:
            missing.add(one.lease.id)
        else:
            book(draft, one.lease, stays)
    return Hindered(frozenset(missing), TOO_LATE) if missing else None


def _with_spared(reason: Reason, spared: dict[str, int]) -> Reason:
    """A refusal that also says which preemptable leases could not be asked."""
    if not spared:
        return reason
    causes = ", ".join(f"{count} {cause}" for cause, count in sorted(spared.items()))
    return Reason(reason.code, f"{reason.text}; leases that are spared: {causes}")


def _with_promised(draft: PlanDraft, wanted: RoomWanted, reason: Reason) -> Reason:
    """A refusal that also says how many hosts it would hold when others are due there, whom nobody asks to leave."""
    if reason.code != NOT_ENOUGH_ROOM.code:
        return reason
    others = (stay for lease_id, stays in draft.timeline.stays.items() if lease_id != wanted.lease.id for stay in stays)
    due = [stay for stay in others if stay.firm and stay.start_s > wanted.start_s]
    hosts = {row for stay in due if wanted.end_s is None or stay.start_s < wanted.end_s for row in stay.host_rows}
    if not hosts:
        return reason
    counted = "1 host" if len(hosts) == 1 else f"{len(hosts)} hosts"
    return Reason(reason.code, f"{reason.text}; promised to others before it would end: {counted}")
