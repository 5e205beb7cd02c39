"""Why a preemption under way is over, or cannot go on: owners, hosts or victims may be in its way."""

from __future__ import annotations

from one_preempt.core.model.lease import Lease, PreemptionMethod
from one_preempt.core.model.lease_lifecycle import VmPhase, may_be_sent_out, phase_in_place, phase_of
from one_preempt.core.model.ledger import OpenPreemption
from one_preempt.core.model.modes_and_limits import Mode
from one_preempt.core.model.plan import Preemption, PreemptionEnd, Reason, Victim
from one_preempt.core.model.time_rules import Overrun
from one_preempt.core.model.virtual_machine import LockLevel, VirtualMachine
from one_preempt.core.observed_room import promised_from_s
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.preempting.sequence import leave_id, lock_id
from one_preempt.core.phases.reservations.leaving_in_time import leaves_s
from one_preempt.core.phases.reservations.room_ahead import is_taken
from one_preempt.core.queue_turn import may_start
from one_preempt.core.victims import MOVES, has_overrun, is_resting, is_shielded, method_is_possible

# So many VMs that are still there are named in the log.
_NAMED = 5
TAKEN_BY_THEN = "room-taken-by-then"
_ARRIVED = frozenset({VmPhase.STARTING, VmPhase.RUNNING, VmPhase.MOVING, VmPhase.BUSY})
_BACK = frozenset({VmPhase.STARTING, VmPhase.RUNNING})
_GOING = frozenset({VmPhase.LEAVING, VmPhase.MOVING})


def over(draft: PlanDraft, preemption: Preemption, lease: Lease | None) -> PreemptionEnd | None:
    """The preemptor runs, or needs its room no more."""
    vms = draft.state.snapshot.vms
    wanted = [vms.get(placement.vm_id) for placement in preemption.placements]
    present = [vm for vm in wanted if vm is not None]
    if lease is None or len(present) < len(wanted):
        return give_up(preemption, "preemptor-gone", "the preemptor, or one of its VMs, was ended meanwhile")
    phases = {phase_of(vm) for vm in present}
    if phases == {VmPhase.RUNNING}:
        return PreemptionEnd(preemption.id, True, Reason("preemptor-running", "the preemptor runs"))
    planned = {placement.vm_id for placement in preemption.placements}
    if any(vm.id not in planned for vm in draft.startable(lease)):
        return give_up(preemption, "preemptor-changed", "another VM of the preemptor is to start with it now")
    for vm in present:
        if vm.lock_level is not LockLevel.NONE:
            return give_up(preemption, "preemptor-locked", f"VM {vm.id} of the preemptor was locked meanwhile")
        if phase_of(vm) not in _ARRIVED and not may_start(lease, vm):
            return give_up(preemption, "preemptor-changed", f"VM {vm.id} of the preemptor is {vm.state_name} now")
    return None


def obstacle_of(draft: PlanDraft, open_preemption: OpenPreemption, outstanding: list[Victim]) -> PreemptionEnd | None:
    """Why the preemption cannot go on, or None."""
    preemption = open_preemption.preemption
    lease = draft.state.leases[preemption.preemptor_lease_id]
    if not outstanding:
        # When its time has come it goes wherever there is room; before, there is time to make some elsewhere.
        return None if is_due(draft, lease) else lost_host(draft, preemption) or _taken(draft, preemption, lease)
    if draft.state.paused:
        return give_up(preemption, "paused", "preempting is paused")
    if draft.policies.mode is not Mode.ACT:
        text = "preempting is only advised now: the configuration says so, or a plan was refused by its own check"
        return give_up(preemption, "advise", text)
    if _is_too_slow(draft, open_preemption, outstanding):
        text = f"the victims did not leave within preemption_timeout_s: {_still_there(draft, outstanding)}"
        return give_up(preemption, "too-slow", text)
    lost = lost_host(draft, preemption)
    if lost is not None:
        return lost
    if not lease.preempts and not all(is_under_way(draft, preemption, victim) for victim in outstanding):
        # Its right was taken, or it has other terms or another owner. Who leaves already does; nobody else is to.
        return give_up(preemption, "preemptor-changed", "the preemptor may not preempt any more")
    for victim in outstanding:
        hindrance = _why_not_leaving(draft, preemption, victim)
        if hindrance is not None:
            return hindrance
    return None


def is_due(draft: PlanDraft, lease: Lease) -> bool:
    """Its time has come, or it was promised none."""
    return begins_s(draft, lease) <= draft.state.now_s


def begins_s(draft: PlanDraft, lease: Lease) -> int:
    """When what was promised a time begins: at its START, or in its first slot before a DEADLINE; 0 for others."""
    return promised_from_s(lease, draft.state.reservations.get(lease.id, ()))


def lost_host(draft: PlanDraft, preemption: Preemption) -> PreemptionEnd | None:
    """Room was made on a host that takes no VMs any more."""
    for placement in preemption.placements:
        host = draft.state.snapshot.hosts.get(placement.host_id)
        if host is None or not host.accepts_vms:
            return give_up(preemption, "host-lost", f"host {placement.host_id} takes no VMs any more")
    return None


def _taken(draft: PlanDraft, preemption: Preemption, lease: Lease) -> PreemptionEnd | None:
    """All have left before its START, and others who came there since will still be there then.

    Who was let in ends before, but may take longer than planned, and whoever deploys by hand asks nobody. What rests in
    place rests for this preemption, and goes on to.
    """
    if any(is_resting(draft.state.snapshot, victim) for victim in preemption.victims):
        return None
    stays = draft.timeline.stays.get(lease.id, ())
    if not stays or stays[0].start_s <= draft.state.now_s or not is_taken(draft, lease, stays[0]):
        return None
    text = "others have come to the room that was made, and are expected to be there at its START"
    return give_up(preemption, TAKEN_BY_THEN, text)


def _why_not_leaving(draft: PlanDraft, preemption: Preemption, victim: Victim) -> PreemptionEnd | None:
    """A victim on its host that must not, or cannot, be sent out any more."""
    vm = draft.state.snapshot.vms[victim.vm_id]
    lease = draft.state.leases.get(draft.state.lease_of_vm.get(vm.id, -1))
    in_place = victim.method is PreemptionMethod.SUSPEND and vm.id in draft.in_place.vm_ids
    phase = phase_in_place(vm) if in_place else phase_of(vm)
    if in_place and vm.lock_level is not LockLevel.NONE and vm.id not in draft.in_place.own_locks:
        # While it is saved as well: it could not be locked for the preemption then.
        return _shielded(preemption, vm)
    if phase in _GOING:
        return None
    if phase in _BACK and not in_place and _has_its_room(draft, preemption):
        # While the preemptor's disks are made or it boots, others may leave, and a victim be back before it runs.
        text = f"the preemptor has its room, and victim VM {vm.id} returns"
        return PreemptionEnd(preemption.id, True, Reason("preemptor-starting", text))
    if not in_place and not (may_be_sent_out(vm) and _leaves_as_decided(draft, lease, vm, victim)):
        return give_up(preemption, "victim-changed", f"victim VM {vm.id} is {vm.state_name} now")
    if lease is None or lease.id != victim.lease_id or not _gives_way(draft, lease) or vm.uid != lease.uid:
        return give_up(
            preemption, "victim-changed-hands", f"victim VM {vm.id} no longer belongs to the lease that was to leave"
        )
    if is_shielded(vm, lease) or vm.resched:
        return _shielded(preemption, vm)
    target = draft.state.snapshot.hosts.get(victim.target_host_id) if victim.target_host_id is not None else None
    if victim.method in MOVES and (vm.lock_level is not LockLevel.NONE or target is None or not target.accepts_vms):
        return give_up(preemption, "victim-cannot-move", f"victim VM {vm.id} cannot move to its target any more")
    for step_id in (leave_id(preemption, victim), lock_id(preemption, victim.vm_id)):
        record = draft.attempts.last(step_id)
        if record is not None and record.succeeded is False and record.attempts >= draft.policies.limits.attempts:
            why = record.error_text or "it went back to its former state"
            text = f"victim VM {vm.id} did not leave after {record.attempts} attempts: {why}"
            return give_up(preemption, "victim-would-not-leave", text)
    return None


def _shielded(preemption: Preemption, vm: VirtualMachine) -> PreemptionEnd:
    return give_up(preemption, "victim-shielded", f"victim VM {vm.id} was locked or marked for rescheduling")


def _leaves_as_decided(draft: PlanDraft, lease: Lease | None, vm: VirtualMachine, victim: Victim) -> bool:
    """Its owner has not paused or resumed it since, by which it would have to leave in another way.

    Above all a guest that runs again is not shut down because that cost it nothing while it was powered off.
    """
    if lease is None or not (vm.is_at_rest or victim.method is PreemptionMethod.UNDEPLOY):
        return True
    return method_is_possible(draft.state.snapshot, vm, lease, victim.method)


def _has_its_room(draft: PlanDraft, preemption: Preemption) -> bool:
    """All VMs of the preemptor are on hosts: so all victims had left, and whoever is there again has come back."""
    vms = draft.state.snapshot.vms
    return all(phase_of(vms[placement.vm_id]) in _ARRIVED for placement in preemption.placements)


def _gives_way(draft: PlanDraft, lease: Lease) -> bool:
    """It may be preempted by its type, or because it outlives its duration where the administrator's rule says so.

    The clock of a gang stops once some of it has left: it has had its duration then.
    """
    outlived = lease.is_served or has_overrun(lease, draft.state.now_s)
    return lease.terms.type.preemptable or (outlived and draft.policies.time.overrun is Overrun.PREEMPT)


def is_open_for_long(draft: PlanDraft, open_preemption: OpenPreemption) -> bool:
    """It was decided upon so long ago, or so far in what is the future since the clock was set back."""
    return abs(draft.state.now_s - open_preemption.opened_at_s) > draft.policies.limits.preemption_timeout_s


def _is_too_slow(draft: PlanDraft, open_preemption: OpenPreemption, outstanding: list[Victim]) -> bool:
    """Its victims should have left so long ago."""
    if not is_open_for_long(draft, open_preemption):
        return False
    now_s = draft.state.now_s
    late_s = now_s - _left_by_s(draft, open_preemption, outstanding)
    return now_s < open_preemption.opened_at_s or late_s > draft.policies.limits.preemption_timeout_s


def _still_there(draft: PlanDraft, outstanding: list[Victim]) -> str:
    """What they do instead, by which an administrator finds those that hang; a few of them."""
    vms = draft.state.snapshot.vms
    told = [f"VM {one.vm_id} is {vms[one.vm_id].state_name}" for one in outstanding[:_NAMED]]
    more = len(outstanding) - len(told)
    return ", ".join([*told, *([f"and {more} more"] if more else [])])


def _left_by_s(draft: PlanDraft, open_preemption: OpenPreemption, outstanding: list[Victim]) -> int:
    """When its victims were to have left: by its START; else as soon as all of them can."""
    preemption, vms = open_preemption.preemption, draft.state.snapshot.vms
    leaving = [(vms[victim.vm_id], victim.method) for victim in preemption.victims if victim.vm_id in vms]
    left_by_s = _asked_at_s(draft, open_preemption, outstanding) + leaves_s(draft, leaving)
    lease = draft.state.leases.get(preemption.preemptor_lease_id)
    return left_by_s if lease is None else max(left_by_s, begins_s(draft, lease))


def _asked_at_s(draft: PlanDraft, open_preemption: OpenPreemption, outstanding: list[Victim]) -> int:
    """Since when its victims leave: they are not asked to as long as `victims_in_flight` of others do."""
    opened_at_s, vms = open_preemption.opened_at_s, draft.state.snapshot.vms
    asked = [one for one in outstanding if is_under_way(draft, open_preemption.preemption, one)]
    if not asked and all(may_be_sent_out(vms[one.vm_id]) for one in outstanding):
        return draft.state.now_s
    records = [draft.state.actions[leave_id(open_preemption.preemption, one)] for one in asked]
    return max(opened_at_s, min((one.outcome_at_s or one.intended_at_s for one in records), default=opened_at_s))


def is_under_way(draft: PlanDraft, preemption: Preemption, victim: Victim) -> bool:
    """A victim was told to leave."""
    record = draft.state.actions.get(leave_id(preemption, victim))
    return record is not None and record.attempts > 0


def give_up(preemption: Preemption, code: str, text: str) -> PreemptionEnd:
    """It ends without the preemptor's running, for this reason."""
    return PreemptionEnd(preemption.id, fulfilled=False, reason=Reason(code, text))
