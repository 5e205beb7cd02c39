"""What we suspended on its host is unlocked and resumed there once the VMs that run there and it fit the host together.

oned checks nothing when it resumes, so this alone keeps a host from running more than it has. It does not matter why
the preemptor is gone, or whether the preemption was given up half-way: what rests by our hand is owed its return. A
lock of ours on a VM that does not rest is opened at once; a lock that is not ours is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from one_preempt.core.model.host import HostState
from one_preempt.core.model.lease import Lease, PreemptionMethod
from one_preempt.core.model.modes_and_limits import Mode
from one_preempt.core.model.plan import Action, ActionKind, Reason
from one_preempt.core.model.virtual_machine import LockLevel, VirtualMachine, VmState
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.preempting.lent_room import amounts_by_host, set_aside
from one_preempt.core.phases.queue.starts import being_cancelled
from one_preempt.core.phases.reservations.giving_way import note_resumed
from one_preempt.core.phases.reservations.room_ahead import firm_ceiling
from one_preempt.core.phases.reservations.stays import expected_end_s
from one_preempt.core.suspendable import worth_s
from one_preempt.core.victims import is_guarded

_LOST = frozenset({HostState.ERROR, HostState.MONITORING_ERROR, HostState.OFFLINE})


def return_in_place(draft: PlanDraft) -> None:
    """Open the locks that are due, and resume who may run again; the lease that arrived first comes first."""
    if not draft.in_place.own_locks and not draft.in_place.occasions:
        return
    for vm_id in sorted(draft.in_place.own_locks - draft.in_place.vm_ids):
        vm = draft.state.snapshot.vms[vm_id]
        draft.actions.append(_unlock(draft, vm, "it does not rest on its host"))
    lent = _lent_to_open_preemptions(draft)
    resting = [vm for vm in set_aside(draft) if vm.id not in lent]
    spare = draft.room.free + amounts_by_host(draft, resting)
    for lease, vms in _returning(draft, lent):
        draft.busy_leases.add(lease.id)
        if any(_is_lost(draft, vm) for vm in vms):
            _stop_instead(draft, lease, vms)
            continue
        unlocked = spare - amounts_by_host(draft, (vm for vm in vms if vm in resting))
        rows = [draft.state.hosts.index_by_id[vm.history[-1].host_id] for vm in vms]
        if (unlocked[rows] >= 0).all():
            if _is_promised_soon(draft, lease, vms, rows):
                text = "rests while what was promised a start needs its room"
                draft.waits[lease.id] = Reason("in-place", text)
                continue
            spare = unlocked
            resting = [vm for vm in resting if vm not in vms]
            _resume(draft, lease, vms)
        else:
            where = ", ".join(sorted({vm.history[-1].hostname for vm in vms}))
            draft.waits[lease.id] = Reason("in-place", f"rests on {where} until there is room beside what runs there")
    draft.resting_room = amounts_by_host(draft, resting)


def _is_promised_soon(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], rows: Sequence[int]) -> bool:
    """Its room is somebody else's before it would have run for long enough to be worth it.

    Firm promises count on the room of what rests; of one that was suspended often enough they do not. Others who give
    way to them are there as well, and have not been asked to.
    """
    if draft.timeline.is_empty or is_guarded(lease) or not any(vm.id in draft.in_place.own_locks for vm in vms):
        return False
    now_s = draft.state.now_s
    methods = draft.ways_out(lease) or (PreemptionMethod.SUSPEND,) * len(lease.vm_ids)
    end_s = now_s + worth_s(draft.policies, draft.rates, lease, vms, methods)
    free = firm_ceiling(draft, lease, now_s, end_s)
    if free is None:
        return False
    for vm, row in zip(vms, rows, strict=True):
        free[row] -= (vm.cpu_centi, vm.memory_mib)
    return bool((free[rows] < 0).any())


def _lent_to_open_preemptions(draft: PlanDraft) -> frozenset[int]:
    """The VMs whose room is a preemptor's that has not come yet, or was not seen running yet."""
    over = {end.preemption_id for end in draft.ended}
    going_on = [one.preemption for one in draft.state.preemptions if one.preemption.id not in over]
    return frozenset(victim.vm_id for one in going_on for victim in one.victims)


def _returning(draft: PlanDraft, lent: Iterable[int]) -> list[tuple[Lease, list[VirtualMachine]]]:
    """Leases that rest, with their VMs that do; none of which a VM is still being saved, or cannot be read."""
    by_lease: dict[int, list[VirtualMachine]] = {}
    for vm_id in sorted(draft.in_place.vm_ids.difference(lent)):
        by_lease.setdefault(draft.state.lease_of_vm[vm_id], []).append(draft.state.snapshot.vms[vm_id])
    leases = [draft.state.leases[lease_id] for lease_id in by_lease if lease_id not in draft.busy_leases]
    return [
        (lease, by_lease[lease.id])
        for lease in sorted(leases, key=lambda lease: (lease.arrived_at_s, lease.id))
        if all(vm.state == VmState.SUSPENDED for vm in by_lease[lease.id])
    ]


def _resume(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine]) -> None:
    """Locks first: from then on its owner may resume it, too. What stands against its start holds up no unlocking."""
    unlocks = [_unlock(draft, vm, "there is room for it again") for vm in vms if vm.id in draft.in_place.own_locks]
    draft.actions.extend(unlocks)
    hindrance = being_cancelled(draft, lease) or _hindrance(draft, vms)
    if hindrance is not None:
        draft.waits[lease.id] = hindrance
        return
    after = tuple(action.id for action in unlocks)
    for vm in vms:
        reason = Reason("return", f"{lease.label} is resumed where it rests: there is room for it again")
        draft.actions.append(_step(draft, vm, ActionKind.RESUME, reason, after))
        draft.room.waking.add(vm.id)
    draft.quotas.promise(vms)
    draft.starting.add(lease.id)
    note_resumed(draft, lease, vms, expected_end_s(draft, lease, vms, draft.state.now_s))


def _hindrance(draft: PlanDraft, vms: Sequence[VirtualMachine]) -> Reason | None:
    for vm in vms:
        if vm.lock_level is not LockLevel.NONE and vm.id not in draft.in_place.own_locks:
            return Reason("locked", f"VM {vm.id} is locked: it is resumed when it is unlocked")
        if not draft.state.snapshot.hosts[vm.history[-1].host_id].accepts_vms:
            return Reason("host-closed", f"rests on {vm.history[-1].hostname}, which takes no VMs now")
    quota = draft.quotas.obstacle(vms)
    if quota is not None:
        return Reason("quota", f"{quota} is used up: it is resumed when the quota allows it")
    for vm in vms:
        action_id = _step_id(draft, vm, ActionKind.RESUME)
        record = draft.attempts.last(action_id)
        limits = draft.policies.limits
        tried_out = record is not None and record.attempts >= limits.attempts
        pause_s = limits.victim_retry_s if tried_out else None
        if record is not None and draft.attempts.must_pause_before(action_id, pause_s):
            return Reason(
                "refused",
                f"VM {vm.id} was not resumed: {record.error_text or 'it went back to its former state'}; tried again",
            )
    return None


# -- where the host is lost ----------------------------------------------------------------------------------


def _is_lost(draft: PlanDraft, vm: VirtualMachine) -> bool:
    host = draft.state.snapshot.hosts.get(vm.history[-1].host_id)
    return host is None or host.state in _LOST


def _stop_instead(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine]) -> None:
    """From SUSPENDED oned lets a VM be stopped, and deployed on any host after that, if its files are not lost, too.

    It is stopped in the same breath in which its lock is opened: the preemptor may run on where a host only seems lost.
    """
    draft.waits[lease.id] = Reason("host-lost", "the host on which it rests is lost: it returns with that host")
    datastores = draft.state.snapshot.datastores
    stores = [datastores.get(vm.history[-1].datastore_id) for vm in vms]
    acting = draft.policies.mode is Mode.ACT and not draft.state.paused
    if not acting or not all(store is not None and store.shared for store in stores):
        return
    draft.waits[lease.id] = Reason("host-lost", "the host on which it rests is lost: it is stopped to return elsewhere")
    for vm in vms:
        foreign = vm.lock_level is not LockLevel.NONE and vm.id not in draft.in_place.own_locks
        if foreign or draft.attempts.must_pause_before(_step_id(draft, vm, ActionKind.STOP)):
            continue
        if vm.id in draft.in_place.own_locks:
            draft.actions.append(_unlock(draft, vm, "its host is lost: it returns elsewhere"))
        reason = Reason("host-lost", f"rests on {vm.history[-1].hostname}, which is lost: it returns elsewhere")
        draft.actions.append(_step(draft, vm, ActionKind.STOP, reason, ()))


# -- the actions ---------------------------------------------------------------------------------------------


def _unlock(draft: PlanDraft, vm: VirtualMachine, why: str) -> Action:
    draft.wake_by(draft.state.now_s + 1)
    return _step(draft, vm, ActionKind.UNLOCK, Reason("return", f"our lock is opened: {why}"), ())


def _step(draft: PlanDraft, vm: VirtualMachine, kind: ActionKind, reason: Reason, after: tuple[str, ...]) -> Action:
    opens = kind is ActionKind.UNLOCK
    return Action(
        id=_step_id(draft, vm, kind),
        kind=kind,
        vm_id=vm.id,
        lease_id=draft.state.lease_of_vm[vm.id],
        reason=reason,
        host_id=vm.host_id,
        after=after,
        expected_states=() if opens else (VmState.SUSPENDED.name,),
        expected_uid=vm.uid,
        lock_owner_uid=draft.state.snapshot.own_uid if opens else None,
    )


def _step_id(draft: PlanDraft, vm: VirtualMachine, kind: ActionKind) -> str:
    occasion = draft.in_place.occasions.get(vm.id, f"stray-lock-{len(vm.history)}")
    return f"{occasion}/{kind}/{vm.id}"
