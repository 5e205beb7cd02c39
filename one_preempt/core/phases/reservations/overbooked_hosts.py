"""Hosts that were promised to more leases than they hold, for an administrator made them smaller, or an owner his VM
larger: whoever is due first starts there, else each would wait for what the others were promised, and nobody start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from one_preempt.core.availability.timeline import Stay
from one_preempt.core.model.cluster_state import IntArray
from one_preempt.core.model.lease import Lease
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.half_started_gangs import without_the_rest
from one_preempt.core.phases.reservations.promised import promised_leases
from one_preempt.core.phases.reservations.room_ahead import firm_ceiling


def firm_ceiling_in_turn(draft: PlanDraft, lease: Lease, stay: Stay | None, end_s: int | None) -> IntArray | None:
    """What nobody but `lease` was promised firmly from now on until `end_s`; on its own hosts by `stay` that hold less
    than was promised there, what nobody was whose stay begins before its own."""
    now_s = draft.state.now_s
    free = firm_ceiling(draft, lease, now_s, end_s)
    overbooked = draft.timeline.firm_stays.overbooked()
    rows = [row for row in set(stay.host_rows) if overbooked.get(row, 0) > now_s] if stay is not None else []
    behind = _behind(draft, stay, frozenset(rows)) if stay is not None and rows else []
    if free is not None and behind:
        with _without(draft, behind):
            in_turn = firm_ceiling(draft, lease, now_s, end_s)
        if in_turn is not None:
            free[rows] = in_turn[rows]
    return free


def _behind(draft: PlanDraft, stay: Stay, rows: frozenset[int]) -> list[int]:
    """The leases that wait for a later stay, or one at the same time and have the higher id, on one of these rows."""
    turn = stay.start_s, stay.lease_id
    found = []
    for other in promised_leases(draft):
        if other.id in draft.busy_leases or other.id in draft.starting:
            continue
        stays = draft.timeline.stays.get(other.id, ())
        # Of a gang that has begun the rest was to start with it.
        ahead = without_the_rest(stays)
        if any(one.firm and (one.start_s, other.id) > turn and not rows.isdisjoint(one.host_rows) for one in ahead):
            found.append(other.id)
    return found


@contextmanager
def _without(draft: PlanDraft, lease_ids: list[int]) -> Iterator[None]:
    """Meanwhile these were promised nothing."""
    withdrawn = [draft.timeline.withdraw(lease_id) for lease_id in lease_ids]
    try:
        yield
    finally:
        for stays in withdrawn:
            if stays:
                draft.timeline.hold(stays)
