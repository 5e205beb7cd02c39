"""How long a lease has run of its DURATION: the time in which all its VMs ran, overheads not counted (VW07 3.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from one_preempt.core.model.lease_lifecycle import VmPhase, phase_of
from one_preempt.core.model.ledger import LeaseRecord
from one_preempt.core.model.quick_construction import quick_variant
from one_preempt.core.model.virtual_machine import LcmState, VirtualMachine

# A guest that is saved, copied or looked at while it runs is served; so is one that is on its way to another host.
_SERVED = frozenset({VmPhase.RUNNING, VmPhase.MOVING, VmPhase.BUSY})

_RUNNING = LcmState.RUNNING.name

_with_clock = quick_variant(LeaseRecord, "served_s", "run_began_at_s")


@dataclass(frozen=True, slots=True)
class Heard:
    """What was heard of VMs since they were seen in `states_before`, at `last_at_s`: `instants` by id and new state."""

    instants: Mapping[tuple[int, str], int]
    states_before: Mapping[int, str]
    last_at_s: int

    def began_at_s(self, vms: Sequence[VirtualMachine], now_s: int) -> int | None:
        """Since when all of `vms` ran; None where that was not heard of each one that did not run before."""
        came = [vm.id for vm in vms if self.states_before.get(vm.id) != _RUNNING]
        instants = [self.instants.get((vm_id, _RUNNING)) for vm_id in came]
        known = [at_s for at_s in instants if at_s is not None and self.last_at_s <= at_s <= now_s]
        return max(known) if known and len(known) == len(came) else None


def clocked(
    record: LeaseRecord,
    present: Sequence[VirtualMachine],
    now_s: int,
    *,
    watched: bool,
    sent_out_at_s: int | None = None,
    heard: Heard | None = None,
) -> LeaseRecord:
    """`record` with the clock started, stopped or left alone, as its VMs were observed at `now_s`.

    `watched`: they were seen a moment ago and did not all run yet, so the run begins now. Else oned's own instant
    counts, RSTIME, which is when the hypervisor began to boot the guest or to read its memory back (FACTS 3).
    What was `heard` is better than both: a run may have begun, and be over, since anybody has looked.
    `sent_out_at_s`: when we had one of them leave its host, which stopped its guest at once; it ends the run.
    """
    runs = _SERVED.issuperset([phase_of(vm) for vm in present])
    began_at_s = record.run_began_at_s
    if began_at_s is None:
        began_at_s = heard.began_at_s(present, now_s) if heard is not None else None
        if runs:
            seen_at_s = _began_at_s(present, now_s, watched) if began_at_s is None else began_at_s
            return _with_clock(record, record.served_s, seen_at_s)
        if began_at_s is None:
            return record
    if runs:
        # By a clock that was set back since it began, it would end as much later than it does.
        return record if began_at_s <= now_s else _with_clock(record, record.served_s, now_s)
    ended_at_s = [vm.history[-1].running_end_at_s for vm in present if phase_of(vm) not in _SERVED and vm.history]
    if sent_out_at_s is not None:
        ended_at_s.append(sent_out_at_s)
    known = [at_s for at_s in ended_at_s if began_at_s <= at_s <= now_s]
    served_s = max(0, min(known, default=now_s) - began_at_s)
    return _with_clock(record, record.served_s + served_s, None)


def _began_at_s(present: Sequence[VirtualMachine], now_s: int, watched: bool) -> int:
    if watched:
        return now_s
    return min(now_s, max(vm.history[-1].running_start_at_s or now_s for vm in present))
