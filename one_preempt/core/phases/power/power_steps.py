"""The next call for each host whose power is being changed, and what is undone because it is not wanted any more.

As with all actions the same call stands in every plan until its effect is seen. While power is paused, or the host is
not ours to switch any more, what did not take its power yet is undone, and what is on its way up comes up.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from one_preempt.core.host_power.phase_transitions import IN_USE, given_up, is_told_no_more
from one_preempt.core.host_power.power_columns import can_turn_back
from one_preempt.core.memory.lease_concerns import Concern
from one_preempt.core.model.cluster_state import IntArray
from one_preempt.core.model.host import HostState
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import ActionKind
from one_preempt.core.model.power import PowerStatus
from one_preempt.core.model.power_sequence import (
    ORDERED,
    HostPowerStep,
    PowerGoal,
    PowerOrder,
    PowerPhase,
    PowerSequence,
    PowerStepKind,
)
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.power.power_draft import PowerDraft, disable_step, power_step, withdrawn

# How soon it is looked again for the effect of a call to oned, and of an order to a power controller.
LOOK_AGAIN_S = 1
READ_AGAIN_S = 5
# How long before a host is to be enabled it is looked whether it has power.
LOOKS_BEFORE_S = 10
_NEXT_AT_ONCE = frozenset({
    PowerPhase.DISABLING, PowerPhase.EMPTYING, PowerPhase.GOING_OFFLINE, PowerPhase.CHECKING,
})  # fmt: skip
_ARRIVING_KINDS = frozenset({ActionKind.DEPLOY, ActionKind.MIGRATE, ActionKind.LIVE_MIGRATE})
_BOTH_OFF_STATES = (HostState.DISABLED, HostState.OFFLINE)
# As OpenNebula sees a host that it was told to use, and that never came up.
_ENABLED_NOT_UP_STATES = (
    HostState.INIT, HostState.ERROR, HostState.MONITORING_INIT, HostState.MONITORING_ERROR,
)  # fmt: skip


def take_orders_to_wake(draft: PlanDraft) -> None:
    """Wake what administrators ordered on, as far as it can be done; while power actions are paused orders wait."""
    power = draft.power
    if power is None:
        return
    for host_id, order in sorted(power.known.orders.items()):
        row = draft.state.hosts.index_by_id.get(host_id)
        if row is None:
            if host_id not in draft.state.snapshot.unreadable_host_ids:
                power.settled_orders.append(host_id)
        elif order.goal is PowerGoal.ON and not power.paused and _is_settled(power, row, order):
            power.settled_orders.append(host_id)


def _is_settled(power: PowerDraft, row: int, order: PowerOrder) -> bool:
    """It was taken up, or there is nothing to do about it.

    An order to wake waits until not too many boot, and until the host has done what it was just told.
    """
    if not power.can_wake(row, ordered=True):
        sequence = power.sequences.get(order.host_id)
        return sequence is None or sequence.phase not in (PowerPhase.DISABLING, PowerPhase.SWITCHING_OFF)
    return power.wake(row, ORDERED, "an administrator ordered it on")


def take_orders_to_sleep(draft: PlanDraft, power: PowerDraft) -> None:
    """Let sleep what administrators ordered off and nobody uses; after placing, for somebody may just go there."""
    if power.paused:
        return
    for host_id, order in sorted(power.known.orders.items()):
        row = draft.state.hosts.index_by_id.get(host_id)
        if order.goal is not PowerGoal.OFF or row is None:
            continue
        if power.switchable[row] and power.spare > 0 and unused_rows(draft, power, np.array([row])):
            power.let_sleep(row, ORDERED, "an administrator ordered it off")
        power.settled_orders.append(host_id)


def unused_rows(draft: PlanDraft, power: PowerDraft, rows: IntArray) -> list[int]:
    """Of these rows those on which nobody is, and to which nobody goes or is about to go."""
    hosts = draft.state.hosts
    free = rows[~power.columns.occupied[rows]].tolist()
    if not free:
        return []
    busy = {action.host_id for action in draft.actions}
    busy |= {record.host_id for record in draft.state.actions.values()}
    going_on = (*(opened.preemption for opened in draft.state.preemptions), *draft.preemptions)
    busy |= {placement.host_id for preemption in going_on for placement in preemption.placements}
    there = power.guests.host_ids
    return [row for row in free if (host_id := hosts.hosts[row].id) not in busy and host_id not in there]


def continue_power(draft: PlanDraft) -> None:
    """Take every host one step further, or back."""
    power = draft.power
    if power is None:
        return
    needed, taken = _needed_soon(draft, power), _taken_meanwhile(draft, power)
    index = draft.state.hosts.index_by_id
    for host_id in sorted(_under_way(power)):
        row, sequence = index.get(host_id), power.sequences[host_id]
        if row is None:
            continue
        wanted = power.rules.enforced and not power.paused and bool(power.columns.handed_over[row])
        if not wanted:
            current = _undone(sequence, power.now_s, "power actions are paused, or it is not to be switched any more")
        elif row in needed:
            wanted, current = False, _undone(sequence, power.now_s, "it was promised, and is needed soon")
        elif host_id in taken:
            # Where it may be disabled yet, by a call that nobody has answered, it stays ours: it is enabled again then.
            text = "a VM is on it, or comes to it: it is left on"
            wanted, current = False, sequence if sequence.attempts else withdrawn(sequence, power.now_s, IN_USE, text)
        else:
            current = sequence
        power.write(current)
        if current.phase is not PowerPhase.AWAKE:
            for step in _steps(power, current, power.host(row).state, wanted=wanted):
                power.take(step)
            _look_again(draft, power, current)


def _under_way(power: PowerDraft) -> list[int]:
    """The hosts with which something is to be done: not those in use, and those asleep only if they are looked at."""
    at_rest = (PowerPhase.AWAKE,) if power.rules.asleep_reading_s else (PowerPhase.AWAKE, PowerPhase.ASLEEP)
    return [host_id for phase in PowerPhase if phase not in at_rest for host_id in power.columns.in_phase(phase)]


def _needed_soon(draft: PlanDraft, power: PowerDraft) -> set[int]:
    """The rows that were promised firmly to somebody who starts before they could be up again."""
    on_their_way = np.flatnonzero(power.columns.leaving).tolist()
    if not on_their_way:
        return set()
    takes_s = max(power.rules.up_after_s(power.host(row)) for row in on_their_way)
    soon_s = power.now_s + takes_s + draft.policies.time.preparation_margin_s
    return {
        row
        for lease_id in draft.concerns.all(Concern.TIME)
        for stay in draft.timeline.stays.get(lease_id, ())
        if stay.firm and stay.start_s <= soon_s
        for row in stay.host_rows
    }


def _taken_meanwhile(draft: PlanDraft, power: PowerDraft) -> set[int]:
    """The hosts on which somebody is, or to which somebody goes, though an earlier cycle was to disable them.

    Its process died before that, or nothing was answered: until it is seen to be disabled it takes VMs.
    """
    earlier = power.known.sequences
    begun = [one for one in power.columns.in_phase(PowerPhase.DISABLING) if one in earlier]
    begun = [host_id for host_id in begun if earlier[host_id].phase is PowerPhase.DISABLING]
    if not begun:
        return set()
    going_on = (*(opened.preemption for opened in draft.state.preemptions), *draft.preemptions)
    coming: set[int | None] = {action.host_id for action in draft.actions if action.kind in _ARRIVING_KINDS}
    coming |= {one.host_id for one in draft.state.actions.values() if one.kind in _ARRIVING_KINDS}
    coming |= {placement.host_id for preemption in going_on for placement in preemption.placements}
    index = draft.state.hosts.index_by_id
    there = {one: power.guests.on(power.host(index[one])) for one in begun if one in index}
    return {one for one, vms in there.items() if one in coming or vms.difference(earlier[one].emptied_vm_ids)}


def _undone(sequence: PowerSequence, now_s: int, why: str) -> PowerSequence:
    """What is not wanted any more, and did not take the host's power yet, is taken back."""
    if sequence.phase is PowerPhase.DISABLING and sequence.attempts == 0:
        return withdrawn(sequence, now_s, "unwanted", why)
    return given_up(sequence, now_s, "unwanted", why) if can_turn_back(sequence) else sequence


def _steps(power: PowerDraft, sequence: PowerSequence, state: HostState, *, wanted: bool) -> Iterator[HostPowerStep]:
    match sequence.phase:
        case PowerPhase.DISABLING if wanted:
            yield disable_step(sequence)
        case PowerPhase.GOING_OFFLINE:
            yield power_step(sequence, PowerStepKind.PUT_OFFLINE, (HostState.DISABLED,), must_be_empty=True)
        case PowerPhase.SWITCHING_OFF:
            off = power_step(sequence, PowerStepKind.SWITCH_OFF, (HostState.OFFLINE,), must_be_empty=True)
            rests = sequence.rests_at(power.now_s) or is_told_no_more(sequence, power.rules, power.now_s)
            yield from _order(power, sequence, off, allowed=wanted and not rests)
        case PowerPhase.ASLEEP if _reading_is_due(power, sequence):
            yield power_step(sequence, PowerStepKind.READ_POWER)
        case PowerPhase.SWITCHING_ON if _still_goes_down(power, sequence):
            yield power_step(sequence, PowerStepKind.READ_POWER)
        case PowerPhase.SWITCHING_ON:
            on = power_step(sequence, PowerStepKind.SWITCH_ON)
            may_begin = not power.paused and power.may_start_one_more()
            yield from _order(power, sequence, on, allowed=sequence.attempts > 0 or may_begin)
        case PowerPhase.CUTTING_POWER:
            states = _ENABLED_NOT_UP_STATES if sequence.enabled else (HostState.OFFLINE, *_ENABLED_NOT_UP_STATES)
            cut = power_step(sequence, PowerStepKind.CUT_POWER, states, must_be_empty=True)
            yield from _order(power, sequence, cut, allowed=wanted)
        case PowerPhase.ENABLING if state in _BOTH_OFF_STATES:
            yield from _enable(power, sequence, state)


def _still_goes_down(power: PowerDraft, sequence: PowerSequence) -> bool:
    """An order to start means nothing to what has its power yet and is on the way down."""
    if _was_read(power, sequence, PowerStatus.OFF):
        return False
    return sequence.may_lose_power(power.now_s, power.rules.shutdown_timeout_s)


def _was_read(power: PowerDraft, sequence: PowerSequence, status: PowerStatus) -> bool:
    """That was the last reading of its power, taken in this phase."""
    report = power.known.readings.get(sequence.host_id)
    return report is not None and report.status is status and report.asked_at_s >= sequence.since_s


def _order(
    power: PowerDraft, sequence: PowerSequence, step: HostPowerStep, *, allowed: bool
) -> Iterator[HostPowerStep]:
    """The order, or else, once it was given, a look at the host."""
    if allowed and _order_is_due(power, sequence):
        yield step
    elif sequence.attempts > 0:
        yield power_step(sequence, PowerStepKind.READ_POWER)


def _enable(power: PowerDraft, sequence: PowerSequence, state: HostState) -> Iterator[HostPowerStep]:
    """A host that never lost its power is enabled at once; another one once its boot is over, if it still has power.

    What shuts down later than it was waited for would lose it while OpenNebula counts on it.
    """
    enabled_at_s = _enabled_at_s(power, sequence)
    if power.now_s >= enabled_at_s and (_was_read(power, sequence, PowerStatus.ON) or not sequence.began_at_s):
        yield power_step(sequence, PowerStepKind.ENABLE, (state,))
    elif power.now_s >= enabled_at_s - LOOKS_BEFORE_S:
        yield power_step(sequence, PowerStepKind.READ_POWER)


def _order_is_due(power: PowerDraft, sequence: PowerSequence) -> bool:
    """It was not given, or its answer was lost, or was none, and a look at the host since then did not show its effect.

    One call a host is under way at a time, so that either the order is given or the host is looked at.
    """
    if sequence.attempts == 0 or sequence.outcome_at_s is None:
        return True
    report = power.known.readings.get(sequence.host_id)
    looked = report is not None and report.asked_at_s >= sequence.outcome_at_s
    return looked and sequence.outcome is not Outcome.ACCEPTED


def _enabled_at_s(power: PowerDraft, sequence: PowerSequence) -> int:
    """When the host is enabled: once its boot is over, or at once where it never lost its power."""
    if not sequence.began_at_s:
        return sequence.since_s
    after_s = power.rules.enable_after_s
    row = power.observed.hosts.index_by_id[sequence.host_id]
    return sequence.began_at_s + (power.rules.power_of(power.host(row)).boot_s if after_s is None else after_s)


def _reading_is_due(power: PowerDraft, sequence: PowerSequence) -> bool:
    period_s, report = power.rules.asleep_reading_s, power.known.readings.get(sequence.host_id)
    read_at_s = sequence.since_s if report is None else max(report.asked_at_s, sequence.since_s)
    return period_s > 0 and power.now_s - read_at_s >= period_s


def _look_again(draft: PlanDraft, power: PowerDraft, sequence: PowerSequence) -> None:
    soon_s = power.now_s + (LOOK_AGAIN_S if sequence.attempts == 0 else READ_AGAIN_S)
    match sequence.phase:
        case phase if phase in _NEXT_AT_ONCE:
            draft.wake_by(power.now_s + LOOK_AGAIN_S)
        case PowerPhase.ASLEEP:
            draft.wake_by(power.now_s + power.rules.asleep_reading_s)
        case PowerPhase.ENABLING:
            looks_at_s = _enabled_at_s(power, sequence) - LOOKS_BEFORE_S
            draft.wake_by(looks_at_s if power.now_s < looks_at_s else power.now_s + READ_AGAIN_S)
        case PowerPhase.SWITCHING_OFF:
            draft.wake_by(max(sequence.not_before_s, soon_s))
        case PowerPhase.SWITCHING_ON | PowerPhase.CUTTING_POWER:
            draft.wake_by(soon_s)
        case PowerPhase.FAILED:
            draft.wake_by(sequence.not_before_s)
