"""How long a lease has run of its DURATION, overheads not counted (VW07 section 5).

It begins when all its VMs run, and goes on while one of them does: what its owner takes away of it does not stop the
clock of the others, which hold their room. What fails does, and whom the cloud has still to start.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.matching.demands import returns_to_its_disks
from one_preempt.core.model.lease_lifecycle import VmPhase, phase_of, phases_of
from one_preempt.core.model.ledger import LeaseRecord
from one_preempt.core.model.virtual_machine import LcmState, VirtualMachine

# A guest that is saved, copied or looked at while it runs is served; so is one that is on its way to another host.
_SERVED = frozenset({VmPhase.RUNNING, VmPhase.MOVING, VmPhase.BUSY})

# Its owner resumes it where it was, or took it off its host and it comes back.
_RESUMED_THERE = frozenset({LcmState.BOOT_POWEROFF, LcmState.BOOT_SUSPENDED})
_COMES_BACK = frozenset({
    LcmState.BOOT_STOPPED, LcmState.BOOT_UNDEPLOY, LcmState.PROLOG_RESUME, LcmState.PROLOG_UNDEPLOY,
})  # fmt: skip

_RUNNING = LcmState.RUNNING.name


class Heard(Struct, frozen=True):
    """What was heard of VMs since they were seen in `states_before`, at `last_at_s`: `instants` by id and new state."""

    instants: Mapping[tuple[int, str], int]
    states_before: Mapping[int, str]
    last_at_s: int

    def began_at_s(self, vms: Sequence[VirtualMachine], now_s: int) -> int | None:
        """Since when all of `vms` ran; None where that was not heard of each one that did not run before."""
        began_at_s, states_before, instants, last_at_s = None, self.states_before, self.instants, self.last_at_s
        for vm in vms:
            vm_id = vm.id
            if states_before.get(vm_id) == _RUNNING:
                continue
            at_s = instants.get((vm_id, _RUNNING))
            if at_s is None or not last_at_s <= at_s <= now_s:
                return None
            if began_at_s is None or began_at_s < at_s:
                began_at_s = at_s
        return began_at_s


def clocked(
    record: LeaseRecord,
    present: Sequence[VirtualMachine],
    now_s: int,
    *,
    watched: bool,
    sent_out_at_s: int | None = None,
    heard: Heard | None = None,
    resting: Container[int] = (),
    paused: Container[int] = (),
    has_lost_one: bool = False,
) -> LeaseRecord:
    """`record` with the clock started, stopped or left alone, as its VMs were observed at `now_s`.

    `watched`: they were seen a moment ago and did not all run yet, so the run begins now. Else oned's own instant
    counts, RSTIME, which is when the hypervisor began to boot the guest or to read its memory back.
    What was `heard` is better than both: a run may have begun, and be over, since anybody has looked.
    `sent_out_at_s`: when we had one of them leave its host, which stopped its guest at once; it ends the run. `resting`
    are VMs that we suspended on their hosts, `paused` those that their owner has paused, though we sent them out since.
    `has_lost_one`: one that was there when they were seen before is gone.
    """
    served = _served(present)
    began_at_s = record.run_began_at_s
    if began_at_s is None and not served:
        # Of a run that is over already nothing tells but what was heard.
        began_at_s = heard.began_at_s(present, now_s) if heard is not None else None
        if began_at_s is None:
            return record
    kept: list[VirtualMachine] = []
    if len(served) < len(present):
        is_sent_out = sent_out_at_s is not None or record.preempted_by is not None
        kept = [vm for vm in present if _is_kept_from_running(vm, resting, is_sent_out=is_sent_out)]
        kept = [vm for vm in kept if vm.id not in paused] if paused else kept
    runs = bool(served) and not kept
    if began_at_s is None:
        began_at_s = heard.began_at_s(served if runs else present, now_s) if heard is not None else None
        if runs:
            seen_at_s = _began_at_s(served, now_s, watched) if began_at_s is None else began_at_s
            return replace(record, served_s=record.served_s, run_began_at_s=seen_at_s)
        if began_at_s is None:
            return record
    if runs:
        # By a clock that was set back since it began, it would end as much later than it does.
        return record if began_at_s <= now_s else replace(record, served_s=record.served_s, run_began_at_s=now_s)
    ends_at_s = [vm.history[-1].running_end_at_s for vm in (kept or present) if vm.history]
    if sent_out_at_s is not None:
        ends_at_s.append(sent_out_at_s)
    known = [at_s for at_s in ends_at_s if began_at_s <= at_s <= now_s]
    # Where all are away by their owner's hand, since the last of them is: of one that is gone nobody knows since when.
    choose = min if kept else max
    ended_at_s = now_s if has_lost_one and not kept else choose(known, default=now_s)
    return replace(record, served_s=record.served_s + max(0, ended_at_s - began_at_s), run_began_at_s=None)


def _served(present: Sequence[VirtualMachine]) -> Sequence[VirtualMachine]:
    phases = phases_of(present)
    if phases <= _SERVED:
        return present
    return [] if phases.isdisjoint(_SERVED) else [vm for vm in present if phase_of(vm) in _SERVED]


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


def _began_at_s(present: Sequence[VirtualMachine], now_s: int, watched: bool) -> int:
    if watched:
        return now_s
    return min(now_s, max(vm.history[-1].running_start_at_s or now_s for vm in present))
