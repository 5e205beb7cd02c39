"""Datastores and networks for what is to start soon: nobody is sent out for what could not start for want of them.

How much of them others will have given back at a time to come is known of few. So nothing is refused for it: it is
looked at when others must begin to leave, and owners are told, as things are then, but for what those give back who are
known to end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from one_preempt.core.availability.timeline import Stay
from one_preempt.core.matching import reasons
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.model.lease import PreemptionMethod
from one_preempt.core.model.plan import Reason
from one_preempt.core.model.virtual_machine import LcmState, Nic, VirtualMachine, VmState
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.known_ends import has_ended_by
from one_preempt.core.victims import PossibleVictim

# On their way off their hosts, or off them, and not at an end: their disks and addresses stay theirs.
_KEEPING = frozenset({
    LcmState.SAVE_STOP.name, LcmState.EPILOG_STOP.name, VmState.STOPPED.name,
    LcmState.SHUTDOWN_UNDEPLOY.name, LcmState.EPILOG_UNDEPLOY.name, VmState.UNDEPLOYED.name,
})  # fmt: skip


def unserved(
    draft: PlanDraft,
    vms: Sequence[VirtualMachine],
    rows: Sequence[int],
    start_s: int,
    leaving: Sequence[PossibleVictim],
) -> Unplaced | None:
    """What VMs that start on these rows' hosts lack of datastores and networks; None where they have all.

    `leaving` are those who make room for them.
    """
    room, matchmaker = draft.room, draft.matchmaker
    if matchmaker.unserved_at(vms, rows, room) is None:
        return None
    mark = room.checkpoint()
    for vm in _who_end(draft, start_s, leaving):
        room.give_back(vm)
    lacking = matchmaker.unserved_at(vms, rows, room)
    room.rollback(mark)
    return lacking


def lacks_addresses(draft: PlanDraft, vms: Sequence[VirtualMachine], stay: Stay) -> Reason | None:
    """What keeps VMs from starting in a stay to come because their automatic NICs find no network with an address."""
    if len(stay.host_rows) != len(vms) or not any(nic.automatic and nic.network_id is None for nic in _nics(vms)):
        return None
    lacking = unserved(draft, vms, stay.host_rows, stay.start_s, ())
    return lacking.reason if lacking is not None and lacking.reason.code == reasons.NETWORK else None


def _nics(vms: Sequence[VirtualMachine]) -> Iterator[Nic]:
    return (nic for vm in vms for nic in vm.nics)


def _who_end(draft: PlanDraft, start_s: int, leaving: Sequence[PossibleVictim]) -> Iterator[VirtualMachine]:
    """The VMs that are gone for good by then, and leave their disks and addresses to others."""
    for one in leaving:
        for vm, method in zip(one.vms, one.methods, strict=True):
            if method is PreemptionMethod.TERMINATE:
                yield vm
    for lease in draft.state.leases.values():
        if has_ended_by(draft, lease, start_s):
            yield from (vm for vm in draft.members(lease) if vm.state_name not in _KEEPING)
