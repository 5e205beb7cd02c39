"""What a phase asks of the future: how long room stays free, and what is left of it if others give way."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import sub

import numpy as np

from one_preempt.core.availability.slot_table import SlotTable
from one_preempt.core.availability.steps import END_OF_TIME_S
from one_preempt.core.availability.timeline import Stay, Timeline
from one_preempt.core.memory.remembered_giving_way import GivingWay
from one_preempt.core.model.cluster_state import IntArray
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.giving_way import Taken, giving_way, leaving_leases, taken_by, there_at
from one_preempt.core.phases.reservations.promised import is_promised


def tables_for(draft: PlanDraft, lease: Lease) -> Sequence[SlotTable]:
    """Where to look: first where nobody has to leave, then, for who may preempt, where others can be suspended."""
    timeline = draft.timeline
    return (timeline.all_stays.table, timeline.firm_stays) if lease.preempts else (timeline.all_stays.table,)


def smallest_need(vms: Sequence[VirtualMachine]) -> tuple[int, int]:
    """CPU in hundredths and MiB of a VM that is as small as the smallest of these in everything."""
    return min(vm.cpu_centi for vm in vms), min(vm.memory_mib for vm in vms)


def most_places(free: IntArray, need: tuple[int, int]) -> int:
    """How many VMs that need so much have room on all hosts together; very many where they need nothing."""
    places = [free[:, resource] // amount for resource, amount in enumerate(need) if amount]
    return int(np.minimum.reduce(places).clip(0).sum()) if places else sys.maxsize


def ceiling(draft: PlanDraft, lease: Lease, start_s: int, end_s: int | None) -> IntArray | None:
    """What stays free on each host between two instants whoever comes; None where what is free now stays free.

    What overruns ends any second for the queue, but what is firm does not count on it: nor may whoever would not give
    way to that, or gives way in vain, for it was promised to who makes nobody leave.
    """
    timeline = draft.timeline
    if timeline.is_empty:
        return None
    free = timeline.all_stays.table.free_during(start_s, end_s)
    rows = draft.overrun_rows
    if rows and draft.gives_way(lease):
        rows = _promised_to_who_waits(draft, rows)
    if not rows:
        return free
    free = free.copy()
    free[rows] = np.minimum(free[rows], timeline.firm_stays.free_on(rows, start_s, end_s))
    return free


def _promised_to_who_waits(draft: PlanDraft, rows: Sequence[int]) -> list[int]:
    """Those of these rows that were firmly promised, for a time to come, to leases that make nobody leave."""
    leases, found = draft.state.leases, set[int]()
    for lease_id, stays in draft.timeline.stays.items():
        is_ahead = stays[-1].firm and stays[-1].start_s > draft.state.now_s
        if is_ahead and lease_id in leases and not leases[lease_id].preempts:
            found.update(row for stay in stays for row in stay.host_rows)
    return [row for row in rows if row in found]


def ceiling_for_the_rest(draft: PlanDraft, lease: Lease) -> IntArray | None:
    """What stays free on each host for as long as a lease that runs is expected to go on."""
    end_at_s = lease.expected_end_at_s
    until_s = end_at_s if end_at_s is None or end_at_s > draft.state.now_s else None
    return ceiling(draft, lease, draft.state.now_s, until_s)


def firm_ceiling(
    draft: PlanDraft, lease: Lease, start_s: int, end_s: int | None, *, throughout: bool = False
) -> IntArray | None:
    """What nobody but `lease` was promised firmly between two instants, less those who are still there at the start.

    Each of them counts until it ends, or `throughout`, and so does who is started in this cycle: before a promise that
    makes nobody leave, at most until another one does there. Promises of the queue do not count: they are made anew
    behind what is firm.
    """
    timeline = draft.timeline
    if timeline.is_empty:
        return None
    free = free_but_for(draft.timeline, lease.id, start_s, end_s, firmly=True)
    others = (one for one in giving_way(draft) if one.lease.id != lease.id)
    still_there = (one for one in others if one.ends_at_s is None or one.ends_at_s > start_s)
    taken = _taken_by_row(draft, lease, still_there, start_s)
    for one in _taken_by_who_starts(draft, lease, start_s):
        taken.setdefault(one.row, []).append(one)
    there = _until_sent_out(draft, lease, taken, start_s)
    lifted = {} if throughout else _as_they_end(draft, lease, start_s, end_s, there)
    for row, takes in there.items():
        for one in takes:
            free[row] -= one.amounts
    for row, least in lifted.items():
        free[row] = least
    return free


def _as_they_end(
    draft: PlanDraft,
    lease: Lease,
    start_s: int,
    end_s: int | None,
    there: Mapping[int, Sequence[Taken]],
) -> dict[int, IntArray]:
    """The least that is left of hosts on which somebody ends in between and, later than at first, more is promised.

    Elsewhere who ends makes no difference: there is least while all are there.
    """
    short = _with_more_promised_later(draft, lease, start_s, end_s, there)
    in_parts = _room_in_parts(draft, lease, start_s, end_s, short)
    return {row: np.min(list(parts.values()), axis=0) for row, parts in in_parts.items()}


def to_spare(
    draft: PlanDraft, lease: Lease, start_s: int, end_s: int | None, there: Mapping[int, Sequence[Taken]]
) -> dict[int, dict[int, list[int]]]:
    """What a host has beside what is firm until some of those there end, beyond the least that it has in between.

    By row, and by the instant from which on it is so. Only hosts are told of on which more is promised later.
    """
    nobody = {row: [Taken(row, one.ends_at_s, (0, 0)) for one in takes] for row, takes in there.items()}
    later = _with_more_promised_later(draft, lease, start_s, end_s, nobody)
    found = _room_in_parts(draft, lease, start_s, end_s, later)
    for row, parts in found.items():
        least = [min(amounts) for amounts in zip(*parts.values(), strict=True)]
        found[row] = {from_s: list(map(sub, amounts, least)) for from_s, amounts in parts.items()}
    return found


def _with_more_promised_later(
    draft: PlanDraft, lease: Lease, start_s: int, end_s: int | None, there: Mapping[int, Sequence[Taken]]
) -> Mapping[int, Sequence[Taken]]:
    """The hosts on which somebody ends in between and, later than at first, more is promised; and who is there."""
    rows = tuple(row for row, takes in there.items() if _end_in(takes, start_s, end_s))
    if not rows:
        return {}
    least = free_but_for(draft.timeline, lease.id, start_s, end_s, rows, firmly=True)
    at_first = free_but_for(draft.timeline, lease.id, start_s, start_s + 1, rows, firmly=True)
    less_later = (least != at_first).any(axis=1).tolist()
    return {row: there[row] for row, is_less in zip(rows, less_later, strict=True) if is_less}


def firm_room_left(
    draft: PlanDraft, lease: Lease, stay: Stay, there: Iterable[GivingWay]
) -> dict[int, dict[int, list[int]]]:
    """`firm_ceiling` of a stay less the stay itself, on its own hosts alone; `there` are those still on them.

    By row, and by the instant from which on it is so. Where it is below zero there is not room enough; where there is
    room enough even with all of `there` throughout, it is told for the whole stay together.
    """
    there_by_row = _taken_by_row(draft, lease, there, stay.start_s)
    left = _room_left(draft, lease, stay, there_by_row)
    if is_short(left):
        until = _until_sent_out(draft, lease, there_by_row, stay.start_s)
        # Where nobody is sent out for another before it ends, there is as little room.
        left = left if until is there_by_row else _room_left(draft, lease, stay, until)
    return left


def _room_left(
    draft: PlanDraft, lease: Lease, stay: Stay, there: Mapping[int, Sequence[Taken]]
) -> dict[int, dict[int, list[int]]]:
    timeline, rows = draft.timeline, tuple(dict.fromkeys(stay.host_rows))
    if stay.firm and timeline.stays.get(lease.id) == (stay,):
        # It has just that already: nothing is given back, and taken again.
        free = timeline.firm_stays.free_on(rows, stay.start_s, stay.end_s)
    else:
        free = free_but_for(timeline, lease.id, stay.start_s, stay.end_s, rows, firmly=True)
        places = {row: place for place, row in enumerate(rows)}
        np.subtract.at(free, [places[row] for row in stay.host_rows], stay.amounts)
    left = {row: {stay.start_s: amounts} for row, amounts in zip(rows, free.tolist(), strict=True)}
    short: dict[int, list[Taken]] = {}
    for row, takes in there.items():
        if row in left:
            left[row] = {stay.start_s: _less(left[row][stay.start_s], takes)}
            if min(left[row][stay.start_s]) < 0 and _end_in(takes, stay.start_s, stay.end_s):
                short[row] = list(takes)
    for row, amounts in zip(stay.host_rows, stay.amounts, strict=True):
        if row in short:
            short[row].append(Taken(row, None, amounts))
    left.update(_room_in_parts(draft, lease, stay.start_s, stay.end_s, short))
    return left


def _taken_by_row(draft: PlanDraft, lease: Lease, there: Iterable[GivingWay], start_s: int) -> dict[int, list[Taken]]:
    """What those take of each host who are still there when a stay of `lease` starts; also those who leave later."""
    there, found = list(there), dict[int, list[Taken]]()
    leaving = leaving_leases(draft) if there else frozenset()
    for one in there:
        for taken in taken_by(draft, lease, one, start_s, is_leaving=one.lease.id in leaving):
            found.setdefault(taken.row, []).append(taken)
    return found


def _until_sent_out(
    draft: PlanDraft, lease: Lease, there: Mapping[int, Sequence[Taken]], start_s: int
) -> Mapping[int, Sequence[Taken]]:
    """The same, where the lease makes nobody leave: at most until others come who do, and were promised that.

    These have all leave who are in the way of what is firm in their time, and so of this lease. Who is over before it
    starts may have found room beside them.
    """
    if lease.preempts or not there or not is_promised(draft, lease):
        return there
    begins_s, leases, now_s = dict[int, int](), draft.state.leases, draft.state.now_s
    for lease_id, stays in draft.timeline.stays.items():
        if lease_id == lease.id or lease_id not in leases or not leases[lease_id].preempts:
            continue
        for stay in stays:
            if stay.firm and not stay.displaced and stay.start_s > now_s and _end_s(stay) > start_s:
                for row in there.keys() & set(stay.host_rows):
                    begins_s[row] = min(begins_s.get(row, stay.start_s), stay.start_s)
    found = dict(there)
    for row, begin_s in begins_s.items():
        # Who has left by its start takes nothing.
        staying = there[row] if begin_s > start_s else ()
        found[row] = [one._replace(ends_at_s=min(one.ends_at_s or END_OF_TIME_S, begin_s)) for one in staying]
    return found


def _taken_by_who_starts(draft: PlanDraft, lease: Lease, start_s: int) -> Iterator[Taken]:
    """What others take who are started in this cycle and give way to what is firm: in the next one they are there."""
    for lease_id in draft.starting - {lease.id}:
        for stay in draft.timeline.stays.get(lease_id, ())[:1]:
            if not stay.firm and stay.start_s <= start_s < _end_s(stay):
                for row, amounts in zip(stay.host_rows, stay.amounts, strict=True):
                    yield Taken(row, stay.end_s, amounts)


def _end_in(takes: Iterable[Taken], start_s: int, end_s: int | None) -> list[int]:
    """When those who end between two instants do, ascending."""
    until_s = END_OF_TIME_S if end_s is None else end_s
    ends_s = (one.ends_at_s for one in takes)
    return sorted({at_s for at_s in ends_s if at_s is not None and start_s < at_s < until_s})


def _room_in_parts(
    draft: PlanDraft, lease: Lease, start_s: int, end_s: int | None, there: Mapping[int, Sequence[Taken]]
) -> dict[int, dict[int, list[int]]]:
    """What is left of hosts beside what is firm, as those there end one after the other: by row, from each instant on.

    Hosts on which they end at the same instants, as gangs do, are looked at together.
    """
    rows_by_instants: dict[tuple[int, ...], list[int]] = {}
    for row, takes in there.items():
        rows_by_instants.setdefault((start_s, *_end_in(takes, start_s, end_s)), []).append(row)
    found: dict[int, dict[int, list[int]]] = {row: {} for row in there}
    for instants, rows in rows_by_instants.items():
        for from_s, until_s in zip(instants, [*instants[1:], end_s], strict=True):
            free = free_but_for(draft.timeline, lease.id, from_s, until_s, tuple(rows), firmly=True).tolist()
            for row, have in zip(rows, free, strict=True):
                takes = [one for one in there[row] if one.ends_at_s is None or one.ends_at_s > from_s]
                found[row][from_s] = _less(have, takes)
    return found


def _less(have: Sequence[int], takes: Iterable[Taken]) -> list[int]:
    left = list(have)
    for one in takes:
        left = list(map(sub, left, one.amounts))
    return left


def free_but_for(
    timeline: Timeline,
    lease_id: int,
    start_s: int,
    end_s: int | None,
    rows: tuple[int, ...] | None = None,
    *,
    firmly: bool,
) -> IntArray:
    """The least that is free on each host between two instants if a lease had nothing; a copy.

    `rows`: of these hosts alone, in this order. `firmly`: whatever gives way is not there.
    """
    table = timeline.firm_stays if firmly else timeline.all_stays.table
    until_s = END_OF_TIME_S if end_s is None else end_s
    own = timeline.stays.get(lease_id, ())
    if any(max(one.start_s, start_s) < min(_end_s(one), until_s) and not _spans(one, start_s, until_s) for one in own):
        without = timeline.free_without([lease_id], start_s, end_s, rows, firmly=firmly)
        return without.copy() if rows is None else without
    # What it has all the time between the two is simply added: nothing has to be taken out and laid in again.
    free = _free(table, start_s, end_s, rows)
    for one in own:
        if one.host_rows and (one.firm or not firmly) and _spans(one, start_s, until_s):
            _give_back(free, one, rows)
    return free


def _give_back(free: IntArray, stay: Stay, rows: tuple[int, ...] | None) -> None:
    """Add what a stay takes to what is free on all hosts, or on these alone, in this order."""
    if rows is None:
        np.add.at(free, list(stay.host_rows), stay.amounts)
        return
    places = {row: place for place, row in enumerate(rows)}
    given = [one for one in zip(stay.host_rows, stay.amounts, strict=True) if one[0] in places]
    if given:
        np.add.at(free, [places[row] for row, _ in given], [amounts for _, amounts in given])


def _free(table: SlotTable, start_s: int, end_s: int | None, rows: tuple[int, ...] | None) -> IntArray:
    return table.free_during(start_s, end_s).copy() if rows is None else table.free_on(rows, start_s, end_s)


def _spans(stay: Stay, start_s: int, until_s: int) -> bool:
    return stay.start_s <= start_s and _end_s(stay) >= until_s


def _end_s(stay: Stay) -> int:
    return END_OF_TIME_S if stay.end_s is None else stay.end_s


def is_taken(draft: PlanDraft, lease: Lease, stay: Stay) -> bool:
    """Its hosts have no room for it though nobody on them could be sent away: a lease outlives its DURATION there."""
    if draft.timeline.is_empty:
        return False
    there, timeline = there_at(draft, lease, stay), draft.timeline
    is_held = stay.firm and stay in timeline.stays.get(lease.id, ())
    if not there and is_held and not meets_overbooked(stay, timeline.firm_stays.overbooked()):
        return False
    return is_short(firm_room_left(draft, lease, stay, there))


def is_short(left: Mapping[int, Mapping[int, Sequence[int]]]) -> bool:
    """Some host has not room enough at some time, as `firm_room_left` tells it."""
    return any(amount < 0 for parts in left.values() for amounts in parts.values() for amount in amounts)


def meets_overbooked(stay: Stay, overbooked: Mapping[int, int]) -> bool:
    """One of its hosts is still overbooked when it starts, as far as these are, by row and until when.

    What takes a host that is coming up is over before anybody starts there.
    """
    return bool(overbooked) and any(overbooked.get(row, 0) > stay.start_s for row in stay.host_rows)
