"""The open actions, held against what was observed: which are done, which failed, and who leaves by our hand."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.model.lease_lifecycle import VmPhase, phase_of
from one_preempt.core.model.ledger import ActionRecord
from one_preempt.core.model.outcome import NOTHING_DONE
from one_preempt.core.model.plan import ActionKind
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.virtual_machine import LcmState, VirtualMachine, VmState
from one_preempt.core.reconciliation.observation import LEAVING_KINDS, Progress, observe_action
from one_preempt.core.reconciliation.watch import Watch

# What is stopped because it outlived its DURATION has had its time: it is owed no return.
OVERRUN = "overrun"
# What an administrator cancels makes room for nobody.
CANCELLED = "cancelled"
_RUNNING = LcmState.RUNNING.name
_DONE, _DEPLOY = Progress.DONE, ActionKind.DEPLOY
SENDING_OUT = LEAVING_KINDS | {ActionKind.SUSPEND}


class SettledActions(Struct, frozen=True):
    """The open actions after observation: still open, just closed, those of them that failed, and by lease what makes
    it leave."""

    open: Mapping[str, ActionRecord]
    closed: tuple[ActionRecord, ...]
    failed: tuple[ActionRecord, ...]
    sent_out: Mapping[int, ActionRecord]


NOTHING_SETTLED = SettledActions({}, (), (), {})


def settle_actions(snapshot: PoolSnapshot, actions: Mapping[str, ActionRecord], watch: Watch) -> SettledActions:
    """Close what is seen as done or failed. About VMs that cannot be read nothing is concluded.

    A start is done, too, of a VM that is gone by now and was heard to run.
    """
    if not actions:
        return NOTHING_SETTLED
    still_open: dict[str, ActionRecord] = {}
    closed: list[ActionRecord] = []
    failed: list[ActionRecord] = []
    sent_out: dict[int, ActionRecord] = {}
    vms, unreadable, now_s = snapshot.vms, snapshot.unreadable_vm_ids, watch.now_s
    for action_id, record in sorted(actions.items()):
        if record.vm_id in unreadable:
            still_open[action_id] = record
            continue
        vm = vms.get(record.vm_id)
        progress = observe_action(record, vm, now_s, watch.states_before.get(record.vm_id, ""))
        if vm is None and record.kind is _DEPLOY and (record.vm_id, _RUNNING) in watch.heard:
            progress = _DONE
        if progress is _DONE:
            closed.append(replace(record, closed_at_s=now_s, succeeded=True))
        elif progress is Progress.FAILED:
            why = record.error_text or _what_was_seen(vm)
            failed.append(replace(record, closed_at_s=now_s, succeeded=False, error_text=why))
            closed.append(failed[-1])
        else:
            still_open[action_id] = record
        if record.kind in SENDING_OUT and _is_sent_out(record, vm, progress):
            sent_out[record.lease_id] = record
    return SettledActions(still_open, tuple(closed), tuple(failed), sent_out)


def _is_sent_out(record: ActionRecord, vm: VirtualMachine | None, progress: Progress) -> bool:
    """It leaves its host or has left it, or rests there, by our hand."""
    if record.outcome in NOTHING_DONE and record.attempts == 1:
        # By somebody else's, which is why oned did not take ours. Of several calls it may have taken an earlier one.
        return False
    if record.kind is ActionKind.SUSPEND:
        resting = vm is not None and vm.state == VmState.SUSPENDED
        return progress is Progress.UNDER_WAY or (progress is Progress.LASTING and resting)
    if record.reason_code in (OVERRUN, CANCELLED):
        return False
    return progress in (Progress.UNDER_WAY, Progress.DONE)


def _what_was_seen(vm: VirtualMachine | None) -> str:
    """Why an accepted call counts as failed, as far as the VM tells."""
    if vm is None:
        return "the VM was ended meanwhile"
    return f"the VM is {vm.state_name}" if phase_of(vm) is VmPhase.FAILED else "the VM went back to its former state"
