"""The room that a plan and the preemptions under way promise, for those who place without the daemon."""

from __future__ import annotations

from collections.abc import Iterable

from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.held_room import HeldRoom
from one_preempt.core.model.plan import Action, ActionKind, Plan, Preemption
from one_preempt.core.observed_room import hosts_of_members

_ARRIVING_KINDS = frozenset({ActionKind.DEPLOY, ActionKind.MIGRATE, ActionKind.LIVE_MIGRATE})


def held_rooms(state: ClusterState, plan: Plan, holds_s: int) -> tuple[HeldRoom, ...]:
    """What preemptors, victims that move, leases that return and reservations are going to take, by host and VM.

    A promise holds for `holds_s` after the cycle that renews it, a reservation until its end: a daemon that never
    comes back holds no room for ever.
    """
    until_s = state.now_s + holds_s
    hosts: dict[int, tuple[int, int]] = dict(_reserved(state, plan, holds_s))
    for vm_id, host_id in _arriving(state, plan):
        known_host_id, known_until_s = hosts.get(vm_id, (host_id, until_s))
        hosts[vm_id] = (host_id, max(until_s, known_until_s) if known_host_id == host_id else until_s)
    rooms = []
    for vm_id, (host_id, expires_at_s) in hosts.items():
        vm = state.snapshot.vms.get(vm_id)
        if vm is not None and vm.host_id != host_id:
            taken = vm.resources
            rooms.append(HeldRoom(host_id, vm_id, taken.cpu_centi, taken.memory_mib, expires_at_s))
    return tuple(sorted(rooms))


def _reserved(state: ClusterState, plan: Plan, holds_s: int) -> Iterable[tuple[int, tuple[int, int]]]:
    """The host and the end of the next firm reservation of each VM that is on no host.

    A VM placed without the daemon has no end, so the room is kept from now on.
    """
    reservations = dict(state.reservations) | {booking.lease_id: booking.reservations for booking in plan.bookings}
    for lease_id, reserved in reservations.items():
        lease = state.leases.get(lease_id)
        coming = next((one for one in reserved if one.firm and (one.end_at_s or state.now_s + 1) > state.now_s), None)
        if lease is None or coming is None:
            continue
        host_ids = hosts_of_members(state, lease, coming)
        if len(host_ids) != len(lease.vm_ids):
            continue
        end_at_s = coming.end_at_s or max(coming.start_at_s, state.now_s) + holds_s
        for vm_id, host_id in zip(lease.vm_ids, host_ids, strict=True):
            if state.snapshot.vms[vm_id].host_id is None:
                yield vm_id, (host_id, end_at_s)


def _arriving(state: ClusterState, plan: Plan) -> Iterable[tuple[int, int]]:
    """VM and host of what comes by a preemption or by the plan's own steps; of two for one VM the later counts."""
    for preemption in _going_on(state, plan):
        yield from ((placement.vm_id, placement.host_id) for placement in preemption.placements)
    for action in plan.actions:
        if action.host_id is not None and _keeps_a_promise(action, state):
            yield action.vm_id, action.host_id


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
