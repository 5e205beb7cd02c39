"""Where nothing tells hosts apart for the queue they are counted; which ones it will be is settled at the start."""

from __future__ import annotations

import numpy as np

from one_preempt.core.availability.timeline import ObservedRoom
from one_preempt.core.matching.host_match import HostMatch
from one_preempt.core.matching.placement import Matchmaker
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.lease import LeaseState
from one_preempt.core.model.virtual_machine import VirtualMachine

_WAITING = frozenset({LeaseState.WAITING, LeaseState.PREEMPTED, LeaseState.RETURNING, LeaseState.STARTING})


def alike_slots(state: ClusterState, matchmaker: Matchmaker, room: ObservedRoom) -> int | None:
    """How many VMs of the one kind there is have room if no stay of `room` takes any; None where VMs or hosts differ.

    The kind is that of all VMs that wait, run until a known end, or are promised room. What else runs only makes the
    hosts smaller.
    """
    usable = state.hosts.accepts_vms
    capacity = state.hosts.capacity[usable]
    if not room.stays or not len(capacity) or (capacity != capacity[0]).any():
        return None
    need = _need_of_all(state, matchmaker, room)
    base = room.base[usable]
    if need is None or (base < 0).any():
        return None
    counts = [base[:, resource] // amount for resource, amount in enumerate(need) if amount > 0]
    return int(np.minimum.reduce(counts).sum()) if counts else None


def _need_of_all(state: ClusterState, matchmaker: Matchmaker, room: ObservedRoom) -> tuple[int, int] | None:
    """What each VM needs, where all need the same and may go anywhere."""
    need: tuple[int, int] | None = None
    anywhere = _Anywhere(state)
    for lease in state.leases.values():
        if lease.state not in _WAITING and lease.id not in room.stays:
            continue
        if len(room.stays.get(lease.id, ())) > 1:
            return None
        for vm_id in lease.vm_ids:
            vm = state.snapshot.vms[vm_id]
            if need is None:
                need = (vm.cpu_centi, vm.memory_mib)
            if (vm.cpu_centi, vm.memory_mib) != need or not anywhere.may_go(vm, matchmaker):
                return None
    return need


class _Anywhere:
    """Which VMs may go to every host that takes any, as far as they themselves are concerned."""

    def __init__(self, state: ClusterState) -> None:
        self._hosts = state.hosts
        self._known: dict[int, bool] = {}
        self._matches: list[HostMatch] = []

    def may_go(self, vm: VirtualMachine, matchmaker: Matchmaker) -> bool:
        """No host is ruled out, or preferred by a device, a pinned core or a companion; where it is, hosts take VMs."""
        if vm.pci_requests or vm.topology is not None or vm.vm_group_id is not None:
            return False
        if vm.host_id is not None:
            row = self._hosts.index_by_id.get(vm.host_id)
            return row is not None and bool(self._hosts.accepts_vms[row])
        match = matchmaker.match(vm)
        if id(match) not in self._known:
            # Kept, so that no other match gets the same identity.
            self._matches.append(match)
            everywhere = bool((match.mask == self._hosts.accepts_vms).all()) and not match.follows_current_vms
            self._known[id(match)] = everywhere
        return self._known[id(match)]
