"""The question that a queue order answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from one_preempt.core.model.lease import Lease
from one_preempt.core.model.virtual_machine import VirtualMachine


class QueueOrder(Protocol):
    """Puts waiting leases into an order."""

    @property
    def name(self) -> str:
        """What the configuration calls it."""

    @property
    def description(self) -> str:
        """One line for people."""

    def key(self, lease: Lease, vms: Sequence[VirtualMachine]) -> tuple[float, ...]:
        """The sort key of a lease with its VMs: lowest first; ends in an id, so that no two are equal."""
