"""What the queue was promised, or is promised no more, is written down as far as it has changed."""

from __future__ import annotations

from collections.abc import Mapping, Set

from one_preempt.core.availability.alike_nodes import HeldNodes
from one_preempt.core.availability.timeline import Stay
from one_preempt.core.memory.lease_concerns import Concern
from one_preempt.core.model.lease import Lease, LeaseState
from one_preempt.core.model.reservation import Booking, Reservation
from one_preempt.core.observed_room import OUT_OF_QUEUE, keeps_reservations
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.queue.queue_room import promised_stay
from one_preempt.core.phases.reservations.promised import is_promised
from one_preempt.core.phases.reservations.stays import booked

_NO_LONGER_WAITING = OUT_OF_QUEUE | {LeaseState.RUNNING}


def write_promises(draft: PlanDraft, promised: Mapping[int, int]) -> None:
    """Have the timeline and the ledger know of the starts that the backfilling policy has `promised` to leases."""
    if not promised and not draft.state.reservations:
        return
    waiting = draft.concerns.all(Concern.QUEUE)
    written = draft.state.reservations.keys() & waiting.keys()
    # About the start of those that are reserved the queue decides nothing.
    unwritten = _unwritten(draft, promised.keys() - draft.reserved)
    for lease_id in sorted(unwritten | (written - promised.keys() - draft.reserved)):
        _write(draft, waiting[lease_id], is_in_queue=lease_id in promised)
    for lease_id in sorted(draft.state.reservations.keys() - waiting.keys()):
        _strike_out(draft, lease_id)


def _strike_out(draft: PlanDraft, lease_id: int) -> None:
    """What runs was started before what the queue promised to it; what was booked firmly may not hold any more."""
    lease, reserved = draft.state.leases.get(lease_id), draft.state.reservations[lease_id]
    if lease is None:
        if _is_gone(draft, lease_id):
            draft.book(Booking(lease_id, ()))
        return
    if lease_id in draft.busy_leases or lease_id in draft.bookings:
        return
    is_booked = any(one.firm for one in reserved)
    if not keeps_reservations(lease) if is_booked else lease.state in _NO_LONGER_WAITING:
        draft.book(Booking(lease_id, ()))


def _is_gone(draft: PlanDraft, lease_id: int) -> bool:
    """It has no record, with the end of which its reservations would go, and its VM is not just out of sight."""
    return lease_id not in draft.state.records and lease_id not in draft.state.snapshot.unreadable_vm_ids


def _unwritten(draft: PlanDraft, promised: Set[int]) -> Set[int]:
    """Those of these leases whose promise not all know already: few of many in most cycles, where hosts are counted."""
    alike, stays, reservations = draft.timeline.alike, draft.timeline.stays, draft.state.reservations
    if alike is None:
        return promised
    held, given_anew = alike.held(), promised & alike.given_anew()
    unwritten = {
        lease_id
        for lease_id in given_anew
        if not _is_written(held[lease_id], stays.get(lease_id, ()), reservations.get(lease_id, ()))
    }
    alike.all_know(given_anew - unwritten)
    return unwritten


def _is_written(held: HeldNodes, known: tuple[Stay, ...], reserved: tuple[Reservation, ...]) -> bool:
    """It is all that is known and all that is written down of a lease."""
    if len(known) != 1 or len(reserved) != 1 or known[0].host_rows or reserved[0].host_ids:
        return False
    (stay,), (written,) = known, reserved
    if not stay.promise or written.firm:
        return False
    return held.start_s == stay.start_s == written.start_at_s and held.end_s == stay.end_s == written.end_at_s


def _write(draft: PlanDraft, lease: Lease, *, is_in_queue: bool) -> None:
    firm = is_promised(draft, lease) and any(one.firm for one in draft.state.reservations.get(lease.id, ()))
    if firm or lease.id in draft.bookings:
        return
    stay = promised_stay(draft, lease.id) if is_in_queue else None
    known = draft.timeline.stays.get(lease.id, ())
    if stay is not None and known != (stay,):
        draft.timeline.adopt_promise(stay)
    elif stay is None and known and known[0].promise:
        draft.timeline.drop_promise(lease.id)
    if lease.id not in draft.busy_leases or lease.id in draft.starting:
        draft.book(booked(draft, lease, [stay] if stay is not None else []))
