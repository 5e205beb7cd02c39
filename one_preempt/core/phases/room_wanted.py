"""What a request wants: room for its VMs, for some time, on some hosts."""

from __future__ import annotations

from msgspec import Struct

from one_preempt.core.availability.gang_demand import BoolArray
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.virtual_machine import VirtualMachine


class RoomWanted(Struct, frozen=True):
    """The VMs of a lease that need room from `start_s` until `end_s`, None where nobody knows.

    `within`, shape (H,): only on these hosts; None: on all that it may count on.
    """

    lease: Lease
    vms: tuple[VirtualMachine, ...]
    start_s: int
    end_s: int | None
    within: BoolArray | None = None
