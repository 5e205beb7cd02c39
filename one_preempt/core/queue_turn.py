"""One entry of the queue."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from one_preempt.core.availability.timed_request import TimedRequest
from one_preempt.core.memory.lease_concerns import RETURNING_STATES
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.lease_lifecycle import VmPhase, phase_of, phases_of
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.model.virtual_machine import DEPLOYABLE_STATES, VirtualMachine, VmState

_TO_START = frozenset({VmPhase.WAITING, VmPhase.OUT})


class Turn(Struct, frozen=True):
    """The VMs of a lease that are to start, or one VM that is `marked` to move elsewhere."""

    lease: Lease
    vms: tuple[VirtualMachine, ...]
    marked: bool = False

    @property
    def id(self) -> int:
        """Told apart: the lease's id, or a negative number for a VM that moves."""
        return -1 - self.vms[0].id if self.marked else self.lease.id

    @property
    def returning(self) -> bool:
        """It was sent out, and comes back."""
        return self.lease.state in RETURNING_STATES

    @property
    def is_paced(self) -> bool:
        """MAX_HOST and MAX_DISPATCH may put it off: not several VMs, what is owed, or may preempt.

        Nor who wants to start at once or not at all: it cannot be tried again in the next cycle.
        """
        owed = self.returning or self.lease.preempts or is_to_start_at_once(self.lease)
        return self.marked or (len(self.vms) == 1 and not owed)

    def lasting(self, duration_s: int | None) -> TimedRequest[Turn]:
        """What it asks for in terms of time; None: nobody knows for how long."""
        return TimedRequest(self.id, self, duration_s)


def may_start(lease: Lease, vm: VirtualMachine) -> bool:
    """oned would deploy it, and nobody has put it on HOLD or paused it: without a LEASE attribute HOLD is a wish."""
    is_held = vm.state is VmState.HOLD and not lease.explicit
    return vm.state in DEPLOYABLE_STATES and not is_held and vm.id not in lease.paused_vm_ids


def is_to_start_at_once(lease: Lease) -> bool:
    """START is "now", and nothing was said to it yet: it is looked at in this cycle, or refused."""
    return lease.terms.at_once and lease.verdict is Verdict.NONE


def startable(lease: Lease, members: Sequence[VirtualMachine]) -> Sequence[VirtualMachine]:
    """The members that are to be started: none while one that waits may not be, for a gang starts together.

    What its owner paused before it was sent out waits for him.
    """
    if lease.paused_vm_ids:
        members = [vm for vm in members if vm.id not in lease.paused_vm_ids]
    if lease.explicit and not [vm for vm in members if vm.state not in DEPLOYABLE_STATES]:
        # As of most that wait: what oned would deploy waits, or is out.
        return members
    all_wait = phases_of(members) <= _TO_START
    waiting = members if all_wait else [vm for vm in members if phase_of(vm) in _TO_START]
    return waiting if not [vm for vm in waiting if not may_start(lease, vm)] else []
