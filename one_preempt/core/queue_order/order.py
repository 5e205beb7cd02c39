"""The question that a queue order answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from one_preempt.core.model.lease import Lease
from one_preempt.core.model.owner_use import MeasuredUse, UseRules
from one_preempt.core.model.virtual_machine import VirtualMachine


class QueueOrder(Protocol):
    """Puts waiting leases into an order."""

    @property
    def name(self) -> str:
        """What the configuration calls it."""

    @property
    def description(self) -> str:
        """One line for people."""

    @property
    def measures(self) -> UseRules | None:
        """How what owners use is to be measured for it; None: its keys do not depend on that, and nothing is."""

    def key(self, lease: Lease, vms: Sequence[VirtualMachine], use: MeasuredUse) -> tuple[float, ...]:
        """The sort key of a lease with its VMs: lowest first; ends in an id, so that no two are equal.

        `use` is what owners had used when that was measured last. The key is remembered until the lease, or `use`, is
        another one: it must depend on nothing else.
        """
