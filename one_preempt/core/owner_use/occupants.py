"""Who is on a host, for whom and since when: looked at only where a VM has changed.

A VM whose end is seen is counted up to then, however short it was, though the pool tells nothing of it any more.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from one_preempt.core.model.owner_use import Departed, Occupant, Occupants
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.virtual_machine import VirtualMachine


def observed_occupants(
    snapshot: PoolSnapshot, before: Occupants | None, changed_vm_ids: Collection[int] | None, now_s: int
) -> Occupants:
    """Who is on a host now. `before` is what was observed last, `changed_vm_ids` what may have changed since.

    None: nothing was observed, or each VM may have changed. What cannot be read now counts as it was.
    """
    if before is None or now_s < before.seen_at_s:
        # What was observed by a clock that was set back since may be years ahead.
        present = {vm.id: _occupant(vm, _since_s(vm, now_s)) for vm in snapshot.vms.values() if _occupies(vm, snapshot)}
        return Occupants(now_s, present, before.departed if before is not None else ())
    vms, unreadable, known = snapshot.vms, snapshot.unreadable_vm_ids, before.present
    looked_at = known.keys() | vms.keys() if changed_vm_ids is None else changed_vm_ids
    present, departed = dict(known), list(before.departed)
    for vm_id in sorted(looked_at):
        was, vm = known.get(vm_id), vms.get(vm_id)
        occupies = vm is not None and _occupies(vm, snapshot)
        if (was is None and not occupies) or (vm is None and vm_id in unreadable):
            continue
        if vm is not None and occupies and was is not None and _is_as_before(vm, was):
            continue
        if was is not None:
            departed.append(Departed(present.pop(vm_id), now_s))
        if vm is not None and occupies:
            # When it was looked at last it was on no host, or counted otherwise.
            since_s = now_s if was is not None else max(before.seen_at_s, _since_s(vm, now_s))
            present[vm_id] = _of_same_group(was, _occupant(vm, since_s))
    return Occupants(now_s, present, tuple(departed))


def _occupies(vm: VirtualMachine, snapshot: PoolSnapshot) -> bool:
    """It keeps others from its room; one that was suspended for others does not, for they are in it."""
    return vm.host_id is not None and not vm.is_set_aside(snapshot.own_uid)


def _since_s(vm: VirtualMachine, now_s: int) -> int:
    """Since when it is on its host; before that it may have been on another one, of which nothing is known."""
    return min(now_s, vm.history[-1].start_at_s or now_s)


def _is_as_before(vm: VirtualMachine, was: Occupant) -> bool:
    return (vm.uid, vm.cpu_centi, vm.memory_mib) == (was.uid, was.cpu_centi, was.memory_mib)


def _of_same_group(was: Occupant | None, now: Occupant) -> Occupant:
    """It stays that group's as whose it got its host: whoever is in two groups could have the other one charged."""
    if was is None or was.uid != now.uid:
        return now
    return replace(now, gid=was.gid, group_name=was.group_name)


def _occupant(vm: VirtualMachine, since_s: int) -> Occupant:
    return Occupant(vm.gid, vm.uid, vm.gname, vm.uname, vm.cpu_centi, vm.memory_mib, since_s)
