"""Reservations that are bound to hosts move to others that are on, so that the host they leave can sleep.

Only exact starts that lie ahead, on hosts on which nobody is: nobody notices but the power supply.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

import numpy as np
from msgspec.structs import replace

from one_preempt.core.availability.gang_demand import BoolArray
from one_preempt.core.availability.timeline import Stay
from one_preempt.core.memory.lease_concerns import WAITING_STATES, Concern
from one_preempt.core.model.cluster_state import IntArray
from one_preempt.core.model.lease import Lease
from one_preempt.core.phases.devices_and_groups.matched_then import has_all_then
from one_preempt.core.phases.draft import PlanDraft, Preparation
from one_preempt.core.phases.images.promised_images import may_be_staged
from one_preempt.core.phases.power.power_draft import PowerDraft
from one_preempt.core.phases.power.suited_hosts import matched_rows
from one_preempt.core.phases.power.supply_question import leases_by_row
from one_preempt.core.phases.reservations.leaving_in_time import lay_back, who_must_leave
from one_preempt.core.phases.reservations.planned_stays import leaving_lacks_s
from one_preempt.core.phases.reservations.promised import has_exact_start
from one_preempt.core.phases.reservations.room_ahead import is_taken
from one_preempt.core.phases.reservations.stays import book


def reserved_only(draft: PlanDraft, power: PowerDraft) -> dict[int, tuple[Lease, ...]]:
    """By row of the hosts that are on, may sleep, and hold nothing but reservations that may move: their leases."""
    if power.rules.policy.puts_off:
        return {}
    movable = {lease.id: lease for lease in draft.concerns.ordered(Concern.TIME) if _may_move(draft, lease)}
    found: dict[int, list[Lease]] = {}
    held: set[int] = set()
    for lease_id, stays in draft.timeline.stays.items():
        for row in {row for stay in stays for row in stay.host_rows}:
            if lease_id in movable:
                found.setdefault(row, []).append(movable[lease_id])
            else:
                held.add(row)
    hosts, able = draft.state.hosts, power.able_to_sleep
    unused = (draft.room.free == hosts.capacity).all(axis=1)
    return {
        row: tuple(leases)
        for row, leases in sorted(found.items())
        if row not in held and unused[row] and not hosts.hosts[row].vm_ids and able[row]
    }


def _may_move(draft: PlanDraft, lease: Lease) -> bool:
    stays = draft.timeline.stays.get(lease.id, ())
    return (
        lease.state in WAITING_STATES
        and len(stays) == 1
        and stays[0].start_s > draft.state.now_s
        and not stays[0].displaced
        and has_exact_start(draft, lease)
        and lease.id not in draft.busy_leases
    )


def move_reservations(draft: PlanDraft, power: PowerDraft, row: int, leases: tuple[Lease, ...], left: Set[int]) -> bool:
    """Promise all of these on other hosts that are on, but for the rows already `left`; nothing is done where one
    cannot move, or others have moved there meanwhile."""
    counts = leases_by_row(draft)
    if counts.get(row) != len(leases):
        return False
    before: list[tuple[Lease, Stay, Preparation | None]] = []
    for lease in leases:
        (stay,) = draft.timeline.stays[lease.id]
        before.append((lease, stay, draft.preparations.get(lease.id)))
        moved = _moved(draft, power, lease, stay, row, left, counts)
        if moved is None:
            for other, known, prepared in before:
                book(draft, other, [known])
                lay_back(draft, other.id, prepared)
            return False
        book(draft, lease, [moved])
    return True


def _moved(
    draft: PlanDraft,
    power: PowerDraft,
    lease: Lease,
    stay: Stay,
    row: int,
    left: Set[int],
    counts: Mapping[int, int],
) -> Stay | None:
    """The same stay without a host: where already most leases are, and if possible nobody has to give way then.

    For who makes nobody leave nobody does; for others those that must can leave in time.
    """
    timeline = draft.timeline
    table = timeline.firm_stays if lease.preempts else timeline.all_stays.table
    firm = table.free_during(stay.start_s, stay.end_s).copy()
    free: IntArray | None = None
    suited: BoolArray = matched_rows(draft, draft.members(lease)) & power.awake
    rows = list(stay.host_rows)
    for place, (at, amounts) in enumerate(zip(stay.host_rows, stay.amounts, strict=True)):
        if at != row:
            continue
        able = np.flatnonzero(suited & (firm >= amounts).all(axis=1)).tolist()
        able = [one for one in able if one != row and one not in left and counts.get(one)]
        if not able:
            return None
        if free is None:
            free = timeline.all_stays.table.free_during(stay.start_s, stay.end_s)
        giving_way = set(np.flatnonzero((free < amounts).any(axis=1)).tolist())
        to = min(able, key=lambda one: (one in giving_way, -counts[one], one))
        firm[to] -= amounts
        rows[place] = to
    elsewhere = replace(stay, host_rows=tuple(rows))
    vms = draft.members(lease)
    has_all = has_all_then(draft, vms, elsewhere) and may_be_staged(draft, lease, vms, elsewhere)
    return elsewhere if has_all and _has_room_then(draft, lease, elsewhere) else None


def _has_room_then(draft: PlanDraft, lease: Lease, stay: Stay) -> bool:
    """Whoever is on its hosts has ended by then, or can have left: what outlives its DURATION there may not have."""
    if lease.preempts and who_must_leave(draft, lease, stay):
        return not leaving_lacks_s(draft, lease, stay)
    return not is_taken(draft, lease, stay)
