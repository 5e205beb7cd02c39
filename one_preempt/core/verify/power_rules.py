"""What may never be done to the power of a host, counted from the plan and what was observed."""

from __future__ import annotations

from collections.abc import Iterator, Set

from one_preempt.core.model.host import HostState
from one_preempt.core.model.lease import Lease, LeaseState
from one_preempt.core.model.power_sequence import HostPowerStep, PowerPhase, PowerStepKind
from one_preempt.core.model.reservation import Reservation, Verdict
from one_preempt.core.verify.lease_over_time import (
    has_deadline_promised,
    recorded,
    slots,
    was_suspended_often_enough,
)
from one_preempt.core.verify.recount import ARRIVALS, Recount, Rule, Violation

_TO_SLEEP = frozenset({PowerStepKind.DISABLE, PowerStepKind.PUT_OFFLINE, PowerStepKind.SWITCH_OFF})
_TOWARDS_OFF = _TO_SLEEP | {PowerStepKind.CUT_POWER}
_IN_USE_OR_DISABLED = {
    HostState.MONITORED, HostState.MONITORING_MONITORED, HostState.DISABLED, HostState.MONITORING_DISABLED,
}  # fmt: skip
_FROM_STATES = {
    PowerStepKind.DISABLE: frozenset({HostState.MONITORED, HostState.MONITORING_MONITORED}),
    PowerStepKind.PUT_OFFLINE: frozenset({HostState.DISABLED}),
    PowerStepKind.SWITCH_OFF: frozenset({HostState.OFFLINE}),
    PowerStepKind.CUT_POWER: frozenset(HostState) - _IN_USE_OR_DISABLED,
    PowerStepKind.ENABLE: frozenset({HostState.DISABLED, HostState.OFFLINE}),
}


def _hosts_are_handed_over(recount: Recount) -> Iterator[Violation]:
    known = recount.state.power
    for step in recount.plan.power_steps:
        sequence = recount.power_then.get(step.host_id)
        if sequence is None or sequence.phase is PowerPhase.AWAKE:
            yield Violation("power-not-ours", f"{step.id}: nothing of ours is under way there")
        elif step.kind in _TOWARDS_OFF and step.host_id not in known.bounds.handed_over:
            yield Violation("power-not-handed-over", f"{step.id}: that host is not to be switched")


def _states_allow_the_step(recount: Recount) -> Iterator[Violation]:
    for step in recount.plan.power_steps:
        host = recount.hosts.get(step.host_id)
        allowed = _FROM_STATES.get(step.kind)
        if host is None or allowed is None:
            continue
        attempted = step.kind is PowerStepKind.DISABLE and _tried_before(recount, step)
        sequence = recount.power_then.get(step.host_id)
        # We disable nobody who boots.
        theirs = step.kind is PowerStepKind.ENABLE and sequence is not None and sequence.began_at_s > 0
        if (host.state not in allowed and not attempted) or (theirs and host.state is HostState.DISABLED):
            yield Violation("power-illegal-state", f"{step.id}: the host is {host.state.name}")
        if not step.expected_states or not set(step.expected_states) <= allowed:
            yield Violation("power-unchecked", f"{step.id} does not say in which state the host must be found")


def _tried_before(recount: Recount, step: HostPowerStep) -> bool:
    """It was asked for already, and what it did is not known: oned is asked the same once more."""
    sequence = recount.state.power.sequences.get(step.host_id)
    return sequence is not None and sequence.attempts > 0


def _nobody_is_switched_off(recount: Recount) -> Iterator[Violation]:
    for step in recount.plan.power_steps:
        host, sequence = recount.hosts.get(step.host_id), recount.power_then.get(step.host_id)
        if step.kind not in _TOWARDS_OFF or host is None or sequence is None:
            continue
        staying = recount.guests_of(host)
        if step.kind is PowerStepKind.DISABLE:
            staying = staying - set(sequence.emptied_vm_ids)
        if staying:
            yield Violation("power-in-use", f"{step.id}: VM {min(staying)} is on that host")
        if recount.state.snapshot.untraced_vm_ids and step.kind is not PowerStepKind.DISABLE:
            yield Violation("power-in-doubt", f"{step.id}: VMs exist of which nobody knows where they are")
        emptied = step.kind is PowerStepKind.DISABLE and sequence.emptied_vm_ids
        if not step.must_be_empty and not emptied:
            yield Violation("power-unchecked", f"{step.id} does not say that the host must be empty")


def _only_what_failed_loses_its_power(recount: Recount) -> Iterator[Violation]:
    """Power is cut only of a host that by our own books did not come up."""
    for step in recount.plan.power_steps:
        sequence = recount.state.power.sequences.get(step.host_id)
        if step.kind is PowerStepKind.CUT_POWER and (sequence is None or sequence.failures == 0):
            yield Violation("power-cut", f"{step.id}: that host did not fail to come up")


def _promised_room_stays_on(recount: Recount) -> Iterator[Violation]:
    """Nobody is sent to a host, or was promised it within the time of its boot, that goes to sleep."""
    going = {one.host_id for one in recount.plan.power_steps if one.kind in _TO_SLEEP}
    if not going:
        return
    coming = {one.host_id: one.id for one in recount.plan.actions if one.kind in ARRIVALS}
    ended = {end.preemption_id for end in recount.plan.ended_preemptions}
    going_on = [one for one in recount.preemptions.values() if one.id not in ended]
    for preemption in going_on:
        coming.update({one.host_id: f"preemption {preemption.id}" for one in preemption.placements})
    # For whom room is being made elsewhere the hosts that he was promised are free.
    elsewhere = {one.preemptor_lease_id for one in going_on}
    now_s, boots_s = recount.state.now_s, recount.state.power.bounds.boots_s
    woken_by_s = {host_id: now_s + boots_s.get(host_id, 0) for host_id in going}
    for lease_id in (recount.state.reservations.keys() | recount.booking_by_lease.keys()) - elsewhere:
        lease = recount.state.leases.get(lease_id)
        if lease is None or _has_its_hosts(recount, lease) or _is_best_effort_by_now(recount, lease):
            continue
        for slot in recorded(recount, lease, planned=True):
            near = [one for one in going.intersection(slot.host_ids) if slot.start_at_s <= woken_by_s[one]]
            is_over = slot.end_at_s is not None and slot.end_at_s <= now_s
            if slot.firm and near and not is_over and _has_all_hosts(recount, slot, going):
                coming.update(dict.fromkeys(near, f"lease {lease_id}"))
    for host_id in sorted(going & {one for one in coming if one is not None}):
        yield Violation("power-promised", f"host {host_id} goes to sleep, and {coming[host_id]} needs it")


def _has_all_hosts(recount: Recount, slot: Reservation, going: Set[int]) -> bool:
    """A promise of which a host is lost is looked for anew; one that goes to sleep is not lost yet."""
    hosts = [(host_id, recount.host_then(host_id)) for host_id in slot.host_ids]
    return all(host is not None and (host.accepts_vms or host_id in going) for host_id, host in hosts)


def _has_its_hosts(recount: Recount, lease: Lease) -> bool:
    """All its VMs are on hosts, come to some by this plan, or are gone: what was promised elsewhere is over.

    So it is with a lease that failed: nobody starts what is left of it before its owner has seen to it. Nor is a host
    kept for what its owner paused beside others that run.
    """
    if lease.state is LeaseState.FAILED:
        return True
    coming = {one.vm_id for one in recount.plan.actions if one.kind in ARRIVALS}
    there = {vm_id for vm_id in lease.vm_ids if vm_id in coming or recount.vms[vm_id].host_id is not None}
    return bool(there) and there.issuperset(set(lease.vm_ids).difference(lease.paused_vm_ids))


def _is_best_effort_by_now(recount: Recount, lease: Lease) -> bool:
    """It gave way, and what it was promised before is over."""
    kept = has_deadline_promised(recount, lease) or was_suspended_often_enough(lease)
    return lease.preempted_by is not None and not kept


def _begun(recount: Recount, phase: PowerPhase) -> list[int]:
    """The hosts of which the plan takes the sequence to a phase in which it was not."""
    before = recount.state.power.sequences
    return [
        one.host_id
        for one in recount.plan.power_sequences
        if one.phase is phase and (one.host_id not in before or before[one.host_id].phase is not phase)
    ]


def _the_floor_is_kept(recount: Recount) -> Iterator[Violation]:
    begun = _begun(recount, PowerPhase.DISABLING)
    if not begun:
        return
    bounds = recount.state.power.bounds
    staying = []
    for host_id in sorted(bounds.handed_over & recount.hosts.keys()):
        sequence = recount.power_then.get(host_id)
        leaving = sequence is not None and sequence.phase is PowerPhase.DISABLING
        if recount.hosts[host_id].accepts_vms and not leaving:
            staying.append(host_id)
    if len(staying) < bounds.floor:
        yield Violation("power-floor", f"host {begun[0]} goes to sleep, and fewer than {bounds.floor} stay on")


def _not_too_many_boot(recount: Recount) -> Iterator[Violation]:
    """Neither are more begun to be woken, nor are more told to start at once, whoever began with them."""
    then = recount.power_then
    most = recount.state.power.bounds.most_booting
    booting = [one for one in then.values() if one.began_at_s > 0 and one.is_coming]
    begun = _begun(recount, PowerPhase.SWITCHING_ON)
    if begun and len(booting) > most:
        yield Violation("power-boots", f"host {begun[0]} is woken, and {len(booting)} boot at once, {most} may")
    first = [one.host_id for one in recount.plan.power_steps if one.kind is PowerStepKind.SWITCH_ON]
    first = [host_id for host_id in first if host_id in then and then[host_id].attempts == 0]
    told = [one for one in booting if one.attempts > 0 or one.phase is not PowerPhase.SWITCHING_ON]
    if first and len(told) + len(first) > most:
        yield Violation("power-boots", f"host {first[-1]} is told to start while more boot than the {most} that may")


def _sleeping_hosts_can_boot_in_turns(recount: Recount) -> Iterator[Violation]:
    """What this plan accepts leaves to each that was promised a sleeping host the time to boot, so many at once.

    Counted as if all were as quick as the quickest, and nothing else booted: what fails that cannot be kept.
    """
    bounds, now_s = recount.state.power.bounds, recount.state.now_s
    accepted = {one.lease_id for one in recount.plan.verdicts if one.verdict is Verdict.ACCEPTED}
    if not accepted & recount.booking_by_lease.keys() or not bounds.most_booting or not bounds.quickest_boot_s:
        return
    lease_ids = (recount.state.reservations.keys() | recount.booking_by_lease.keys()) & recount.state.leases.keys()
    before, then = _sleepers_needed_by(recount, lease_ids - accepted), _sleepers_needed_by(recount, lease_ids)
    for by_s in sorted(set(then.values())):
        boots = bounds.most_booting * (max(by_s - now_s, 0) // bounds.quickest_boot_s)
        needed, needed_before = (sum(start_s <= by_s for start_s in one.values()) for one in (then, before))
        if needed > boots >= needed_before:
            text = f"{needed} hosts that sleep are promised {by_s - now_s} s from now, and {boots} can boot by then"
            yield Violation("power-turns", text)


def _sleepers_needed_by(recount: Recount, lease_ids: Set[int]) -> dict[int, int]:
    """By id of the hosts without power when the first of these leases was promised it."""
    found: dict[int, int] = {}
    leases = [recount.state.leases[lease_id] for lease_id in lease_ids]
    for lease in [one for one in leases if not _has_its_hosts(recount, one)]:
        for slot in slots(recount, lease, planned=True):
            for host_id in slot.host_ids:
                sequence = recount.state.power.sequences.get(host_id)
                if sequence is not None and sequence.phase in (PowerPhase.ASLEEP, PowerPhase.SWITCHING_OFF):
                    found[host_id] = min(found.get(host_id, slot.start_at_s), slot.start_at_s)
    return found


def _pause_is_respected(recount: Recount) -> Iterator[Violation]:
    for step in recount.plan.power_steps:
        if recount.state.paused and step.kind in _TOWARDS_OFF:
            yield Violation("paused", f"{step.id} while power actions are paused")


RULES: tuple[Rule, ...] = (
    _hosts_are_handed_over,
    _states_allow_the_step,
    _nobody_is_switched_off,
    _only_what_failed_loses_its_power,
    _promised_room_stays_on,
    _the_floor_is_kept,
    _not_too_many_boot,
    _pause_is_respected,
)
RULES_OF_PROMISES: tuple[Rule, ...] = (_sleeping_hosts_can_boot_in_turns,)
