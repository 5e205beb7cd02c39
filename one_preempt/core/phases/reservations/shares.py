"""How much of the cloud the holders of one entry of the rights may reserve in advance at any instant."""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate

import numpy as np

from one_preempt.core.model.lease import Lease
from one_preempt.core.model.plan import Reason
from one_preempt.core.model.reservation import Reservation
from one_preempt.core.model.resources import NO_RESOURCES, Resources
from one_preempt.core.phases.draft import PlanDraft

PER_CENT = 100


def share_exceeded(draft: PlanDraft, lease: Lease, start_s: int, end_s: int | None) -> Reason | None:
    """Why a reservation between two instants would be more than the lease's owners may have; None: it is not."""
    most = _most(draft, lease)
    if most is None or (most_reserved(draft, lease, start_s, end_s) + lease.total).fits_in(most):
        return None
    return Reason(
        "share-exceeded",
        f"all who share this right may together reserve {lease.max_share_percent} % of the cloud at any time: "
        "ask for another time, or for less",
    )


def within_share_from_s(draft: PlanDraft, lease: Lease, whole_s: int, not_before_s: int) -> int | None:
    """The first instant from which its owners may have it for so long without a break; None: they never may."""
    most = _most(draft, lease)
    if most is None:
        return not_before_s
    changes = _changes(draft, lease, not_before_s, None)
    held, begun_s = NO_RESOURCES, None
    for instant_s in sorted({not_before_s, *changes}):
        if begun_s is not None and instant_s - begun_s >= whole_s:
            return begun_s
        held += changes.get(instant_s, NO_RESOURCES)
        if not (held + lease.total).fits_in(most):
            begun_s = None
        elif begun_s is None:
            begun_s = instant_s
    return begun_s


def _most(draft: PlanDraft, lease: Lease) -> Resources | None:
    if lease.max_share_percent is None:
        return None
    capacity = np.maximum(draft.state.hosts.capacity[draft.state.hosts.accepts_vms], 0).sum(axis=0)
    return Resources(*(int(amount) * lease.max_share_percent // PER_CENT for amount in capacity))


def most_reserved(draft: PlanDraft, lease: Lease, start_s: int, end_s: int | None) -> Resources:
    """The most that the others of the same entry have reserved at any instant of the time asked for."""
    changes = _changes(draft, lease, start_s, end_s)
    held = list(accumulate((changes[instant_s] for instant_s in sorted(changes)), initial=NO_RESOURCES))
    return Resources(max(one.cpu_centi for one in held), max(one.memory_mib for one in held))


def _changes(draft: PlanDraft, lease: Lease, start_s: int, end_s: int | None) -> dict[int, Resources]:
    """By how much what the others of the same entry have reserved changes, by instant; all from `start_s` on."""
    changes: dict[int, Resources] = defaultdict(lambda: NO_RESOURCES)
    for other in draft.state.leases.values():
        if other.id == lease.id or other.rights_name != lease.rights_name or not draft.is_accepted(other):
            continue
        for one in _reservations(draft, other):
            if _meet(one, start_s, end_s):
                changes[max(start_s, one.start_at_s)] += other.total
                if one.end_at_s is not None:
                    changes[one.end_at_s] -= other.total
    return changes


def _reservations(draft: PlanDraft, lease: Lease) -> tuple[Reservation, ...]:
    booking = draft.bookings.get(lease.id)
    return booking.reservations if booking is not None else draft.state.reservations.get(lease.id, ())


def _meet(one: Reservation, start_s: int, end_s: int | None) -> bool:
    return (one.end_at_s is None or one.end_at_s > start_s) and (end_s is None or one.start_at_s < end_s)
