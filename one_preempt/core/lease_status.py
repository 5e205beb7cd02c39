"""What a preempted lease shows in LEASE_STATUS: written for its owner, read back when the ledger was lost."""

from __future__ import annotations

import re

from one_preempt.core.model.virtual_machine import VirtualMachine

LEASE_STATUS = "LEASE_STATUS"
_PREEMPTED_BY = re.compile(r"preempted by lease ([0-9]{1,18})\b")


def preempted_status(preemptor_lease_id: int | None, wait: str) -> str:
    """What the owner of a preempted lease reads."""
    return f"preempted by lease {preemptor_lease_id}; returns when there is room. {wait[:1].upper()}{wait[1:]}"


def preemptor_in_status(vm: VirtualMachine) -> int | None:
    """The lease that this VM was sent out for, as its LEASE_STATUS has it; None where it says nothing of the kind."""
    status = vm.user_template.get(LEASE_STATUS, ("",))[0]
    found = _PREEMPTED_BY.match(status) if isinstance(status, str) else None
    return int(found[1]) if found is not None else None
