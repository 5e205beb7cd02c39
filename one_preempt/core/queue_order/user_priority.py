"""The matchmaker's order: USER_PRIORITY, highest first, then the oldest."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from one_preempt.core.matching.expressions.attributes import leading_number
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.owner_use import MeasuredUse, UseRules
from one_preempt.core.model.virtual_machine import VirtualMachine


class UserPriority(Struct, frozen=True):
    """A lease of several VMs has the highest priority among them."""

    name: str = "user-priority"
    description: str = "the lease with the highest USER_PRIORITY, then the one that came first"
    measures: UseRules | None = None

    def key(self, lease: Lease, vms: Sequence[VirtualMachine], use: MeasuredUse) -> tuple[float, ...]:
        """(- priority, id of the newest VM, id): a gang has arrived when its last VM has."""
        newest = max(lease.vm_ids, default=lease.id)
        told = {vm.user_priority for vm in vms}
        return (-max((_as_number(text) for text in told), default=0.0), newest, lease.id)


def priority_of(vm: VirtualMachine) -> float:
    """USER_PRIORITY as a number; 0 where there is none or it is no number."""
    return _as_number(vm.user_priority)


def _as_number(text: str) -> float:
    priority = leading_number(text)
    return priority if priority is not None and math.isfinite(priority) else 0.0


POLICY = UserPriority()
