"""How long a lease has run of its DURATION, overheads not counted (VW07 section 5).

It begins when all its VMs run, and goes on while one of them does: what its owner takes away of it does not stop the
clock of the others, which hold their room. What fails does, and whom the cloud has still to start.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from msgspec.structs import replace

from one_preempt.core.matching.demands import returns_to_its_disks
from one_preempt.core.model.lease_lifecycle import VmPhase, phase_of, phases_of
from one_preempt.core.model.ledger import ActionRecord, LeaseRecord
from one_preempt.core.model.virtual_machine import LcmState, VirtualMachine
from one_preempt.core.reconciliation.watch import Watch

# A guest that is saved, copied or looked at while it runs is served; so is one that is on its way to another host.
_SERVED = frozenset({VmPhase.RUNNING, VmPhase.MOVING, VmPhase.BUSY})

# Its owner resumes it where it was, or took it off its host and it comes back.
_RESUMED_THERE = frozenset({LcmState.BOOT_POWEROFF, LcmState.BOOT_SUSPENDED})
_COMES_BACK = frozenset({
    LcmState.BOOT_STOPPED, LcmState.BOOT_UNDEPLOY, LcmState.PROLOG_RESUME, LcmState.PROLOG_UNDEPLOY,
})  # fmt: skip


def clocked(
    record: LeaseRecord,
    present: Sequence[VirtualMachine],
    watch: Watch,
    *,
    sent_out: ActionRecord | None = None,
    resting: Container[int] = (),
) -> LeaseRecord:
    """`record` with the clock started, stopped or left alone, as its VMs are observed now.

    `sent_out`: by which action we have one of them leave its host, which stopped its guest at once; it ends the run.
    `resting` are VMs that we suspended on their hosts. What its owner has paused, as `record` says, stays his doing
    though we have sent it out since.
    """
    served = _served(present)
    if len(served) == len(present) or (served and not _kept_from_running(record, present, sent_out, resting)):
        return _running(record, served, watch)
    return _stopped(record, present, watch, sent_out, resting)


def _running(record: LeaseRecord, served: Sequence[VirtualMachine], watch: Watch) -> LeaseRecord:
    """`record` in a run: in its present one, or in one that has begun.

    It begins when that was heard; else now, where its VMs were seen a moment ago and did not all run yet. Else oned's
    own instant counts, RSTIME, which is when the hypervisor began to boot the guest or to read its memory back.
    """
    now_s = watch.now_s
    if record.run_began_at_s is not None:
        # By a clock that was set back since it began, it would end as much later than it does.
        return record if record.run_began_at_s <= now_s else replace(record, run_began_at_s=now_s)
    began_at_s = watch.all_ran_at_s(served)
    if began_at_s is None and watch.saw_it_not_run(record):
        began_at_s = now_s
    if began_at_s is None:
        began_at_s = min(now_s, max(vm.history[-1].running_start_at_s or now_s for vm in served))
    return replace(record, run_began_at_s=began_at_s)


def _stopped(
    record: LeaseRecord,
    present: Sequence[VirtualMachine],
    watch: Watch,
    sent_out: ActionRecord | None,
    resting: Container[int],
) -> LeaseRecord:
    """`record` in no run. What the last one served it is added, even if that was never seen, and only heard of."""
    began_at_s = watch.all_ran_at_s(present) if record.run_began_at_s is None else record.run_began_at_s
    if began_at_s is None:
        return record
    kept = _kept_from_running(record, present, sent_out, resting)
    ends_at_s = [vm.history[-1].running_end_at_s for vm in (kept or present) if vm.history]
    if sent_out is not None and sent_out.outcome_at_s is not None:
        ends_at_s.append(sent_out.outcome_at_s)
    known = [at_s for at_s in ends_at_s if began_at_s <= at_s <= watch.now_s]
    if kept:
        ended_at_s = min(known, default=watch.now_s)
    elif watch.has_just_lost_one(record, present):
        # It ran perhaps until a moment ago: of what is gone nobody knows since when.
        ended_at_s = watch.now_s
    else:
        # All are away by their owner's hand, since the last of them is.
        ended_at_s = max(known, default=watch.now_s)
    return replace(record, served_s=record.served_s + max(0, ended_at_s - began_at_s), run_began_at_s=None)


def _served(present: Sequence[VirtualMachine]) -> Sequence[VirtualMachine]:
    phases = phases_of(present)
    if phases <= _SERVED:
        return present
    return [] if phases.isdisjoint(_SERVED) else [vm for vm in present if phase_of(vm) in _SERVED]


def _kept_from_running(
    record: LeaseRecord, present: Sequence[VirtualMachine], sent_out: ActionRecord | None, resting: Container[int]
) -> list[VirtualMachine]:
    """Those that do not run, and not by their owner's hand, who has not paused them either."""
    is_sent_out, paused = sent_out is not None or record.preempted_by is not None, record.paused_vm_ids
    return [vm for vm in present if _is_kept_from_running(vm, resting, is_sent_out=is_sent_out) and vm.id not in paused]


def _is_kept_from_running(vm: VirtualMachine, resting: Container[int], *, is_sent_out: bool) -> bool:
    """It does not run, and not by its owner's hand: it failed, is to be started, or left by ours and is not back yet.

    Who could stop the clock by a VM that he takes away would hold the room of all others for ever.
    """
    phase = phase_of(vm)
    if phase in _SERVED:
        return False
    if phase is VmPhase.PAUSED:
        return vm.id in resting
    if phase in (VmPhase.OUT, VmPhase.LEAVING):
        return is_sent_out
    if phase is VmPhase.WAITING:
        return is_sent_out or not returns_to_its_disks(vm)
    if phase is VmPhase.STARTING and vm.lcm_state in _COMES_BACK:
        return is_sent_out
    return vm.lcm_state not in _RESUMED_THERE
