"""What is said to those who ask for a time, what is written down for them, and that none starts too early."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from one_preempt.core.model.lease import Lease, LeaseState
from one_preempt.core.model.plan import ActionKind
from one_preempt.core.model.reservation import Booking, Reservation, Verdict
from one_preempt.core.verify.lease_over_time import (
    booked_s,
    has_deadline_promised,
    has_return_promised,
    has_start_promised,
    left_s,
    recorded,
)
from one_preempt.core.verify.recount import Recount, Rule, Violation, is_kept_out

_REFUSED = LeaseState.REFUSED
_REFUSED_OFTEN = 18


def _nobody_starts_before_its_time(recount: Recount) -> Iterator[Violation]:
    """START is the exact start of an advance reservation, and the earliest one of a lease with a deadline.

    That the VM is of that lease is a rule of its own.
    """
    refused = {given.lease_id for given in recount.plan.verdicts if given.verdict is Verdict.REFUSED}
    for lease_id, starts in recount.starts_by_lease.items():
        lease = recount.leases.get(lease_id)
        if lease is None:
            continue
        was_refused = lease.id in refused or lease.state is _REFUSED
        start_at_s = lease.terms.start_at_s
        is_early = start_at_s is not None and recount.state.now_s < start_at_s
        if not (was_refused or is_early):
            continue
        is_early = is_early and (has_start_promised(recount, lease) or has_deadline_promised(recount, lease))
        for action in starts:
            what = f"{action.id} starts a VM of lease {lease.id}"
            if was_refused and not recount.under_way(action):
                yield Violation("refused-lease", f"{what}, which was refused")
            if is_early and not recount.under_way(action):
                yield Violation("too-early", f"{what} before its START {start_at_s}")


def _verdicts_are_given_once(recount: Recount) -> Iterator[Violation]:
    answered: set[int] = set()
    for given in recount.plan.verdicts:
        lease = recount.state.leases.get(given.lease_id)
        if given.lease_id in answered:
            yield Violation("contrary-verdicts", f"lease {given.lease_id} is answered twice")
        answered.add(given.lease_id)
        if lease is None or not lease.terms.asks_for_time:
            yield Violation("unasked-verdict", f"lease {given.lease_id} asked for no time and is answered")
        elif given.verdict is Verdict.NONE or lease.verdict not in (Verdict.NONE, given.verdict):
            yield Violation(
                "verdict-withdrawn", f"lease {given.lease_id} was {lease.verdict} and would be {given.verdict}"
            )


def _what_is_accepted_is_booked(recount: Recount) -> Iterator[Violation]:
    for given in recount.plan.verdicts:
        lease = recount.state.leases.get(given.lease_id)
        if lease is None or given.verdict is not Verdict.ACCEPTED:
            continue
        if lease.terms.at_once:
            if not _is_on_its_way(recount, lease):
                yield Violation("nothing-done", f"lease {lease.id} is accepted at once, and nothing is done for it")
        elif not any(one.firm for one in recorded(recount, lease, planned=True)):
            yield Violation("nothing-booked", f"lease {lease.id} is accepted, and no room is booked for it")


def _is_on_its_way(recount: Recount, lease: Lease) -> bool:
    """Room is made for it, or it starts, or is to be started again after a refusal."""
    records = (*recount.state.actions.values(), *recount.state.failed_actions)
    deployed = [*recount.starts_by_lease]
    deployed += [one.lease_id for one in records if one.kind is ActionKind.DEPLOY]
    return lease.id in (*deployed, *(one.preemptor_lease_id for one in recount.preemptions.values()))


def _promises_are_not_dropped(recount: Recount) -> Iterator[Violation]:
    for lease_id, booking in recount.booking_by_lease.items():
        lease = recount.state.leases.get(lease_id)
        had = any(one.firm for one in recount.state.reservations.get(lease_id, ()))
        if lease is None or not had or any(one.firm for one in booking.reservations):
            continue
        promised = has_deadline_promised(recount, lease) or has_start_promised(recount, lease)
        promised = promised or has_return_promised(lease)
        if promised and _waits(recount, lease) and not _was_refused_for_long(recount, lease):
            yield Violation("promise-dropped", f"lease {lease_id} would lose what was booked for it")


def _was_refused_for_long(recount: Recount, lease: Lease) -> bool:
    """oned has not taken a start of it for so long that nobody keeps its hosts from others; of a gang sooner."""
    often = _REFUSED_OFTEN if lease.terms.size == 1 else 1
    starts = [one for one in recount.state.failed_actions if one.kind is ActionKind.DEPLOY]
    return any(one.vm_id in lease.vm_ids and one.attempts >= often for one in starts)


def _waits(recount: Recount, lease: Lease) -> bool:
    starting = recount.starting_vm_ids()
    return all(recount.vms[vm_id].host_id is None and vm_id not in starting for vm_id in lease.vm_ids)


def _unknown_loses_its_promise_alone(recount: Recount, booking: Booking) -> Iterator[Violation]:
    """What nobody knows any more is promised nothing; and what exists, and is not seen now, keeps what it was."""
    exists = booking.lease_id in recount.state.records.keys() | recount.state.snapshot.unreadable_vm_ids
    if booking.reservations:
        yield Violation("unknown-lease", f"lease {booking.lease_id}, which does not exist, is booked")
    elif exists:
        yield Violation("promise-dropped", f"lease {booking.lease_id}, which is not seen, would lose what was booked")


def _bookings_are_well_formed(recount: Recount) -> Iterator[Violation]:
    booked: set[int] = set()
    for booking in recount.plan.bookings:
        lease = recount.state.leases.get(booking.lease_id)
        if booking.lease_id in booked:
            yield Violation("booked-twice", f"lease {booking.lease_id} is booked twice")
        booked.add(booking.lease_id)
        if lease is None:
            yield from _unknown_loses_its_promise_alone(recount, booking)
            continue
        for text in _faults_of_slots(booking):
            yield Violation("malformed-booking", f"the booking of lease {lease.id} {text}")
        for one in booking.reservations:
            yield from _hosts_of_slot(recount, lease, one)


def _faults_of_slots(booking: Booking) -> Iterator[str]:
    previous_end_s: int | None = 0
    for one in booking.reservations:
        if one.lease_id != booking.lease_id:
            yield f"names lease {one.lease_id}"
        if one.end_at_s is not None and one.end_at_s <= one.start_at_s:
            yield f"ends at {one.end_at_s}, and begins at {one.start_at_s}"
        if previous_end_s is None or one.start_at_s < previous_end_s:
            yield f"begins a slot at {one.start_at_s} before the one before it ends"
        previous_end_s = one.end_at_s


def _hosts_of_slot(recount: Recount, lease: Lease, slot: Reservation) -> Iterator[Violation]:
    """Where hosts are alike, those of a promise that is not firm are picked late."""
    if not slot.host_ids and not slot.firm:
        return
    vms = [recount.vms[vm_id] for vm_id in lease.vm_ids]
    to_start = sum(vm.host_id is None and not is_kept_out(lease, vm) for vm in vms)
    if len(slot.host_ids) not in (len(vms), to_start):
        yield Violation(
            "booked-hosts", f"{len(slot.host_ids)} hosts are booked for the {len(vms)} VMs of lease {lease.id}"
        )
    there = {vm.host_id for vm in vms}
    for host_id in slot.host_ids:
        host = recount.host_then(host_id)
        if host is None or not (host.accepts_vms or host_id in there):
            yield Violation("booked-hosts", f"host {host_id} is booked for lease {lease.id}, and takes no VMs")


def _bookings_give_what_was_asked_for(recount: Recount) -> Iterator[Violation]:
    for lease_id, booking in recount.booking_by_lease.items():
        lease = recount.state.leases.get(lease_id)
        firm = [one for one in booking.reservations if one.firm]
        if lease is None or not firm:
            continue
        refused = Verdict.REFUSED in (recount.verdict_by_lease.get(lease_id), lease.verdict)
        if refused and not has_return_promised(lease):
            yield Violation("refused-lease", f"lease {lease_id} was refused, and is booked")
        elif has_deadline_promised(recount, lease):
            yield from _deadline_is_kept(recount, lease, firm)
        elif has_start_promised(recount, lease):
            yield from _start_is_kept(recount, lease, firm)
        elif has_return_promised(lease):
            yield from _is_long_enough(recount, lease, firm)
        else:
            yield Violation("not-promised", f"lease {lease_id} is booked firmly, and was promised nothing")


def _start_is_kept(recount: Recount, lease: Lease, firm: Sequence[Reservation]) -> Iterator[Violation]:
    """What is late already starts as soon as it can."""
    start_at_s = lease.terms.start_at_s or 0
    late = start_at_s <= recount.state.now_s
    for one in firm:
        if one.start_at_s != start_at_s and not (late and one.start_at_s > start_at_s):
            text = f"lease {lease.id} is booked at {one.start_at_s}, and not at its START {start_at_s}"
            yield Violation("not-at-start", text)
    yield from _is_long_enough(recount, lease, firm)


def _deadline_is_kept(recount: Recount, lease: Lease, firm: Sequence[Reservation]) -> Iterator[Violation]:
    """Only what was accepted before may be late: then it starts at once, or has at least the time that it had."""
    now_s, deadline_at_s = recount.state.now_s, lease.terms.deadline_at_s or 0
    ends_at_s = firm[-1].end_at_s
    at_once = lease.verdict is Verdict.ACCEPTED and len(firm) == 1 and firm[0].start_at_s <= now_s
    if not at_once and (ends_at_s is None or ends_at_s > deadline_at_s):
        yield Violation(
            "past-deadline", f"lease {lease.id} is booked until {ends_at_s}, after its DEADLINE {deadline_at_s}"
        )
    ready_at_s = lease.terms.start_at_s or 0
    if max(now_s, firm[0].start_at_s) < ready_at_s and _waits(recount, lease):
        text = f"lease {lease.id} is booked at {firm[0].start_at_s}, before its START {ready_at_s}"
        yield Violation("before-start", text)
    yield from _is_long_enough(recount, lease, firm)


def _is_long_enough(recount: Recount, lease: Lease, firm: Sequence[Reservation]) -> Iterator[Violation]:
    """For all that is left of it; what was promised before may have lost some of its time, and loses no more."""
    now_s = recount.state.now_s
    needed_s = left_s(lease, now_s)
    before = [one for one in recount.state.reservations.get(lease.id, ()) if one.firm]
    if needed_s is None:
        return
    if before or lease.verdict is Verdict.ACCEPTED:
        needed_s = min(needed_s, booked_s(before, now_s))
    given_s = booked_s(firm, now_s)
    if given_s < needed_s:
        yield Violation("too-short", f"lease {lease.id} is booked for {given_s} s, and needs {needed_s} s")


RULES_OF_STARTS: tuple[Rule, ...] = (_nobody_starts_before_its_time,)
RULES: tuple[Rule, ...] = (
    _verdicts_are_given_once,
    _what_is_accepted_is_booked,
    _promises_are_not_dropped,
    _bookings_are_well_formed,
    _bookings_give_what_was_asked_for,
)
