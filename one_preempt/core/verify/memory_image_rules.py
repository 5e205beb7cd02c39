"""What is written to system datastores when VMs are saved: the memory of all of them has room together."""

from __future__ import annotations

from collections.abc import Iterator

from one_preempt.core.model.lease import PreemptionMethod
from one_preempt.core.model.plan import ActionKind, Preemption
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.verify.recount import Recount, Rule, Violation

_SAVED_BY = frozenset({PreemptionMethod.STOP, PreemptionMethod.SUSPEND})
_SAVING_ACTIONS = frozenset({ActionKind.STOP, ActionKind.SUSPEND})

# A datastore, and the host on whose disks its part lies; None where all hosts share it.
_Place = tuple[int, int | None]


def _memory_images_have_room(recount: Recount) -> Iterator[Violation]:
    """Of what is newly decided: what was decided upon before goes on, or is given up, as it may."""
    newly = {place: one.id for one in recount.plan.preemptions for place in _places(recount, one)}
    if not newly:
        return
    written_mib = dict.fromkeys(newly, 0)
    for vm_id in sorted(_saved_vm_ids(recount)):
        place = _place_of(recount, recount.vms[vm_id])
        if place in written_mib:
            written_mib[place] += recount.vms[vm_id].memory_mib
    for place, size_mib in sorted(written_mib.items(), key=lambda entry: entry[0][0]):
        free_mib = _free_mib(recount, *place)
        if free_mib is not None and size_mib >= free_mib:
            text = f"{size_mib} MiB of memory would be written to datastore {place[0]}, which has {free_mib} left"
            yield Violation("datastore-overfull", f"preemption {newly[place]}: {text}")


def _places(recount: Recount, preemption: Preemption) -> set[_Place]:
    """Where the memory of those whom a preemption sends out is written."""
    vms = (recount.vms.get(victim.vm_id) for victim in preemption.victims if victim.method in _SAVED_BY)
    return {place for vm in vms if vm is not None and (place := _place_of(recount, vm)) is not None}


def _saved_vm_ids(recount: Recount) -> set[int]:
    """All that are being saved, by whosever hand, or will be: by this plan, or for a preemption that goes on."""
    over = {end.preemption_id for end in recount.plan.ended_preemptions}
    to_leave: set[tuple[int, int | None]] = {
        (victim.vm_id, victim.host_id)
        for preemption in recount.preemptions.values()
        for victim in preemption.victims
        if preemption.id not in over and victim.method in _SAVED_BY
    }
    to_leave |= {(one.vm_id, one.host_id) for one in recount.plan.actions if one.kind in _SAVING_ACTIONS}
    return recount.books.saving_ids | {vm_id for vm_id, host_id in to_leave if _runs_on(recount, vm_id, host_id)}


def _runs_on(recount: Recount, vm_id: int, host_id: int | None) -> bool:
    vm = recount.vms.get(vm_id)
    return vm is not None and vm.state_name == "RUNNING" and vm.host_id == host_id


def _place_of(recount: Recount, vm: VirtualMachine) -> _Place | None:
    record = vm.last_history
    store = recount.state.snapshot.datastores.get(record.datastore_id) if record is not None else None
    if record is None or store is None:
        return None
    return store.id, None if store.shared else record.host_id


def _free_mib(recount: Recount, datastore_id: int, host_id: int | None) -> int | None:
    """What oned said is free there, below the limit of a shared one; None where nobody has measured it."""
    store = recount.state.snapshot.datastores[datastore_id]
    if host_id is None:
        if not (store.total_mib or store.used_mib or store.free_mib):
            return None
        below_limit_mib = store.free_mib if store.limit_mib is None else store.limit_mib - store.used_mib
        return min(store.free_mib, below_limit_mib)
    host = recount.hosts.get(host_id)
    if host is None:
        return None
    parts = [part.free_mib for part in host.datastores if part.datastore_id == datastore_id]
    return parts[0] if parts else host.free_disk_mib


RULES: tuple[Rule, ...] = (_memory_images_have_room,)
