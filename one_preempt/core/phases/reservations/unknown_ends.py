"""What outlives its time has no end that anybody knows: nothing is promised firmly in its place.

The queue expects it to end any second, and so says the timeline (see `observed_room`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from one_preempt.core.availability.slot_reservation import SlotReservation
from one_preempt.core.availability.timeline import Stay
from one_preempt.core.model.lease import Lease, LeaseState
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.giving_way import leaving_leases
from one_preempt.core.victims import has_overrun


@contextmanager
def overruns_going_on(draft: PlanDraft, lease: Lease) -> Iterator[None]:
    """Meanwhile what overruns and does not give way to `lease` keeps its room, in the table that the queue is held to.

    What gives way is sent out for who may preempt, and for nobody else.
    """
    with _held(draft, _going_on(draft, lease, gives_way=False)):
        yield


@contextmanager
def no_overrun_giving_way(draft: PlanDraft, lease: Lease) -> Iterator[bool]:
    """Meanwhile what overruns and would give way to `lease` keeps its room there as well; whether there is any."""
    staying = list(_going_on(draft, lease, gives_way=True))
    with _held(draft, staying):
        yield bool(staying)


@contextmanager
def _held(draft: PlanDraft, going_on: Iterable[SlotReservation]) -> Iterator[None]:
    table, going_on = draft.timeline.all_stays.table, list(going_on)
    for one in going_on:
        table.reserve(one)
    try:
        yield
    finally:
        for one in going_on:
            table.release(one)


def _going_on(draft: PlanDraft, lease: Lease, *, gives_way: bool) -> Iterator[SlotReservation]:
    any_second_s = draft.state.now_s + 1
    late = [
        (draft.state.leases[lease_id], stays[0])
        for lease_id, stays in draft.timeline.stays.items()
        if stays[0].end_s == any_second_s and lease_id in draft.state.leases
    ]
    leaving = leaving_leases(draft) if late else frozenset()
    for other, stay in late:
        if other.id in leaving or not _is_late(other, stay, draft.state.now_s):
            continue
        if (lease.preempts and draft.gives_way(other)) is not gives_way:
            continue
        yield SlotReservation(other.id, any_second_s, None, stay.host_rows, stay.amounts)


def _is_late(lease: Lease, stay: Stay, now_s: int) -> bool:
    """It is on its hosts and has outlived its DURATION, or should have begun to run so long ago that it had ended."""
    if stay.firm or stay.promise or stay.start_s > now_s or lease.state is LeaseState.LEAVING:
        return False
    return lease.run_began_at_s is None or has_overrun(lease, now_s)
