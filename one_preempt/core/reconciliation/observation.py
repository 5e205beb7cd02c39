"""What became of the actions under way, read off the states that were observed since.

A call that oned accepted is not done: an action is done when its effect is seen. The rules here need nothing
but the action's record and the VM, so a process that died in the middle finds out the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from one_preempt.core.model.lease_lifecycle import VmPhase, phase_of
from one_preempt.core.model.ledger import ActionRecord
from one_preempt.core.model.outcome import NOTHING_DONE, Outcome
from one_preempt.core.model.plan import ActionKind
from one_preempt.core.model.virtual_machine import PREEMPTION_LOCK, SUSPENDED_STATES, LcmState, VirtualMachine, VmState


class Progress(StrEnum):
    """Where an action stands: to be issued, its effect under way, lasting, seen as done, or failed.

    What LASTS is done and will have to be undone: its record stays open until it is seen undone, so that the ledger
    knows what was suspended and locked by our hand for as long as it is.
    """

    TO_ISSUE = "to-issue"
    UNDER_WAY = "under-way"
    LASTING = "lasting"
    DONE = "done"
    FAILED = "failed"


LEAVING_KINDS = frozenset({ActionKind.STOP, ActionKind.UNDEPLOY, ActionKind.TERMINATE})
MOVING_KINDS = frozenset({ActionKind.MIGRATE, ActionKind.LIVE_MIGRATE})
VICTIM_KINDS = LEAVING_KINDS | MOVING_KINDS | {ActionKind.SUSPEND}
_AT_REST = frozenset(
    {VmState.SUSPENDED.name, LcmState.BOOT_SUSPENDED.name, *(LcmState(one).name for one in SUSPENDED_STATES)}
)


# What a VM that was to start shows; one that still waits has not moved.
_STARTED = {
    VmPhase.STARTING: Progress.UNDER_WAY,
    VmPhase.LEAVING: Progress.UNDER_WAY,
    VmPhase.RUNNING: Progress.DONE,
    VmPhase.BUSY: Progress.DONE,
    VmPhase.MOVING: Progress.DONE,
    VmPhase.PAUSED: Progress.DONE,
    VmPhase.FAILED: Progress.FAILED,
}
_SUSPEND, _MESSAGE, _ACCEPTED = ActionKind.SUSPEND, ActionKind.MESSAGE, Outcome.ACCEPTED
_TO_ISSUE, _DONE, _FAILED = Progress.TO_ISSUE, Progress.DONE, Progress.FAILED
_DONE_ONCE_IT_IS_GONE = LEAVING_KINDS | {ActionKind.SUSPEND, ActionKind.LOCK}

# oned answers before it acts: for a moment the VM is still seen where it was (0.2 s on an idle front-end).
SETTLING_S = 5


def observe_action(record: ActionRecord, vm: VirtualMachine | None, now_s: int, state_before: str = "") -> Progress:
    """Where `record` stands now that `vm` was observed at `now_s` (None: it exists no more).

    `state_before` is the name of the state in which the VM was seen last, where that is known.
    """
    if record.attempts == 0:
        progress = _TO_ISSUE
    elif record.kind is _MESSAGE:
        progress = _by_answer(record)
    elif vm is None:
        progress = _DONE if record.kind in _DONE_ONCE_IT_IS_GONE else _FAILED
    else:
        progress = _TO_OBSERVE[record.kind](record, vm)
    if record.kind is _SUSPEND and state_before in _AT_REST and progress is not Progress.LASTING:
        return _DONE
    if progress is not _FAILED:
        return progress
    settles = record.outcome is _ACCEPTED and 0 <= now_s - (record.outcome_at_s or 0) < SETTLING_S
    return Progress.UNDER_WAY if settles else progress


def _by_answer(record: ActionRecord) -> Progress:
    if record.outcome is Outcome.ACCEPTED:
        return Progress.DONE
    return _unmoved(record)


def _unmoved(record: ActionRecord) -> Progress:
    """The VM is where it was before the call. Accepted and yet unmoved means that it fell back: failed."""
    if record.outcome in (Outcome.ACCEPTED, Outcome.REFUSED, Outcome.DROPPED):
        return Progress.FAILED
    return Progress.TO_ISSUE


def _leaving(record: ActionRecord, vm: VirtualMachine) -> Progress:
    if not vm.holds_capacity or (record.host_id is not None and vm.host_id != record.host_id):
        return Progress.DONE
    phase = phase_of(vm)
    if phase is VmPhase.LEAVING:
        return Progress.UNDER_WAY
    return Progress.FAILED if phase is VmPhase.FAILED else _unmoved(record)


def _suspending(record: ActionRecord, vm: VirtualMachine) -> Progress:
    """LASTING while the VM rests on the host where we suspended it, and until it runs again."""
    if not vm.holds_capacity or vm.host_id != record.host_id:
        return Progress.DONE
    if record.outcome in NOTHING_DONE:
        return Progress.FAILED
    if vm.state_name == LcmState.SAVE_SUSPEND.name:
        return Progress.UNDER_WAY
    if vm.state_name in _AT_REST:
        return Progress.LASTING
    return Progress.FAILED if phase_of(vm) is VmPhase.FAILED else _unmoved(record)


def _locking(record: ActionRecord, vm: VirtualMachine) -> Progress:
    """A lock takes effect with the answer. LOCK: LASTING while the lock is there."""
    locked = vm.lock_level is PREEMPTION_LOCK
    if record.outcome in NOTHING_DONE:
        return Progress.FAILED
    if record.kind is ActionKind.LOCK:
        if locked:
            return Progress.LASTING
        return Progress.DONE if record.outcome is Outcome.ACCEPTED else Progress.TO_ISSUE
    return _unmoved(record) if locked else Progress.DONE


def _moving(record: ActionRecord, vm: VirtualMachine) -> Progress:
    phase = phase_of(vm)
    if phase is VmPhase.MOVING:
        return Progress.UNDER_WAY
    if not vm.holds_capacity or phase is VmPhase.FAILED:
        return Progress.FAILED
    if vm.host_id == record.host_id:
        return Progress.DONE
    return _unmoved(record)


def _starting(record: ActionRecord, vm: VirtualMachine) -> Progress:
    return _STARTED.get(phase_of(vm)) or _unmoved(record)


def _resuming(record: ActionRecord, vm: VirtualMachine) -> Progress:
    return _unmoved(record) if phase_of(vm) is VmPhase.PAUSED else _starting(record, vm)


def _holding(record: ActionRecord, vm: VirtualMachine) -> Progress:
    return Progress.DONE if vm.state == VmState.HOLD else _by_answer(record)


_TO_OBSERVE: dict[ActionKind, Callable[[ActionRecord, VirtualMachine], Progress]] = {
    **dict.fromkeys(LEAVING_KINDS, _leaving),
    **dict.fromkeys(MOVING_KINDS, _moving),
    ActionKind.SUSPEND: _suspending,
    ActionKind.LOCK: _locking,
    ActionKind.UNLOCK: _locking,
    ActionKind.RESUME: _resuming,
    ActionKind.DEPLOY: _starting,
    ActionKind.HOLD: _holding,
}
