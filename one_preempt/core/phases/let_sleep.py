"""What the energy policy wants for the queue, now and then, and which hosts that have nothing to do go to sleep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice

import numpy as np

from one_preempt.core.availability.timeline import Stay
from one_preempt.core.energy.policy import Occasion, TimedWork
from one_preempt.core.matching.reasons import DISPATCH_LIMIT, NEXT_CYCLE, while_hosts_come
from one_preempt.core.model.plan import ActionKind
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.images.promised_images import receiving_rows
from one_preempt.core.phases.power.boot_turns import BootTurns, turns_bind
from one_preempt.core.phases.power.emptiable_hosts import consolidate, emptiable_hosts
from one_preempt.core.phases.power.needed_hosts import NeededHosts, may_wait, starts_if_woken
from one_preempt.core.phases.power.power_draft import PowerDraft
from one_preempt.core.phases.power.power_steps import continue_power, take_orders_to_sleep, unused_rows
from one_preempt.core.phases.power.supply_question import BEHIND, WAITS_FOR_ROOM, ask, request_at
from one_preempt.core.phases.power.waking_times import first_starts_s, may_sleep_until
from one_preempt.core.phases.queue.turns import NOT_LOOKED_AT, waiting_leases
from one_preempt.core.phases.reservations.promised import has_exact_start, promised_leases
from one_preempt.core.phases.room_wanted import RoomWanted


def let_sleep(draft: PlanDraft) -> None:
    """The last word on power in this cycle: who is woken, emptied, or let sleep; and the next steps."""
    power = draft.power
    if power is None:
        return
    if draft.images is not None:
        begins_s = receiving_rows(draft, draft.images)
        power.receiving = frozenset(
            row for row, begin_s in begins_s.items() if not may_sleep_until(draft, power, row, begin_s)
        )
    take_orders_to_sleep(draft, power)
    if power.asks_policy():
        head = cache(lambda: _head_of_queue(draft, power))
        _look_after_queue(draft, power, head)
        _let_idle_sleep(draft, power, head)
        _keep_floor(power)
    _tell_of_hosts_that_come(draft, power)
    continue_power(draft)


def _tell_of_hosts_that_come(draft: PlanDraft, power: PowerDraft) -> None:
    """Whoever lacks room hears that others than those who leave may bring some."""
    coming = int(np.count_nonzero(power.columns.booting))
    if coming:
        told = ((lease_id, draft.waits.get(lease_id)) for lease_id in draft.lacking_room)
        draft.waits.update({lease_id: while_hosts_come(why, coming) for lease_id, why in told if why is not None})


def _head_of_queue(draft: PlanDraft, power: PowerDraft) -> RoomWanted | None:
    """The first request that waits for room and that hosts could help, as if it began once those woken now are up."""
    for lease in waiting_leases(draft):
        waits = draft.waits.get(lease.id)
        if waits is None or lease.id in draft.reserved or not may_wait(draft, lease):
            continue
        if waits.code == BEHIND and not (draft.policies.backfilling.overtaking or lease.preempts):
            # It waits for its turn, and whoever is before it could not start on more hosts either.
            continue
        waits_for_room = lease.id in draft.lacking_room or waits.code in WAITS_FOR_ROOM
        if waits_for_room and starts_if_woken(draft, power, lease):
            return request_at(draft, lease, power.latest_up_s, draft.startable(lease))
    return None


def _look_after_queue(draft: PlanDraft, power: PowerDraft, head: Callable[[], RoomWanted | None]) -> None:
    """Ask the periodic question, where it is time for it."""
    now_s, asked_at_s, period_s = power.now_s, power.known.asked_at_s, power.rules.period_s
    to_empty = sum(grant.to_empty for grant in power.grants.values())
    if asked_at_s is not None and asked_at_s <= now_s < asked_at_s + period_s:
        draft.wake_by(asked_at_s + period_s)
        if to_empty:
            # Whoever heads the queue may count on hosts that are about to be emptied.
            head()
            consolidate(draft, power, emptiable_hosts(draft, power), to_empty)
        return
    power.asked_at_s = now_s
    draft.wake_by(now_s + period_s)
    emptiable = cache(lambda: emptiable_hosts(draft, power))
    asked = ask(draft, power, Occasion.PERIODIC, head(), find_emptiable=lambda: emptiable().nodes)
    decision = power.rules.policy.decide(asked.question)
    why = "the queue waits for room" if head() is not None else "the energy policy wants it on"
    power.wake_some(asked.rows_to_wake, decision.wake, why)
    to_empty = max(decision.consolidate, to_empty)
    if to_empty:
        consolidate(draft, power, emptiable(), to_empty)


def _keep_floor(power: PowerDraft) -> None:
    """Wake some where fewer are on than the floor says: one of them failed, or the floor was raised."""
    lacking = power.below_floor
    if not lacking:
        return
    rows = power.economical(np.flatnonzero(power.asleep & power.wakeable).tolist())
    # First those that have their power still.
    for row in sorted(rows, key=lambda row: not power.columns.turnable[row])[:lacking]:
        power.wake_in_turn(row, "floor", f"power.floor is {power.rules.floor}, and fewer hosts are on")


# -- what has nothing to do ----------------------------------------------------------------------------------


def _let_idle_sleep(draft: PlanDraft, power: PowerDraft, head: Callable[[], RoomWanted | None]) -> None:
    idle = _idle_rows(draft, power)
    if not idle or _is_anybody_put_off(draft):
        return
    put_off, late = _put_off(draft, power)
    taken = _scheduled_rows(draft, late)
    rows = [row for row in idle if row not in taken or row in power.until_then]
    unscheduled = min(len(rows) - _promised_by_number(draft), power.spare)
    if unscheduled <= 0:
        return
    asked = ask(draft, power, Occasion.IDLE, head(), unscheduled=unscheduled, put_off=put_off)
    count = min(power.rules.policy.decide(asked.question).switch_off, unscheduled)
    promised = first_starts_s(stay for lease_id in late for stay in draft.timeline.stays[lease_id])
    dearest_first = power.economical(rows)[::-1]
    if count <= 0:
        return
    in_order = sorted(dearest_first, key=lambda row: row in promised)
    for row in islice(_spared(draft, power, in_order, promised), count):
        later = row in power.until_then
        there = "what is scheduled there starts later" if later else "nothing is scheduled there"
        power.let_sleep(row, "idle", f"nothing runs on it, and {there}")


def _is_anybody_put_off(draft: PlanDraft) -> bool:
    """This cycle has started as many VMs as it may, or looked at as much: others are next, on idle hosts.

    Where nobody of those who were looked at starts, nobody else is looked at in the next cycle.
    """
    lacking = draft.lacking_room
    starts = any(action.kind is ActionKind.DEPLOY for action in draft.actions)
    return any(
        why.code == DISPATCH_LIMIT
        or (why.code == NEXT_CYCLE and lease_id not in lacking)
        or (why.code == NOT_LOOKED_AT and starts)
        for lease_id, why in draft.waits.items()
    )


def _spared(draft: PlanDraft, power: PowerDraft, rows: Sequence[int], promised: Mapping[int, int]) -> Iterator[int]:
    """Those of these rows, one after the other, whose hosts neither who waits needs nor who starts there would lack."""
    needed = NeededHosts(draft, power)
    turns = BootTurns(draft, power) if turns_bind(power, len(promised.keys() & set(rows))) else None
    for row in rows:
        in_turn = turns if row in promised else None
        if (in_turn is None or in_turn.may_sleep(row, promised[row])) and needed.spare(row):
            # Only what does sleep takes a turn of the others.
            if in_turn is not None:
                in_turn.let_sleep(row, promised[row])
            yield row


def _idle_rows(draft: PlanDraft, power: PowerDraft) -> list[int]:
    """Hosts that may sleep, on which nobody is and where nobody was given room in this cycle."""
    if draft.state.snapshot.untraced_vm_ids:
        return []
    able = np.flatnonzero(power.able_to_sleep & ~power.columns.occupied)
    free = (draft.room.free[able] == draft.state.hosts.capacity[able]).all(axis=1)
    return unused_rows(draft, power, able[free])


def _put_off(draft: PlanDraft, power: PowerDraft) -> tuple[TimedWork, frozenset[int]]:
    """Reservations to which the policy does not bind hosts yet: as work, and by lease."""
    found: list[tuple[int, int, int, int]] = []
    promised = promised_leases(draft) if power.rules.policy.puts_off else ()
    for lease in sorted(promised, key=lambda lease: lease.id):
        stays = draft.timeline.stays.get(lease.id, ())
        if not stays or not stays[0].host_rows or not has_exact_start(draft, lease):
            continue
        first = stays[0]
        if power.now_s < first.start_s - _boot_s(power, first):
            end_s = first.start_s if first.end_s is None else first.end_s
            found.append((lease.id, len(set(first.host_rows)), first.start_s, end_s))
    nodes, starts, ends = (np.array([one[column] for one in found], dtype=np.int64) for column in (1, 2, 3))
    return TimedWork(nodes, starts, ends), frozenset(one[0] for one in found)


def _boot_s(power: PowerDraft, stay: Stay) -> int:
    """How long the hosts of a stay take to come up."""
    if not power.rules.models:
        return power.rules.up_after(power.rules.power)
    return max(power.rules.up_after_s(power.host(row)) for row in stay.host_rows)


def _scheduled_rows(draft: PlanDraft, late: frozenset[int]) -> set[int]:
    """Rows on which somebody is or was promised room, but for those who are not bound to them yet."""
    return {
        row
        for lease_id, stays in draft.timeline.stays.items()
        if lease_id not in late
        for stay in stays
        for row in stay.host_rows
    }


def _promised_by_number(draft: PlanDraft) -> int:
    """Hosts of which the queue was promised so many, and nobody knows which yet."""
    stays = (stay for known in draft.timeline.stays.values() for stay in known)
    return sum(len(stay.amounts) for stay in stays if not stay.host_rows)
