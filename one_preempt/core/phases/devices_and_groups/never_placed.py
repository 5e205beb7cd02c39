"""What no host could give to VMs whoever left: nobody waits for that, and nobody is sent out for it."""

from __future__ import annotations

from collections.abc import Sequence

from one_preempt.core.matching import reasons
from one_preempt.core.matching.reasons import Unplaced, without_mend
from one_preempt.core.matching.vm_groups import is_unreadable
from one_preempt.core.model.plan import Reason
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases.draft import PlanDraft

# What may be otherwise a while later though no VM leaves; and what the slot table answers itself.
_FOR_NOW = frozenset(
    {
        reasons.NO_HOSTS,
        reasons.NOT_ENABLED,
        reasons.INCOMPLETE,
        reasons.UNMONITORED,
        reasons.TOO_SMALL,
        reasons.NEXT_CYCLE,
    }
)


def never_placed(draft: PlanDraft, vms: Sequence[VirtualMachine]) -> Reason | None:
    """Why these VMs, of which none is on a host, would find no room together even if nobody else had any.

    None where they would, or where nobody can tell now; and where CPU and memory are all that they lack.
    """
    if all(_wants_capacity_alone(draft, vm) for vm in _of_kinds(draft, vms)):
        return None
    unplaced = _unplaced_alone(draft, vms)
    if unplaced is None or (unplaced.reason.code == reasons.CAPACITY and all(vm.vm_group_id is None for vm in vms)):
        return None
    return Reason(unplaced.reason.code, without_mend(unplaced.reason.text).removesuffix("."))


def exceed_all_hosts(draft: PlanDraft, vms: Sequence[VirtualMachine]) -> bool:
    """Together they lack CPU or memory even if nobody else had any. False where nobody can tell now."""
    unplaced = _unplaced_alone(draft, vms)
    return unplaced is not None and unplaced.reason.code == reasons.CAPACITY


def _of_kinds(draft: PlanDraft, vms: Sequence[VirtualMachine]) -> Sequence[VirtualMachine]:
    return vms[:1] if draft.matchmaker.are_alike(vms) else vms


def _wants_capacity_alone(draft: PlanDraft, vm: VirtualMachine) -> bool:
    """Some host suits it, and CPU and memory are all that it could lack there."""
    plain = vm.vm_group_id is None and draft.room.takes_capacity_alone(vm)
    return plain and bool(draft.matchmaker.match(vm).mask.any())


def _unplaced_alone(draft: PlanDraft, vms: Sequence[VirtualMachine]) -> Unplaced | None:
    """What keeps VMs from being placed where nobody else is; None where they find room, or nobody can tell now."""
    if any(vm.host_id is not None or is_unreadable(vm, draft.state.snapshot) for vm in vms):
        return None
    matches = map(draft.matchmaker.match, _of_kinds(draft, vms))
    if any(match.follows_load or match.follows_current_vms for match in matches):
        # What does not suit it now is as it is because of who is there, and may suit it once they are gone.
        return None
    room, matchmaker = draft.matched.emptied_room, draft.matchmaker
    mark = room.checkpoint()
    placed = matchmaker.place(vms[0], room, limited=False) if len(vms) == 1 else matchmaker.place_together(vms, room)
    room.rollback(mark)
    if not isinstance(placed, Unplaced) or placed.reason.code in _FOR_NOW or placed.counts.get(reasons.NOT_ENABLED):
        # What is closed for now may have what they ask for.
        return None
    return placed
