"""The room of VMs that are suspended in place: oned charges for them, yet others run there, or may.

What runs on a host must fit it; what is charged may be more. Only two take such room: the preemptor for which a VM
rests, and the VM itself when it returns. Everybody else keeps to oned's books, which leave less.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from one_preempt.core.model.cluster_state import IntArray
from one_preempt.core.model.plan import Preemption
from one_preempt.core.model.resources import NO_RESOURCES, Resources
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.promised import is_promised
from one_preempt.core.victims import is_resting


def set_aside(draft: PlanDraft) -> list[VirtualMachine]:
    """The VMs that rest by our hand and bear our lock, by id."""
    vms = (draft.state.snapshot.vms[vm_id] for vm_id in sorted(draft.in_place.vm_ids & draft.in_place.own_locks))
    return [vm for vm in vms if vm.is_set_aside(draft.state.snapshot.own_uid)]


def lent_room(draft: PlanDraft, preemption: Preemption, later: Sequence[Preemption]) -> IntArray:
    """What rests on the hosts where victims of `preemption` rest, less what the `later` ones will run there.

    Shape (hosts, 2): CPU in hundredths, MiB. Who was promised a start was promised the room of all that rests on its
    hosts.

    Those before it have taken their part in the draft already.
    """
    hosts = {victim.host_id for victim in preemption.victims if is_resting(draft.state.snapshot, victim)}
    preemptor = draft.state.leases.get(preemption.preemptor_lease_id)
    if preemptor is not None and is_promised(draft, preemptor):
        hosts |= {placement.host_id for placement in preemption.placements}
    if not hosts:
        return np.zeros_like(draft.room.free)
    claimed = _still_claimed(draft, later)
    lent = amounts_by_host(draft, (vm for vm in set_aside(draft) if vm.id not in claimed and vm.host_id in hosts))
    for one in later:
        lent += _left_over(draft, one, hosts)
    return lent


def amounts_by_host(draft: PlanDraft, vms: Iterable[VirtualMachine]) -> IntArray:
    """What `vms` take, added up by the row of their host: shape (hosts, 2)."""
    amounts = np.zeros_like(draft.room.free)
    for vm in vms:
        row = None if vm.host_id is None else draft.state.hosts.index_by_id.get(vm.host_id)
        if row is not None:
            amounts[row] += (vm.cpu_centi, vm.memory_mib)
    return amounts


def _still_claimed(draft: PlanDraft, preemptions: Iterable[Preemption]) -> frozenset[int]:
    """The VMs that rest for one of these."""
    return frozenset(
        victim.vm_id for one in preemptions for victim in one.victims if is_resting(draft.state.snapshot, victim)
    )


def _left_over(draft: PlanDraft, preemption: Preemption, hosts: Iterable[int]) -> IntArray:
    """What rests for a preemption and its preemptor does not need any more: that has started, or takes less."""
    vms = draft.state.snapshot.vms
    needed: dict[int, Resources] = defaultdict(lambda: NO_RESOURCES)
    for placement in preemption.placements:
        vm = vms.get(placement.vm_id)
        if vm is not None and vm.may_be_deployed:
            needed[placement.host_id] += vm.resources
    given = (vms[victim.vm_id] for victim in preemption.victims if is_resting(draft.state.snapshot, victim))
    amounts = amounts_by_host(draft, (vm for vm in given if vm.host_id in set(hosts)))
    for host_id, resources in needed.items():
        row = draft.state.hosts.index_by_id.get(host_id)
        if row is not None:
            amounts[row] = np.maximum(amounts[row] - (resources.cpu_centi, resources.memory_mib), 0)
    return amounts
