"""Looking up a lease on record, and its log."""

from __future__ import annotations

from one_preempt.core.model.ledger import LeaseRecord, Transition
from one_preempt.errors import OnePreemptError
from one_preempt.ports import LeaseStore

LOG_LENGTH = 1000


def recorded_lease(store: LeaseStore, lease_id: int) -> LeaseRecord:
    """The lease of that id, or else the one with the VM of that id, ended or not.

    Raises `OnePreemptError` where none is on record.
    """
    record = store.find_lease(lease_id)
    if record is None:
        see = "one-preempt lease list --all, or, for why a VM waits that is no lease: one-preempt plan"
        raise OnePreemptError(f"no lease {lease_id} is on record; see: {see}")
    return record


def transitions_of(store: LeaseStore, record: LeaseRecord) -> list[Transition]:
    """What was seen of the lease's VMs, oldest first."""
    found = [transition for vm_id in record.vm_ids for transition in reversed(store.transitions(vm_id, LOG_LENGTH))]
    return sorted(found, key=lambda transition: transition.observed_at_s)
