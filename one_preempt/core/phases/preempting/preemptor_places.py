"""Where a preemptor goes once its victims have left: asked before they are sent out, and while they leave."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.lease_lifecycle import VmPhase, phase_of
from one_preempt.core.model.plan import Placement, Preemption, Reason, Victim
from one_preempt.core.model.resources import NO_RESOURCES
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases.devices_and_groups.beside_promised import placed_beside, takes_promised
from one_preempt.core.phases.devices_and_groups.datastores_and_networks_then import unserved
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.preempting.room_then import RoomThen
from one_preempt.core.phases.reservations.room_ahead import firm_ceiling
from one_preempt.core.phases.reservations.stays import expected_end_s, stay_of_placed
from one_preempt.core.phases.room_wanted import RoomWanted
from one_preempt.core.preemption.problem import Choice
from one_preempt.core.victims import Hindered, PossibleVictim

# -- before anybody leaves -----------------------------------------------------------------------------------


def placements_for(
    draft: PlanDraft, wanted: RoomWanted, chosen: list[PossibleVictim], choice: Choice, then: RoomThen
) -> tuple[Placement, ...] | Hindered:
    """Where the request goes once the victims have left, with datastores and networks; the room is left as it was.

    Of a time to come only the hosts are known; others leave for it where they have all else that it will need.
    """
    hosts, room = draft.state.hosts, draft.room
    planned = tuple(
        Placement(vm.id, int(hosts.ids[row])) for vm, row in zip(wanted.vms, choice.host_of_request, strict=True)
    )
    if wanted.start_s > draft.state.now_s:
        return lacks_to_start(draft, wanted, chosen, choice) or planned
    mark = room.checkpoint()
    free = then.free.copy()
    for victim in chosen:
        for vm in victim.vms:
            room.leave(vm.id)
            free[hosts.index_by_id[vm.history[-1].host_id]] += then.added_by(vm)
    with room.capped(free):
        placed = draft.matchmaker.place_at(wanted.vms, planned, room)
        if isinstance(placed, Unplaced):
            placed = draft.matchmaker.place_together(wanted.vms, room, limited=False)
        lacking = frozenset[int]()
        if isinstance(placed, Unplaced):
            lacking = _lacking_rows(draft, wanted.vms, planned)
        else:
            leaving = {vm_id for victim in chosen for vm_id in victim.lease.vm_ids}
            taken = takes_promised(draft, wanted.lease, wanted.vms, placed, wanted.end_s, leaving)
            if taken is not None:
                placed, where = taken
                lacking = where.intersection(choice.host_of_request) or frozenset(choice.host_of_request)
    room.rollback(mark)
    if isinstance(placed, Unplaced):
        why = Reason(placed.reason.code, f"even after preempting: {placed.reason.text}")
        return Hindered(frozenset(), why, lacking)
    return placed


def _lacking_rows(draft: PlanDraft, vms: Sequence[VirtualMachine], planned: Sequence[Placement]) -> frozenset[int]:
    """The hosts that lack something for all VMs that were to go there, each alone; else those for more than one."""
    index, are_alike = draft.state.hosts.index_by_id, draft.matchmaker.are_alike(vms)
    on_row: dict[int, list[tuple[VirtualMachine, Placement]]] = {}
    for vm, there in zip(vms, planned, strict=True):
        on_row.setdefault(index[there.host_id], []).append((vm, there))
    lacking = [
        row
        for row, those in on_row.items()
        if not any(_would_go(draft, vm, there) for vm, there in (those[:1] if are_alike else those))
    ]
    return frozenset(lacking or [row for row, those in on_row.items() if len(those) > 1])


def _would_go(draft: PlanDraft, vm: VirtualMachine, there: Placement) -> bool:
    mark = draft.room.checkpoint()
    placed = draft.matchmaker.place_at((vm,), (there,), draft.room)
    draft.room.rollback(mark)
    return not isinstance(placed, Unplaced)


def lacks_to_start(
    draft: PlanDraft, wanted: RoomWanted, chosen: Sequence[PossibleVictim], choice: Choice
) -> Hindered | None:
    """Nobody leaves for what could not start though they had: these hosts have no datastore or network for it."""
    lacking = unserved(draft, wanted.vms, choice.host_of_request, wanted.start_s, chosen)
    if lacking is None:
        return None
    why = Reason(lacking.reason.code, f"nobody is preempted for it yet: {lacking.reason.text}")
    return Hindered(frozenset(), why, frozenset(choice.host_of_request))


# -- while they leave ----------------------------------------------------------------------------------------


def places_after(
    draft: PlanDraft, preemption: Preemption, lease: Lease, outstanding: Sequence[Victim]
) -> tuple[Placement, ...] | Reason:
    """Where the preemptor goes once the outstanding victims have left; the room is left as it was."""
    vms, room = draft.state.snapshot.vms, draft.room
    mark = room.checkpoint()
    for victim in outstanding:
        if phase_of(vms[victim.vm_id]) is VmPhase.MOVING:
            room.hold(victim.host_id, NO_RESOURCES - vms[victim.vm_id].resources)
        else:
            room.leave(victim.vm_id)
    waiting = [vms[placement.vm_id] for placement in preemption.placements if vms[placement.vm_id].may_be_deployed]
    placed = placed_after(draft, preemption, lease, waiting)
    room.rollback(mark)
    return placed.reason if isinstance(placed, Unplaced) else placed


def placed_after(
    draft: PlanDraft, preemption: Preemption, lease: Lease, waiting: Sequence[VirtualMachine]
) -> tuple[Placement, ...] | Unplaced:
    """Where its VMs were meant to go; else wherever they fit, for as long as they stay, beside what is promised.

    The placements are charged to the draft's room.
    """
    placed = draft.matchmaker.place_at(waiting, preemption.placements, draft.room)
    return placed_anywhere(draft, lease, waiting) if isinstance(placed, Unplaced) else placed


def placed_anywhere(
    draft: PlanDraft, lease: Lease, waiting: Sequence[VirtualMachine], staying: Sequence[Victim] = ()
) -> tuple[Placement, ...] | Unplaced:
    """Wherever there is room for its VMs, for as long as they stay, beside what is promised; it is charged.

    Those who are `staying` count as if they did for all that time, though they are on their way out.
    """
    now_s, index = draft.state.now_s, draft.state.hosts.index_by_id
    end_s = expected_end_s(draft, lease, waiting, now_s)
    anywhere = partial(draft.matchmaker.place_together, waiting, draft.room, limited=False)
    free_then = firm_ceiling(draft, lease, now_s, end_s)
    if free_then is not None:
        for vm, host_id in ((draft.state.snapshot.vms[one.vm_id], one.host_id) for one in staying):
            free_then[index[host_id]] -= (vm.cpu_centi, vm.memory_mib)
    with draft.room.capped(free_then):
        placed = placed_beside(draft, lease, waiting, end_s, anywhere)
    if not isinstance(placed, Unplaced):
        elsewhere = stay_of_placed(draft, lease, waiting, placed, end_s)
        arrived = draft.timeline.stays.get(lease.id, ()) if len(waiting) < len(lease.vm_ids) else ()
        draft.timeline.replace(lease.id, (*arrived, elsewhere))
    return placed
