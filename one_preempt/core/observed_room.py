"""What a timeline is told: who is on which hosts until when, and what was promised to whom."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.availability.timeline import Stay
from one_preempt.core.ends_without_duration import leaving_until_s, overrun_until_s
from one_preempt.core.image_staging.copied_images import copies_s
from one_preempt.core.image_staging.image_staging_rules import ImageStagingRules
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.lease import Lease, LeaseState
from one_preempt.core.model.plan import Preemption
from one_preempt.core.model.reservation import Reservation, Verdict
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.overhead.planning import leave_s, start_s
from one_preempt.core.overhead.rates import RatesByStorage
from one_preempt.core.policies import Policies
from one_preempt.core.suspendable import are_on_shared_storage, ways_out
from one_preempt.core.victims import is_guarded

Amounts = tuple[int, int]
_amounts_of = attrgetter("cpu_centi", "memory_mib")

# What the queue promised does not hold for who waits no more, and may never again.
OUT_OF_QUEUE = frozenset({LeaseState.INCOMPLETE, LeaseState.REFUSED, LeaseState.PAUSED_BY_OWNER})
# It is on its hosts until somebody does something about it, whatever its DURATION.
_STUCK = frozenset({LeaseState.FAILED, LeaseState.PAUSED_BY_OWNER})


class Circumstances(Struct, frozen=True):
    """What concerns all leases: `resting` VMs are suspended in place, for `preemptors` room is being made.

    `victims` are the leases that were chosen to leave for them, and have not left yet.
    """

    state: ClusterState
    policies: Policies
    rates: RatesByStorage
    resting: frozenset[int]
    preemptors: Mapping[int, Preemption]
    victims: frozenset[int]


class LeaseRoom(Struct, frozen=True):
    """The stays of one lease, and what its hosts offer more than oned's books say, by row: for all, and firmly.

    `lasts`: the free space of a host's own disks changes nothing about it, nor does time alone before `until_s`, or
    before a stay begins or ends.
    """

    stays: tuple[Stay, ...] = ()
    rows: tuple[int, ...] = ()
    more: tuple[Amounts, ...] = ()
    firm_rows: tuple[int, ...] = ()
    firmly_more: tuple[Amounts, ...] = ()
    lasts: bool = True
    until_s: int | None = None


NO_ROOM = LeaseRoom()


def is_return_promised(lease: Lease) -> bool:
    """It was suspended as often as it may be, and is best effort (SR11). What never had to leave does not return, nor
    is what has had its DURATION owed a return, or is paused in part: who of it will return when is up to its owner."""
    if lease.paused_vm_ids:
        return False
    return is_guarded(lease) and lease.preemptions > 0 and lease.terms.type.best_effort and not lease.is_served


def has_promised_start(lease: Lease, *, accepted: bool) -> bool:
    """A reservation decides about its next start, not the queue: an accepted one, or that of its return (SR11)."""
    # An advance reservation that has run and gave way is best effort from then on, if its type says so. Who has had his
    # DURATION has had what he was promised: if his VM is resumed, nobody knows until when to keep room for it.
    # Of what was sent out and is paused in part, who will return is up to its owner.
    returns_by_deadline = lease.terms.deadline_at_s is not None and not lease.paused_vm_ids
    still_counts = (returns_by_deadline or lease.preempted_by is None) and not lease.is_served
    if accepted and still_counts and lease.terms.asks_for_time and not lease.terms.at_once:
        return True
    return is_return_promised(lease)


def keeps_reservations(lease: Lease) -> bool:
    """What was booked firmly for it holds. Its owner may have dropped since what it was booked for, or has had it."""
    return (lease.verdict is Verdict.ACCEPTED and not lease.is_served) or is_return_promised(lease)


def lease_room(circumstances: Circumstances, lease: Lease, reserved: tuple[Reservation, ...]) -> LeaseRoom:
    """What one lease has and is promised; nothing of it where its end is not known and it gives way to nobody."""
    state, policies = circumstances.state, circumstances.policies
    if reserved and not keeps_reservations(lease):
        reserved = tuple(one for one in reserved if not one.firm)
    if reserved and lease.state in OUT_OF_QUEUE:
        reserved = tuple(one for one in reserved if one.firm)
    is_preemptor = lease.id in circumstances.preemptors
    leaves = lease.state is LeaseState.LEAVING
    if not (lease.terms.duration_s or lease.terms.type.preemptable or reserved or is_preemptor or leaves):
        return NO_ROOM
    is_waiting = lease.state is LeaseState.WAITING
    if is_waiting and not (reserved or is_preemptor):
        return NO_ROOM
    vms = [state.snapshot.vms[vm_id] for vm_id in lease.vm_ids]
    index, resting = state.hosts.index_by_id, circumstances.resting
    on_hosts = [] if is_waiting else [vm for vm in vms if vm.host_id in index and vm.id not in resting]
    rows: list[int] = []
    firm_rows, firmly_more = _given_back_resting(circumstances, lease, vms)
    amounts = amounts_of(on_hosts)
    known: list[Stay] = []
    lasts, until_s = are_on_shared_storage(state.snapshot, vms), None
    if on_hosts:
        # A victim's room is its preemptor's already, whoever else may not be suspended; one that failed stays there.
        is_victim = lease.id in circumstances.victims and lease.state is not LeaseState.FAILED
        gives_way = is_victim or ways_out(state, policies, lease) is not None
        runs_from_s = lease.run_began_at_s
        if runs_from_s is None:
            runs_from_s = _runs_from_s(circumstances, lease, on_hosts)
            until_s = runs_from_s + 1
        elif lease.state in _STUCK:
            # It is not expected to end then, but may have to make room from then on as whatever overruns.
            until_s = lease.expected_end_at_s
        running, lasts_on = _running_stay(
            circumstances, lease, on_hosts, runs_from_s, reserved, amounts, gives_way=gives_way
        )
        lasts = lasts and lasts_on
        if running.end_s is not None:
            rows += running.host_rows
            known.append(running)
        if gives_way or (running.end_s is not None and running.firm):
            firm_rows, firmly_more = firm_rows + running.host_rows, firmly_more + amounts
    elif is_preemptor:
        known += _arriving_stays(circumstances, lease, vms, reserved)
    if reserved:
        known += _reserved_stays(state, lease, vms, reserved, known)
    return LeaseRoom(tuple(known), tuple(rows), amounts if rows else (), firm_rows, firmly_more, lasts, until_s)


def _given_back_resting(
    circumstances: Circumstances, lease: Lease, vms: Sequence[VirtualMachine]
) -> tuple[tuple[int, ...], tuple[Amounts, ...]]:
    """What rests on its host takes no room until it returns, and gives way to what is firm as it would while it ran.

    The queue does not count on its room: oned's books keep everybody out that is not its preemptor.
    """
    resting = [vm for vm in vms if vm.id in circumstances.resting] if circumstances.resting else []
    if not resting or is_guarded(lease) or lease.promised_deadline_at_s is not None:
        return (), ()
    index = circumstances.state.hosts.index_by_id
    there = [vm for vm in resting if vm.history[-1].host_id in index]
    return tuple(index[vm.history[-1].host_id] for vm in there), amounts_of(there)


def needed_s(policies: Policies, rates: RatesByStorage, lease: Lease, vms: Sequence[VirtualMachine]) -> int | None:
    """For how long a lease that starts now takes its room, until its VMs run included; None where nobody knows."""
    if lease.foreseen_s is None:
        return None
    takes_s = start_s(vms, rates, policies.time.exclusion) + lease.foreseen_s
    return takes_s if policies.images is None else takes_s + _copies_s(policies.images, lease, vms)


def _copies_s(rules: ImageStagingRules, lease: Lease, vms: Sequence[VirtualMachine]) -> int:
    """What its VMs wait for images; those of who has an exact start are brought before."""
    asked_for_start = lease.terms.start_at_s is not None and lease.terms.deadline_at_s is None
    has_exact_start = asked_for_start and lease.verdict is not Verdict.CONVERTED
    return 0 if has_exact_start else copies_s(rules, vms)


def amounts_of(vms: Sequence[VirtualMachine]) -> tuple[Amounts, ...]:
    """What each VM takes: CPU in hundredths, MiB."""
    return tuple(map(_amounts_of, vms))


def _running_stay(
    circumstances: Circumstances,
    lease: Lease,
    vms: list[VirtualMachine],
    runs_from_s: int,
    reserved: Sequence[Reservation],
    amounts: tuple[Amounts, ...],
    *,
    gives_way: bool,
) -> tuple[Stay, bool]:
    """From when it came until its expected end, or the end of its slot; and whether it is so in the next cycle as well.

    What outlives its time, and nobody knows for how long, is expected to end any second, by the queue; nothing firm is
    promised in its place.
    """
    state = circumstances.state
    now_s = state.now_s
    began_at_s = _came_at_s(vms)
    end_at_s = lease.expected_end_at_s
    if lease.run_began_at_s is None and lease.foreseen_s is not None:
        end_at_s = runs_from_s + lease.foreseen_s
    if lease.state in _STUCK:
        end_at_s = None
    leaves, is_victim = lease.state is LeaseState.LEAVING, lease.id in circumstances.victims
    leaving_s = None
    if leaves and not is_victim:
        leaving_s = leaving_until_s(state, circumstances.policies, circumstances.rates, vms)
        end_at_s = end_at_s if leaving_s is None else leaving_s
    has_outlived, is_endless = end_at_s is not None and end_at_s <= now_s, False
    if has_outlived:
        until_s = overrun_until_s(state, circumstances.policies, circumstances.rates, lease, vms)
        end_at_s, is_endless = until_s or now_s + 1, until_s is None
    else:
        leaves = leaves or is_victim
        bounds = _bounds_of_slots(reserved, now_s, leaves=leaves) if leaves or len(reserved) > 1 else ()
        end_at_s = min([*bounds, *([] if end_at_s is None else [end_at_s])], default=None)
    index = state.hosts.index_by_id
    rows = tuple([index[vm.history[-1].host_id] for vm in vms])
    firm = not gives_way and not is_endless
    return Stay(lease.id, min(began_at_s, now_s), end_at_s, rows, amounts, firm), leaving_s is None and not has_outlived


def _came_at_s(vms: Sequence[VirtualMachine]) -> int:
    return max([vm.history[-1].start_at_s for vm in vms])


def _runs_from_s(circumstances: Circumstances, lease: Lease, vms: Sequence[VirtualMachine]) -> int:
    """When what is on its hosts runs: after all the time that a start takes. What takes longer takes twice as long.

    Else twice that, and so on: it is not said anew in every cycle, and whoever waits behind it is not told so.
    """
    came_at_s, now_s = _came_at_s(vms), circumstances.state.now_s
    policies = circumstances.policies
    takes_s = start_s(vms, circumstances.rates, policies.time.exclusion)
    if policies.images is not None:
        takes_s += _copies_s(policies.images, lease, vms)
    while came_at_s + takes_s < now_s:
        takes_s = max(1, 2 * takes_s)
    return came_at_s + takes_s


def _bounds_of_slots(reserved: Sequence[Reservation], now_s: int, *, leaves: bool) -> Iterator[int]:
    """The end of the slot that is due, and the start of the next ones: what is being stopped does not run into them.

    None before the first, and once the last has begun, but for what `leaves` already: nobody makes it leave then,
    though it may still be on the hosts of an earlier one.
    """
    have_begun = [one.start_at_s <= now_s for one in reserved if one.firm]
    if not leaves and (all(have_begun) or not any(have_begun)):
        return
    for one in reserved:
        if one.firm and one.start_at_s > now_s:
            yield one.start_at_s
        elif one.firm and one.end_at_s is not None and one.end_at_s > now_s:
            yield one.end_at_s


def promised_from_s(lease: Lease, reserved: Sequence[Reservation]) -> int:
    """When what was promised a time begins: at its START, or in its first slot before a DEADLINE; 0 for others."""
    if lease.verdict is not Verdict.ACCEPTED:
        return 0
    has_slot = lease.terms.deadline_at_s is not None and bool(reserved) and reserved[0].firm
    return reserved[0].start_at_s if has_slot else lease.terms.start_at_s or 0


def _arriving_stays(
    circumstances: Circumstances, lease: Lease, vms: Sequence[VirtualMachine], reserved: Sequence[Reservation]
) -> list[Stay]:
    """Room is being made for it: nobody else is to count on that room until it is done, which begins once all left."""
    state, policies, rates = circumstances.state, circumstances.policies, circumstances.rates
    preemption = circumstances.preemptors[lease.id]
    by_id = {vm.id: vm for vm in vms}
    coming = [(one, by_id[one.vm_id]) for one in preemption.placements if one.vm_id in by_id]
    if not coming or any(one.host_id not in state.hosts.index_by_id for one, _ in coming):
        return []
    start_at_s = max(state.now_s, promised_from_s(lease, reserved))
    takes_s = needed_s(policies, rates, lease, [vm for _, vm in coming])
    rows = tuple(state.hosts.index_by_id[one.host_id] for one, _ in coming)
    known = state.snapshot.vms
    leaving = [(known[one.vm_id], one.method) for one in preemption.victims if one.vm_id in known]
    leaves_s = leave_s(leaving, rates, policies.time.exclusion, policies.limits.victims_in_flight)
    left_at_s = preemption.decided_at_s + policies.time.grace_s + leaves_s
    end_at_s = None if takes_s is None else max(start_at_s, left_at_s) + takes_s
    return [Stay(lease.id, start_at_s, end_at_s, rows, amounts_of([vm for _, vm in coming]), firm=True)]


def _reserved_stays(
    state: ClusterState,
    lease: Lease,
    vms: Sequence[VirtualMachine],
    reserved: Sequence[Reservation],
    known: Sequence[Stay],
) -> list[Stay]:
    """What it was promised beyond the stay that it has; of what was firm what is left, where a host of it is lost."""
    on_hosts = lease.state is not LeaseState.WAITING and any(vm.host_id is not None for vm in vms)
    if known and not on_hosts:
        return []
    coming = list(reserved)
    if on_hosts:
        # What the queue was promised was for all of its VMs: what waits of a gang yet is promised another start.
        not_before_s = _behind_until_s(state, lease, vms, known)
        coming = [one for one in reserved if one.firm and one.start_at_s >= not_before_s]
    coming = _ahead(lease, [one for one in coming if not _was_cut_short(lease, one)], state.now_s)
    rows_by_host: Mapping[int, int] = state.hosts.index_by_id
    stays, amounts, is_displaced = [], amounts_of(vms), False
    for one in coming:
        rows = [rows_by_host.get(host_id) for host_id in hosts_of_members(state, lease, one)]
        usable = [row for row in rows if row is not None and state.hosts.accepts_vms[row]]
        takes, left = amounts, tuple[int, ...]()
        if (one.host_ids or one.firm) and len(usable) != len(vms):
            if not one.firm or len(rows) != len(vms):
                return []
            is_displaced = True
            takes = tuple(amount for row, amount in zip(rows, amounts, strict=True) if row in usable)
            left = tuple(vm_id for row, vm_id in zip(rows, lease.vm_ids, strict=True) if row in usable)
        where = lease.id, one.start_at_s, one.end_at_s, tuple(usable), takes
        stays.append(Stay(*where, one.firm, promise=not one.firm, vm_ids=left))
    return _as_displaced(lease, stays) if is_displaced else stays


def hosts_of_members(state: ClusterState, lease: Lease, one: Reservation) -> tuple[int, ...]:
    """The promised host of each VM that is left of the lease, where that is known: else of all that it once had."""
    record = state.records.get(lease.id)
    if record is None or len(one.host_ids) == len(lease.vm_ids) or len(one.host_ids) != len(record.vm_ids):
        return one.host_ids
    left = frozenset(lease.vm_ids)
    return tuple([host_id for vm_id, host_id in zip(record.vm_ids, one.host_ids, strict=True) if vm_id in left])


def _as_displaced(lease: Lease, stays: Iterable[Stay]) -> list[Stay]:
    """A host that is lost for a moment gives nobody a claim to the rest: it is kept until others are found."""
    firm = [stay for stay in stays if stay.firm and stay.host_rows]
    return [replace(stay, displaced=True, vm_ids=stay.vm_ids or lease.vm_ids) for stay in firm]


def left_of_promise(state: ClusterState, lease: Lease, reserved: tuple[Reservation, ...]) -> tuple[Stay, ...]:
    """What is kept for a lease that is on no host while other hosts are looked for: all that was promised firmly."""
    if not keeps_reservations(lease):
        return ()
    vms = [state.snapshot.vms[vm_id] for vm_id in lease.vm_ids]
    return tuple(_as_displaced(lease, _reserved_stays(state, lease, vms, reserved, ())))


def _behind_until_s(state: ClusterState, lease: Lease, vms: Sequence[VirtualMachine], known: Sequence[Stay]) -> int:
    """What it was promised to begin before then is behind a lease that has VMs on hosts.

    Nothing to come is, before the whole gang is there: its time has not begun. Else all that has begun is, in its very
    second as well. How long a start takes does not count, for it runs no longer than its DURATION.
    """
    if any(vm.host_id is None for vm in vms):
        return state.now_s
    ends_s = [stay.end_s or 0 for stay in known]
    if lease.run_began_at_s is None and lease.remaining_s is not None:
        ends_s = [min(end_s, known[0].start_s + lease.remaining_s) for end_s in ends_s]
    return max([state.now_s + 1, *ends_s])


def _was_cut_short(lease: Lease, one: Reservation) -> bool:
    """The stay in which an advance reservation gave way: the rest of it is not kept, for it is best effort now."""
    if lease.preempted_by is None or lease.terms.deadline_at_s is not None:
        return False
    return one.start_at_s <= (lease.last_preempted_at_s or 0)


def _ahead(lease: Lease, coming: Sequence[Reservation], now_s: int) -> list[Reservation]:
    """What is not over; none of it where a slot went by unused and the others are too short for what is left."""
    ahead = [one for one in coming if one.end_at_s is None or one.end_at_s > now_s]
    if len(ahead) == len(coming) or any(one.end_at_s is None for one in ahead):
        return ahead
    length_s = sum((one.end_at_s or 0) - max(one.start_at_s, now_s) for one in ahead)
    return ahead if lease.remaining_s is not None and length_s >= lease.remaining_s else []
