"""The room that a plan and the preemptions under way promise, for those who place without the daemon."""

from __future__ import annotations

from collections.abc import Iterable

from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.held_room import HeldRoom
from one_preempt.core.model.plan import Action, ActionKind, Plan, Preemption

_ARRIVING_KINDS = frozenset({ActionKind.DEPLOY, ActionKind.MIGRATE, ActionKind.LIVE_MIGRATE})


def held_rooms(state: ClusterState, plan: Plan, holds_s: int) -> tuple[HeldRoom, ...]:
    """What preemptors, victims that move, and leases that return are going to take, by host and VM.

    A promise holds for `holds_s` after the cycle that renews it: a daemon that never comes back holds no room.
    """
    hosts = {
        placement.vm_id: placement.host_id
        for preemption in _going_on(state, plan)
        for placement in preemption.placements
    }
    hosts.update(
        (action.vm_id, action.host_id)
        for action in plan.actions
        if action.host_id is not None and _keeps_a_promise(action, state)
    )
    rooms = []
    for vm_id, host_id in hosts.items():
        vm = state.snapshot.vms.get(vm_id)
        if vm is not None and vm.host_id != host_id:
            taken = vm.resources
            rooms.append(HeldRoom(host_id, vm_id, taken.cpu_centi, taken.memory_mib, state.now_s + holds_s))
    return tuple(sorted(rooms))


def _going_on(state: ClusterState, plan: Plan) -> Iterable[Preemption]:
    over = {end.preemption_id for end in plan.ended_preemptions}
    under_way = (open_preemption.preemption for open_preemption in state.preemptions)
    return (preemption for preemption in (*under_way, *plan.preemptions) if preemption.id not in over)


def _keeps_a_promise(action: Action, state: ClusterState) -> bool:
    """The step of a preemption, or the return of a lease that was sent out."""
    if action.kind not in _ARRIVING_KINDS:
        return False
    lease = state.leases.get(action.lease_id)
    return action.preemption_id is not None or (lease is not None and lease.preempted_by is not None)
