"""How the power of one host goes on: from the phase of its sequence to the next, by what was seen of the host.

A phase is left when its effect is seen, and only one phase is left with one observation: what must still hold after
that effect is seen in an observation that began later. Nothing here depends on what this process did before.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.energy.power_rules import PowerRules
from one_preempt.core.model.host import Host, HostState
from one_preempt.core.model.outcome import NOTHING_DONE, Outcome
from one_preempt.core.model.power import PowerStatus
from one_preempt.core.model.power_sequence import (
    LOSING_POWER,
    PowerPhase,
    PowerReport,
    PowerSequence,
)
from one_preempt.core.reconciliation.observation import SETTLING_S

# What is to be switched on and was not told to yet has its boot counted from so long before at most.
CLOCK_RESTARTS_S = 60
# The same of what is put to power control, which says DROPPED of a host that changed hands.
_NOTHING_CAME_OF_IT = (Outcome.REFUSED, Outcome.HELD_BACK)
# Codes for `reason_code` of what is not begun by a plan.
TAKEN_OVER = "taken-over"
IN_USE = "in-use"
FAILED = "failed"
DONE = "done"
POWER_CAME = "came"
STUCK = "stuck"
"""It was given power, and hangs in its boot."""
_CANNOT = {
    PowerPhase.SWITCHING_OFF: "it cannot be switched off",
    PowerPhase.SWITCHING_ON: "it cannot be switched on",
    PowerPhase.CUTTING_POWER: "its power cannot be cut",
}


class HostSight(Struct, frozen=True):
    """One host as it is seen now; `vm_ids` are those on it, None where VMs exist that could not be read."""

    host: Host
    vm_ids: frozenset[int] | None
    report: PowerReport | None

    @property
    def is_empty(self) -> bool:
        """Surely nobody is on it."""
        return self.vm_ids is not None and not self.vm_ids

    def status_since(self, instant_s: int) -> PowerStatus:
        """Whether it has power, as read not before an instant."""
        if self.report is None or self.report.status is None or self.report.asked_at_s < instant_s:
            return PowerStatus.UNKNOWN
        return self.report.status


def observed(sequence: PowerSequence, sight: HostSight, rules: PowerRules, now_s: int) -> PowerSequence:
    """Where one sequence stands, now that its host was seen."""
    match sequence.phase:
        case PowerPhase.AWAKE:
            return sequence
        case PowerPhase.DISABLING:
            return _disabling(sequence, sight, rules, now_s)
        case PowerPhase.EMPTYING:
            return _emptying(sequence, sight, rules, now_s)
        case PowerPhase.GOING_OFFLINE:
            return _going_offline(sequence, sight, rules, now_s)
        case PowerPhase.CHECKING:
            return _checking(sequence, sight, now_s)
        case PowerPhase.SWITCHING_OFF:
            return _switching_off(sequence, sight, rules, now_s)
        case PowerPhase.ASLEEP:
            return _asleep(sequence, sight, now_s)
        case PowerPhase.SWITCHING_ON:
            return _switching_on(sequence, sight, rules, now_s)
        case PowerPhase.ENABLING:
            return _enabling(sequence, sight, rules, now_s)
        case PowerPhase.FAILED:
            return _failed(sequence, sight, rules, now_s)
        case PowerPhase.CUTTING_POWER:
            return _cutting_power(sequence, sight, rules, now_s)


def by_this_clock(sequence: PowerSequence, now_s: int) -> PowerSequence:
    """The same, where a clock that has been set back since has put its instants into the future: they are now.

    What is under way has its times from now on, a pause is over. Of what is at rest it is still said since when.
    """
    if max(sequence.since_s, sequence.began_at_s, sequence.outcome_at_s or 0) <= now_s:
        return sequence
    is_at_rest = sequence.phase in (PowerPhase.AWAKE, PowerPhase.ASLEEP)
    answered_at_s = sequence.outcome_at_s
    after = replace(
        sequence,
        since_s=sequence.since_s if is_at_rest else min(sequence.since_s, now_s),
        began_at_s=min(sequence.began_at_s, now_s),
        outcome_at_s=None if answered_at_s is None else min(answered_at_s, now_s),
        not_before_s=0,
    )
    return sequence if after == sequence else after


def entered(sequence: PowerSequence, phase: PowerPhase, now_s: int, code: str, text: str) -> PowerSequence:
    """The same sequence in another phase; nothing was called for that yet."""
    emptied_vm_ids = sequence.emptied_vm_ids if phase is PowerPhase.EMPTYING else ()
    enabled = sequence.enabled and phase is not PowerPhase.AWAKE
    return replace(
        sequence,
        phase=phase,
        since_s=now_s,
        reason_code=code,
        reason_text=text,
        attempts=0,
        outcome=None,
        outcome_at_s=None,
        answer_text="",
        emptied_vm_ids=emptied_vm_ids,
        enabled=enabled,
    )


def next_phase(sequence: PowerSequence, phase: PowerPhase, now_s: int) -> PowerSequence:
    """The phase that follows, for the reason that the sequence has."""
    return entered(sequence, phase, now_s, sequence.reason_code, sequence.reason_text)


def given_up(sequence: PowerSequence, now_s: int, code: str, text: str) -> PowerSequence:
    """The host is to be used again: enabled at once, for it never lost its power."""
    return replace(entered(sequence, PowerPhase.ENABLING, now_s, code, text), began_at_s=0)


def to_be_woken(sequence: PowerSequence, now_s: int, code: str, text: str) -> PowerSequence:
    """The host is to be switched on."""
    return replace(entered(sequence, PowerPhase.SWITCHING_ON, now_s, code, text), began_at_s=now_s, not_before_s=0)


def _taken_over(sequence: PowerSequence, now_s: int, seen: HostState) -> PowerSequence:
    text = f"somebody else has made it {seen.name}: it is left to them"
    return entered(sequence, PowerPhase.AWAKE, now_s, TAKEN_OVER, text)


def _without_order(after: PowerSequence, refused: PowerSequence, rules: PowerRules, now_s: int) -> PowerSequence:
    """Where a host stands `after` an order to its power control of which surely nothing came."""
    text = f"{_CANNOT[refused.phase]}: {refused.answer_text}"
    if refused.outcome is Outcome.HELD_BACK:
        # What failed before was counted then, and its pause is not over: this is no failure more.
        return replace(after, reason_code=FAILED, reason_text=text)
    return _with_failure(after, rules, now_s, text)


def _with_failure(sequence: PowerSequence, rules: PowerRules, now_s: int, text: str) -> PowerSequence:
    failures = sequence.failures + 1
    # Power control may want to be left alone for longer: asked before, it would hold the order back.
    pause_s = max(rules.pause_s(failures), sequence.not_before_s - now_s)
    return replace(sequence, failures=failures, not_before_s=now_s + pause_s, reason_code=FAILED, reason_text=text)


# -- on the way to sleep -------------------------------------------------------------------------------------


def _disabling(sequence: PowerSequence, sight: HostSight, rules: PowerRules, now_s: int) -> PowerSequence:
    state = sight.host.state
    if state is HostState.DISABLED:
        ours = sequence.attempts > 0 and sequence.outcome not in NOTHING_DONE
        return next_phase(sequence, PowerPhase.EMPTYING, now_s) if ours else _taken_over(sequence, now_s, state)
    if sequence.outcome is Outcome.REFUSED:
        text = f"OpenNebula does not disable it: {sequence.answer_text}"
        return _with_failure(next_phase(sequence, PowerPhase.AWAKE, now_s), rules, now_s, text)
    if sequence.outcome is Outcome.DROPPED:
        text = f"it was left on: {sequence.answer_text}"
        return entered(sequence, PowerPhase.AWAKE, now_s, DONE, text)
    if _was_accepted_a_while_ago(sequence, now_s):
        return _taken_over(sequence, now_s, state)
    others = (sight.vm_ids or frozenset()).difference(sequence.emptied_vm_ids)
    # What was asked and not answered may be done yet.
    may_come = sequence.attempts > 0 and 0 <= now_s - (sequence.outcome_at_s or sequence.since_s) < SETTLING_S
    if others and sight.host.accepts_vms and not may_come:
        return entered(sequence, PowerPhase.AWAKE, now_s, IN_USE, f"VM {min(others)} was put on it: it is left on")
    if not sight.host.accepts_vms and (sequence.attempts == 0 or now_s - sequence.since_s > rules.boot_timeout_s):
        return _taken_over(sequence, now_s, state)
    return sequence


def _was_accepted_a_while_ago(sequence: PowerSequence, now_s: int) -> bool:
    """Its effect would be seen by now, if nobody had undone it."""
    return sequence.outcome is Outcome.ACCEPTED and now_s - (sequence.outcome_at_s or 0) >= SETTLING_S


def _emptying(sequence: PowerSequence, sight: HostSight, rules: PowerRules, now_s: int) -> PowerSequence:
    if sight.host.state is not HostState.DISABLED:
        return _taken_over(sequence, now_s, sight.host.state)
    if sight.is_empty:
        return next_phase(sequence, PowerPhase.GOING_OFFLINE, now_s)
    others = sorted((sight.vm_ids or frozenset()) - set(sequence.emptied_vm_ids))
    if others:
        return given_up(sequence, now_s, IN_USE, f"VM {others[0]} was put on it: it is used again")
    if now_s - sequence.since_s > rules.emptying_timeout_s:
        return given_up(
            sequence, now_s, IN_USE, f"it was not empty after {rules.emptying_timeout_s} s: it is used again"
        )
    return sequence


def _going_offline(sequence: PowerSequence, sight: HostSight, rules: PowerRules, now_s: int) -> PowerSequence:
    state = sight.host.state
    if state is HostState.OFFLINE:
        ours = sequence.attempts > 0 and sequence.outcome not in NOTHING_DONE
        return next_phase(sequence, PowerPhase.CHECKING, now_s) if ours else _taken_over(sequence, now_s, state)
    if state is not HostState.DISABLED:
        return _taken_over(sequence, now_s, state)
    if sequence.outcome is Outcome.REFUSED:
        text = f"OpenNebula does not put it OFFLINE: {sequence.answer_text}"
        return _with_failure(given_up(sequence, now_s, FAILED, ""), rules, now_s, text)
    return sequence if sight.is_empty else _used_again(sequence, sight, now_s)


def _used_again(sequence: PowerSequence, sight: HostSight, now_s: int) -> PowerSequence:
    """Somebody is on it, or perhaps is."""
    if sight.vm_ids is None:
        return sequence
    return given_up(sequence, now_s, IN_USE, f"VM {min(sight.vm_ids)} was put on it: it is used again")


def _checking(sequence: PowerSequence, sight: HostSight, now_s: int) -> PowerSequence:
    if sight.host.state is not HostState.OFFLINE:
        return _taken_over(sequence, now_s, sight.host.state)
    if sight.is_empty:
        return next_phase(sequence, PowerPhase.SWITCHING_OFF, now_s)
    return _used_again(sequence, sight, now_s)


def _switching_off(sequence: PowerSequence, sight: HostSight, rules: PowerRules, now_s: int) -> PowerSequence:
    was_ordered = sequence.was_ordered
    if sight.vm_ids or sight.host.state is not HostState.OFFLINE:
        if was_ordered:
            return to_be_woken(sequence, now_s, LOSING_POWER, "it is used again, and was told to switch off already")
        if sight.host.state is not HostState.OFFLINE:
            return _taken_over(sequence, now_s, sight.host.state)
        return _used_again(sequence, sight, now_s)
    ordered_at_s = sequence.outcome_at_s
    if was_ordered and ordered_at_s is not None and sight.status_since(ordered_at_s) is PowerStatus.OFF:
        return replace(next_phase(sequence, PowerPhase.ASLEEP, now_s), failures=0, not_before_s=0)
    if sequence.outcome in _NOTHING_CAME_OF_IT:
        # The first time nothing was done, so that it still runs.
        is_first = sequence.attempts == 1
        after = given_up(sequence, now_s, FAILED, "") if is_first else _to_be_told_again(sequence, now_s)
        if sequence.outcome is Outcome.HELD_BACK and not is_first:
            # What nobody answered before has its time from when it was first told.
            after = replace(after, since_s=sequence.since_s)
        return _without_order(after, sequence, rules, now_s)
    if not was_ordered:
        return sequence
    timeout_s = rules.shutdown_timeout_s
    # After a failure it is told again once its pause is over: until then, and since, it had no time to shut down.
    told_at_s = max(sequence.since_s, sequence.not_before_s, ordered_at_s or 0)
    text = f"it was told to switch off and did not within {timeout_s} s"
    if _is_unheard(sequence):
        # Each order that nobody answers is followed by another one, but for so long only.
        told_at_s = sequence.since_s + timeout_s if ordered_at_s is None else max(sequence.since_s, ordered_at_s)
        text = f"it was told to switch off, there was no answer, and it did not within {timeout_s} s"
    if now_s - told_at_s > timeout_s:
        return _with_failure(_to_be_told_again(sequence, now_s), rules, now_s, text)
    return sequence


def is_told_no_more(sequence: PowerSequence, rules: PowerRules, now_s: int) -> bool:
    """Nobody has answered the order to switch off for so long that the last one is given its time to shut down."""
    return _is_unheard(sequence) and sequence.was_ordered and now_s - sequence.since_s > rules.shutdown_timeout_s


def _is_unheard(sequence: PowerSequence) -> bool:
    """Nobody has answered, and it has not failed yet: what has may be woken again, whatever becomes of its orders."""
    return sequence.failures == 0 and sequence.outcome is not Outcome.ACCEPTED


def _to_be_told_again(sequence: PowerSequence, now_s: int) -> PowerSequence:
    return replace(sequence, since_s=now_s, outcome=None, outcome_at_s=None)


# -- asleep and on the way back ------------------------------------------------------------------------------


def _asleep(sequence: PowerSequence, sight: HostSight, now_s: int) -> PowerSequence:
    state = sight.host.state
    if state is HostState.DISABLED:
        return _taken_over(sequence, now_s, state)
    if state is not HostState.OFFLINE or sight.vm_ids:
        return to_be_woken(sequence, now_s, TAKEN_OVER, "it was enabled while it slept: it is to be switched on")
    if sight.status_since(sequence.since_s) is PowerStatus.ON:
        text = "somebody else has switched it on: it is used again"
        return replace(entered(sequence, PowerPhase.ENABLING, now_s, POWER_CAME, text), began_at_s=now_s)
    return sequence


def _switching_on(sequence: PowerSequence, sight: HostSight, rules: PowerRules, now_s: int) -> PowerSequence:
    went_off = sequence.is_losing_power and sight.status_since(sequence.since_s) is PowerStatus.OFF
    if sequence.may_lose_power(now_s, rules.shutdown_timeout_s) and not went_off:
        return sequence
    ordered_at_s = sequence.outcome_at_s
    # What has no power OpenNebula may show as it was for a while, and so until it has booted.
    was_off = sequence.is_losing_power and ordered_at_s is not None
    boots = was_off and now_s - (ordered_at_s or 0) < rules.up_after_s(sight.host)
    if sight.host.accepts_vms and not went_off and not boots:
        return _awake(sequence, now_s)
    if _is_administrators(sequence, sight):
        return _taken_over(sequence, now_s, sight.host.state)
    if boots:
        return sequence
    if ordered_at_s is not None and sight.status_since(ordered_at_s) is PowerStatus.ON:
        return next_phase(sequence, PowerPhase.ENABLING, now_s)
    if sequence.attempts == 0:
        # It is paused, or too many boot: nobody has told it to start.
        return sequence if 0 <= now_s - sequence.began_at_s < CLOCK_RESTARTS_S else replace(sequence, began_at_s=now_s)
    if sequence.outcome in _NOTHING_CAME_OF_IT:
        return _without_order(next_phase(sequence, PowerPhase.FAILED, now_s), sequence, rules, now_s)
    if now_s - sequence.began_at_s <= rules.boot_timeout_s:
        return sequence
    text = f"it was told to switch on and has no power after {rules.boot_timeout_s} s"
    return _with_failure(next_phase(sequence, PowerPhase.FAILED, now_s), rules, now_s, text)


def _enabling(sequence: PowerSequence, sight: HostSight, rules: PowerRules, now_s: int) -> PowerSequence:
    state = sight.host.state
    if sight.host.accepts_vms:
        return _awake(sequence, now_s)
    enabled = sequence.enabled or sequence.outcome is Outcome.ACCEPTED
    # We have put it OFFLINE before its boot: what is DISABLED during it was disabled since.
    by_another_hand = state is HostState.DISABLED and sequence.began_at_s > 0
    if by_another_hand or (enabled and state in (HostState.DISABLED, HostState.OFFLINE)):
        return _taken_over(sequence, now_s, state)
    if state is HostState.OFFLINE and sequence.began_at_s and sight.status_since(sequence.since_s) is PowerStatus.OFF:
        text = "it lost its power again before it was enabled: it is switched on once more"
        return replace(to_be_woken(sequence, now_s, DONE, text), began_at_s=sequence.began_at_s)
    if now_s - max(sequence.began_at_s, sequence.since_s) <= rules.boot_timeout_s:
        return sequence
    text = f"it is not monitored {rules.boot_timeout_s} s after it was switched on"
    failed = replace(next_phase(sequence, PowerPhase.FAILED, now_s), enabled=enabled)
    failed = _with_failure(failed, rules, now_s, text)
    return replace(failed, reason_code=STUCK) if sequence.began_at_s else failed


def _is_administrators(sequence: PowerSequence, sight: HostSight) -> bool:
    """A host on its way up is disabled by its administrator alone, and put OFFLINE by him once it was enabled."""
    state = sight.host.state
    return state is HostState.DISABLED or (sequence.enabled and state is HostState.OFFLINE)


def _awake(sequence: PowerSequence, now_s: int) -> PowerSequence:
    """Only a host that came up after a boot has shown that it obeys."""
    awake = next_phase(sequence, PowerPhase.AWAKE, now_s)
    return replace(awake, failures=0, not_before_s=0, began_at_s=0) if sequence.began_at_s else awake


def _failed(sequence: PowerSequence, sight: HostSight, rules: PowerRules, now_s: int) -> PowerSequence:
    if sight.host.accepts_vms:
        return _awake(sequence, now_s)
    if _is_administrators(sequence, sight):
        return _taken_over(sequence, now_s, sight.host.state)
    if sequence.rests_at(now_s):
        return sequence
    # An order to start does nothing to what has power. Once only: what hangs again is broken.
    is_stuck = sequence.reason_code == STUCK and sequence.failures == 1
    if is_stuck and sight.is_empty and rules.enforced and rules.is_handed_over(sight.host):
        text = "it has power and did not come up: its power is cut, and it is switched on once more"
        return entered(sequence, PowerPhase.CUTTING_POWER, now_s, STUCK, text)
    if sight.host.state is HostState.OFFLINE:
        return entered(sequence, PowerPhase.ASLEEP, now_s, DONE, "its pause after a failure is over")
    return to_be_woken(sequence, now_s, DONE, "its pause after a failure is over: it is switched on once more")


def _cutting_power(sequence: PowerSequence, sight: HostSight, rules: PowerRules, now_s: int) -> PowerSequence:
    was_ordered, ordered_at_s = sequence.was_ordered, sequence.outcome_at_s
    if sight.host.accepts_vms and not was_ordered:
        return _awake(sequence, now_s)
    if _is_administrators(sequence, sight):
        return _taken_over(sequence, now_s, sight.host.state)
    if sight.vm_ids:
        return to_be_woken(sequence, now_s, IN_USE, f"VM {min(sight.vm_ids)} was put on it: its power is not cut")
    if was_ordered and ordered_at_s is not None and sight.status_since(ordered_at_s) is PowerStatus.OFF:
        return to_be_woken(sequence, now_s, DONE, "its power was cut: it is switched on once more")
    if sequence.outcome in _NOTHING_CAME_OF_IT:
        return _without_order(next_phase(sequence, PowerPhase.FAILED, now_s), sequence, rules, now_s)
    if not (was_ordered and now_s - sequence.since_s > rules.shutdown_timeout_s):
        return sequence
    text = f"its power was to be cut and is not off after {rules.shutdown_timeout_s} s"
    return _with_failure(next_phase(sequence, PowerPhase.FAILED, now_s), rules, now_s, text)
