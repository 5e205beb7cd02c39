"""The leases as the decision sees them: as admitted, in the state that their VMs show, with what their records say."""

from __future__ import annotations

from collections.abc import Container, Mapping

from msgspec.structs import replace

from one_preempt.core.admission.admit import Admission
from one_preempt.core.model.lease import Lease, LeaseState
from one_preempt.core.model.lease_lifecycle import lease_state
from one_preempt.core.model.ledger import LeaseRecord
from one_preempt.core.model.resources import Resources
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.reconciliation.concerned import Concerned

_AT_REST = frozenset({LeaseState.RUNNING, LeaseState.WAITING})
_WAITING, _PREEMPTED = LeaseState.WAITING, LeaseState.PREEMPTED


def reconciled_leases(
    vms: Mapping[int, VirtualMachine],
    admission: Admission,
    records: Mapping[int, LeaseRecord],
    resting: Container[int],
    concerned: Concerned,
) -> dict[int, Lease]:
    """The admitted leases by ascending id; one that is as it was is the very object, as long as its VMs are."""
    leases: dict[int, Lease] = {}
    before, changed_vm_ids = concerned.footing.leases, concerned.changed_vm_ids
    for admitted in admission.leases:
        lease = _reconciled(admitted, [vms[vm_id] for vm_id in admitted.vm_ids], records.get(admitted.id), resting)
        known = before.get(lease.id)
        if known is not None and changed_vm_ids.isdisjoint(lease.vm_ids) and known == lease:
            lease = known
        leases[lease.id] = lease
    return leases


def unsettled(leases: Mapping[int, Lease], records: Mapping[int, LeaseRecord], admission: Admission) -> frozenset[int]:
    """Those of which another thing may be said next time, though neither their VMs nor their records change.

    What waits on HOLD is judged by the present time and by the leases that its owner has; what is on its way out or
    back, by the actions on record; what there was something to say about is told so again.
    """
    noted = {note.vm_id for note in admission.notes}
    found = [lease.id for lease in leases.values() if not _is_settled(lease, records.get(lease.id), noted)]
    return frozenset(found) | (records.keys() - leases.keys())


def _is_settled(lease: Lease, record: LeaseRecord | None, noted: set[int]) -> bool:
    if not noted.isdisjoint(lease.vm_ids):
        return False
    if record is None:
        return not lease.explicit
    if len(lease.vm_ids) != len(record.vm_ids):
        return False
    # Sent out, and all of it off its hosts: what made it leave is over, or among the open actions, which are looked at.
    return lease.state is _PREEMPTED or (lease.state in _AT_REST and record.preempted_by is None)


def _reconciled(
    admitted: Lease, vms: list[VirtualMachine], record: LeaseRecord | None, resting: Container[int]
) -> Lease:
    cpu_centi, memory_mib, state = 0, 0, admitted.state
    for vm in vms:
        cpu_centi += vm.cpu_centi
        memory_mib += vm.memory_mib
    total = Resources(cpu_centi, memory_mib)
    if state is _WAITING:
        preempted = record is not None and record.preempted_by is not None
        paused = record.paused_vm_ids if record is not None else ()
        state = lease_state(vms, preempted=preempted, in_place=resting, paused=paused)
    if record is None:
        return replace(admitted, state=state, total=total)
    return replace(
        admitted,
        state=state,
        total=total,
        preemptions=record.preemptions,
        preempted_by=record.preempted_by,
        last_preempted_at_s=record.last_preempted_at_s,
        served_s=record.served_s,
        run_began_at_s=record.run_began_at_s,
        paused_vm_ids=record.paused_vm_ids,
    )
