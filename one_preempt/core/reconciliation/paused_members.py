"""Which VMs of a lease their owner has at rest, so that they stay so, whoever takes them off their hosts meanwhile.

oned tells of a VM that is STOPPED or UNDEPLOYED neither whose wish that was nor whether it ran before. So it is written
down while the lease is on its hosts, and before anything is done about it: who was paused then is when it is out, too.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from msgspec.structs import replace

from one_preempt.core.lease_status import says_kept_out
from one_preempt.core.model.lease_lifecycle import VmPhase, phase_of, phases_of
from one_preempt.core.model.ledger import LeaseRecord
from one_preempt.core.model.virtual_machine import VirtualMachine

_PAUSED = VmPhase.PAUSED
_AWAY = frozenset({VmPhase.LEAVING, VmPhase.OUT})
_MAY_BE_PAUSED = _AWAY | {_PAUSED}


def with_paused(
    record: LeaseRecord, present: Sequence[VirtualMachine], resting: Container[int], *, is_sent_out: bool
) -> LeaseRecord:
    """`record` with those of its VMs that their owner has paused, as they are seen now.

    `resting` are VMs that we suspended on their hosts. `is_sent_out`: we have the lease leave, or it has left and is
    not back. What left its host then is not its owner's doing, unless it was paused before.
    """
    if not record.paused_vm_ids and phases_of(present).isdisjoint(_MAY_BE_PAUSED):
        return record
    paused = [vm.id for vm in present if _is_paused(record, vm, resting, is_sent_out=is_sent_out)]
    return record if paused == list(record.paused_vm_ids) else replace(record, paused_vm_ids=tuple(paused))


def _is_paused(record: LeaseRecord, vm: VirtualMachine, resting: Container[int], *, is_sent_out: bool) -> bool:
    phase = phase_of(vm)
    if phase is _PAUSED:
        return vm.id not in resting
    return phase in _AWAY and (vm.id in record.paused_vm_ids or not is_sent_out)


def told_paused(present: Sequence[VirtualMachine]) -> tuple[int, ...]:
    """Those that were paused when they were sent out, as their LEASE_STATUS says, where the ledger knows nothing."""
    return tuple([vm.id for vm in present if phase_of(vm) in _AWAY and says_kept_out(vm)])
