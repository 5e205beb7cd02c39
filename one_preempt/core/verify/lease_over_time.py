"""What the rules about time know of a lease: counted from its terms, its clock and what was written down."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from one_preempt.core.model.lease import Lease
from one_preempt.core.model.reservation import Reservation, Verdict
from one_preempt.core.model.time_rules import Overrun
from one_preempt.core.model.virtual_machine import LockLevel
from one_preempt.core.verify.recount import Recount

ENDLESS_S = 2**62


def left_s(lease: Lease, now_s: int) -> int | None:
    """What is left of its DURATION, the present run counted; 0 or less where it outlives it, None without one."""
    if lease.terms.duration_s is None:
        return None
    running_s = 0 if lease.run_began_at_s is None else max(0, now_s - lease.run_began_at_s)
    return lease.terms.duration_s - lease.served_s - running_s


def has_outlived_its_duration(lease: Lease, now_s: int) -> bool:
    """It was served for all of its DURATION, the present run included."""
    left = left_s(lease, now_s)
    return left is not None and left <= 0


def was_suspended_often_enough(lease: Lease) -> bool:
    """MAX_SUSPENSIONS is used up; it guards only what ends by itself (SR11)."""
    most = lease.terms.max_suspensions
    return most is not None and lease.terms.duration_s is not None and lease.preemptions >= most


def has_return_promised(lease: Lease) -> bool:
    """It is best effort, had to leave, and may not be made to leave again (SR11). What its owner has paused since does
    not return before he resumes it."""
    may_return = lease.terms.type.best_effort and lease.preemptions > 0 and was_suspended_often_enough(lease)
    return may_return and not lease.paused_vm_ids and not has_had_its_time(lease)


def has_had_its_time(lease: Lease) -> bool:
    """Its runs that are over took all of its DURATION: it has had what it was promised."""
    return lease.terms.duration_s is not None and lease.served_s >= lease.terms.duration_s


def is_accepted(recount: Recount, lease: Lease) -> bool:
    """It was promised the time it asked for, before or by this plan."""
    return recount.verdict_by_lease.get(lease.id, lease.verdict) is Verdict.ACCEPTED


def has_deadline_promised(recount: Recount, lease: Lease) -> bool:
    """It was accepted with a DEADLINE: its slots are its own, whatever its type."""
    return lease.terms.deadline_at_s is not None and is_accepted(recount, lease) and not has_had_its_time(lease)


def has_start_promised(recount: Recount, lease: Lease) -> bool:
    """It was accepted with an exact START, and does not give way and has not since, which makes it best effort."""
    terms = lease.terms
    exact = terms.start_at_s is not None and terms.deadline_at_s is None and not terms.at_once
    gave_way = lease.preempted_by is not None or lease.id in recount.victim_lease_ids
    return exact and not gave_way and is_accepted(recount, lease) and not has_had_its_time(lease)


def may_give_way(recount: Recount, lease: Lease) -> bool:
    """Somebody may be promised its room, because it could be made to leave; nobody asks whether the rules say so."""
    if has_outlived_its_duration(lease, recount.state.now_s):
        return True
    return gives_way_by_type(recount, lease)


def gives_way_by_type(recount: Recount, lease: Lease) -> bool:
    """Its type lets others have its room, and it was promised nothing that forbids it."""
    kept = was_suspended_often_enough(lease) or has_deadline_promised(recount, lease)
    return lease.terms.type.preemptable and not kept


def may_overstay(recount: Recount, lease: Lease) -> bool:
    """It has outlived its DURATION for a while already, and nobody makes it leave: nobody knows when it ends."""
    if recount.chosen.time.overrun is Overrun.PREEMPT or lease.run_began_at_s is None or lease.terms.duration_s is None:
        return False
    ends_s = lease.run_began_at_s + max(1, lease.terms.duration_s - lease.served_s)
    if ends_s > recount.state.now_s or gives_way_by_type(recount, lease):
        return False
    ended_in_s = recount.chosen.time.overruns_are_ended_in_s
    is_yet_to_be_ended = ended_in_s is not None and recount.state.now_s <= ends_s + ended_in_s
    is_locked = any(recount.vms[vm_id].lock_level is not LockLevel.NONE for vm_id in lease.vm_ids)
    return recount.state.paused or is_locked or not is_yet_to_be_ended


def recorded(recount: Recount, lease: Lease, *, planned: bool) -> tuple[Reservation, ...]:
    """The reservations of a lease: as they will stand with the plan, or as they stand without it, for those VMs of it
    that are left."""
    if planned and lease.id in recount.booking_by_lease:
        return recount.booking_by_lease[lease.id].reservations
    standing, record = recount.state.reservations.get(lease.id, ()), recount.state.records.get(lease.id)
    if record is None or len(record.vm_ids) == len(lease.vm_ids):
        return standing
    return tuple(_of_who_is_left(one, record.vm_ids, lease.vm_ids) for one in standing)


def _of_who_is_left(one: Reservation, booked_vm_ids: Sequence[int], vm_ids: Sequence[int]) -> Reservation:
    """The same without the hosts of VMs that are gone; as it is where it was not booked for all whom it names."""
    if len(one.host_ids) != len(booked_vm_ids):
        return one
    host_of = dict(zip(booked_vm_ids, one.host_ids, strict=True))
    return replace(one, host_ids=tuple(host_of[vm_id] for vm_id in vm_ids if vm_id in host_of))


def slots(recount: Recount, lease: Lease, *, planned: bool) -> tuple[Reservation, ...]:
    """Its firm reservations from now on, where anything is still promised to it.

    None where VMs of it are gone and nobody knows which of the hosts were theirs, or where one went by unused and the
    others are too short: all are looked for anew. Where a host of one is lost the others are its own all the same.
    """
    promised = has_deadline_promised(recount, lease) or has_start_promised(recount, lease) or has_return_promised(lease)
    if not promised:
        return ()
    now_s = recount.state.now_s
    firm = [one for one in recorded(recount, lease, planned=planned) if one.firm]
    ahead = [one for one in firm if one.end_at_s is None or one.end_at_s > now_s]
    if len(ahead) < len(firm) and booked_s(ahead, now_s) < (left_s(lease, now_s) or 0):
        return ()
    return () if any(len(one.host_ids) != len(lease.vm_ids) for one in ahead) else tuple(ahead)


def leaves_by_s(recount: Recount, lease: Lease, *, planned: bool) -> int | None:
    """When what runs in a slot, or outstays one, will have left for its next: at the end of the slot that is due.

    In between two slots when the next begins. None where there is none to come, or where none has begun yet: nobody
    makes it leave then.
    """
    now_s = recount.state.now_s
    firm = [one for one in recorded(recount, lease, planned=planned) if one.firm]
    to_come_s = [one.start_at_s for one in firm if one.start_at_s > now_s]
    if not has_deadline_promised(recount, lease) or not 0 < len(to_come_s) < len(firm):
        return None
    due_s = [one.end_at_s for one in firm if one.start_at_s <= now_s and (one.end_at_s or 0) > now_s]
    return min(at_s for at_s in (*to_come_s, *due_s) if at_s is not None)


def booked_s(stays: Iterable[Reservation], now_s: int) -> int:
    """How long firm reservations last together from now on; one without an end is longer than anything."""
    ends_s = [(one, ENDLESS_S if one.end_at_s is None else one.end_at_s) for one in stays if one.firm]
    return sum(max(0, end_s - max(one.start_at_s, now_s)) for one, end_s in ends_s)
