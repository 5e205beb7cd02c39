"""Who leaves so that a request which may preempt, and fits nowhere, can start (CCPE13; ALGORITHMS 1.3)."""

from __future__ import annotations

from dataclasses import dataclass

from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.model.lease import Lease, LeaseState, PreemptionMethod
from one_preempt.core.model.plan import Placement, Preemption, Reason, Victim
from one_preempt.core.model.policies import Mode
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.place_waiting import refused_too_often, waiting_leases
from one_preempt.core.phases.request_problem import price_of, request_problem
from one_preempt.core.phases.sequence import leave_id, named_leases, sequence_actions
from one_preempt.core.preemption.problem import Choice, NoChoice
from one_preempt.core.preemption.victim_choice import choose_victims
from one_preempt.core.victims import (
    MOVES,
    PossibleVictim,
    has_left,
    memory_images_obstacle,
    method_is_possible,
    methods_of,
    possible_victims,
)

# Choosing among thousands of leases takes a second or two; what is not looked at now is looked at next.
CHOICES_A_CYCLE = 4


@dataclass(frozen=True, slots=True)
class _Request:
    """The VMs of a lease that need room."""

    lease: Lease
    vms: tuple[VirtualMachine, ...]


def preempt_for_waiting(draft: PlanDraft) -> None:
    """Decide a preemption for each request that may preempt and was not placed, in queue order."""
    requests = [lease for lease in waiting_leases(draft) if lease.preempts and lease.id in draft.lacking_room]
    choices = 0
    for lease in requests:
        obstacle = _why_not_now(draft, lease, choices)
        if obstacle is None:
            choices += 1
            obstacle = _preempt_for(draft, _Request(lease, tuple(draft.startable(lease))))
        if obstacle is not None:
            draft.waits[lease.id] = obstacle


def _why_not_now(draft: PlanDraft, lease: Lease, choices: int) -> Reason | None:
    """What forbids preempting for this lease, whoever the victims would be."""
    if lease.state is not LeaseState.WAITING:
        return Reason("returns", "does not fit; what returns takes no room from others")
    if draft.state.paused:
        return Reason("paused", "does not fit, and preempting is paused")
    if refused_too_often(draft, lease):
        return Reason(
            "refused-too-often", "does not fit; no room is made for it, for it was not started when it had room"
        )
    if choices >= CHOICES_A_CYCLE:
        return Reason("next-cycle", "does not fit; who could make room is looked at in the next cycle")
    return _ceiling(draft, 1)


def _preempt_for(draft: PlanDraft, request: _Request) -> Reason | None:
    """Decide one preemption and add it to the draft, or say why there is none."""
    policies = draft.policies
    possible, spared = possible_victims(
        draft.state, policies.limits, policies.victims, frozenset(draft.busy_leases), policies.time.overrun
    )
    problem = request_problem(draft, request.vms, possible)
    choice = choose_victims(problem, policies.preemption, policies.search)
    if isinstance(choice, NoChoice):
        return _with_spared(choice.reason, spared)
    chosen = [victim for victim in possible if victim.lease.id in choice.lease_ids]
    new = sum(len(victim.lease.vm_ids) for victim in chosen)
    obstacle = _ceiling(draft, new) or memory_images_obstacle(draft.state.snapshot, chosen)
    if obstacle is not None:
        return obstacle
    placements = _placements(draft, request, chosen, choice)
    if isinstance(placements, Reason):
        return placements
    mark = draft.room.checkpoint()
    leaving = [vm for victim in chosen for vm in draft.members(victim.lease)]
    draft.hold_rooms(placements, [(vm.history[-1].host_id, vm) for vm in leaving])
    victims = _victims(draft, chosen)
    if isinstance(victims, Reason):
        draft.room.rollback(mark)
        return victims
    preemption = _preemption(draft, request, choice, victims, placements)
    if policies.mode is not Mode.ACT:
        draft.room.rollback(mark)
        draft.advised.append(preemption)
        draft.advised_actions.extend(sequence_actions(draft, preemption, request.lease, victims, placements))
        return Reason(
            "advise",
            f"does not fit; advice only: preempting {named_leases(preemption.victim_lease_ids)} would make room",
        )
    draft.preemptions.append(preemption)
    draft.actions.extend(sequence_actions(draft, preemption, request.lease, victims, placements))
    draft.busy_leases.update({request.lease.id, *choice.lease_ids})
    del draft.waits[request.lease.id]
    draft.statuses[request.lease.id] = f"waits until {len(victims)} VMs have made room for it"
    return None


def _with_spared(reason: Reason, spared: dict[str, int]) -> Reason:
    """A refusal that also says which preemptable leases could not be asked."""
    if not spared:
        return reason
    causes = ", ".join(f"{count} {cause}" for cause, count in sorted(spared.items()))
    return Reason(reason.code, f"{reason.text}; leases that are spared: {causes}")


def _ceiling(draft: PlanDraft, new: int) -> Reason | None:
    """`victims_per_hour` counts VMs: those sent out lately, those decided upon that are still to go, and the new."""
    going = [open_preemption.preemption for open_preemption in draft.state.preemptions] + draft.preemptions
    spent = len(draft.state.victims_last_hour) + sum(_still_to_go(draft, preemption) for preemption in going)
    ceiling = draft.policies.limits.victims_per_hour
    if spent + new > ceiling:
        return Reason("victim-ceiling", f"does not fit; one more victim would exceed the {ceiling} allowed an hour")
    return None


def _still_to_go(draft: PlanDraft, preemption: Preemption) -> int:
    """Victims of a preemption that were not sent out yet, and are not counted among those that were."""
    if any(end.preemption_id == preemption.id for end in draft.ended):
        return 0
    return sum(
        not has_left(draft.state.snapshot, victim) and _unsent(draft, leave_id(preemption, victim))
        for victim in preemption.victims
    )


def _unsent(draft: PlanDraft, action_id: str) -> bool:
    record = draft.last_attempt(action_id)
    return record is None or record.attempts == 0


def _placements(
    draft: PlanDraft, request: _Request, chosen: list[PossibleVictim], choice: Choice
) -> tuple[Placement, ...] | Reason:
    """Where the request goes once the victims have left, with datastores and networks; the room is left as it was."""
    hosts, room = draft.state.hosts, draft.room
    mark = room.checkpoint()
    for victim in chosen:
        for vm_id in victim.lease.vm_ids:
            room.leave(vm_id)
    planned = [
        Placement(vm.id, int(hosts.ids[row])) for vm, row in zip(request.vms, choice.host_of_request, strict=True)
    ]
    placed = draft.matchmaker.place_at(request.vms, planned, room)
    if isinstance(placed, Unplaced):
        placed = draft.matchmaker.place_together(request.vms, room)
    room.rollback(mark)
    if isinstance(placed, Unplaced):
        return Reason(placed.reason.code, f"even after preempting: {placed.reason.text}")
    return placed


def _victims(draft: PlanDraft, chosen: list[PossibleVictim]) -> tuple[Victim, ...] | Reason:
    """One entry a VM. A migration needs a place that is free now; where there is none, the next method is taken."""
    victims = []
    for possible in chosen:
        for vm, method in zip(draft.members(possible.lease), possible.methods, strict=True):
            victim = _victim(draft, possible.lease, vm, method)
            if victim is None:
                return Reason("nowhere-to-move", f"does not fit; VM {vm.id} would have to move and fits nowhere else")
            victims.append(victim)
    return tuple(victims)


def _victim(draft: PlanDraft, lease: Lease, vm: VirtualMachine, first: PreemptionMethod) -> Victim | None:
    methods = methods_of(lease, draft.policies.victims)
    host_id = vm.history[-1].host_id
    for method in methods[methods.index(first) :]:
        if method not in MOVES:
            if method_is_possible(draft.state.snapshot, vm, lease, method):
                return Victim(vm.id, lease.id, host_id, method)
            continue
        elsewhere = draft.state.hosts.ids != host_id
        target = draft.matchmaker.place(vm, draft.room, among=elsewhere, limited=False)
        if not isinstance(target, Unplaced):
            return Victim(vm.id, lease.id, host_id, method, target.host_id)
    return None


def _preemption(
    draft: PlanDraft,
    request: _Request,
    choice: Choice,
    victims: tuple[Victim, ...],
    placements: tuple[Placement, ...],
) -> Preemption:
    """The decision as a value; its overhead is that of the methods which are really taken."""
    state, rates = draft.state, draft.policies.overhead
    prices = [
        price_of(draft, state.leases[lease_id], tuple(v.method for v in victims if v.lease_id == lease_id))
        for lease_id in sorted(choice.lease_ids)
    ]
    delta_ms = rates.reschedule_ms if any(price.reschedules for price in prices) else 0
    return Preemption(
        id=f"{request.lease.id}@{state.now_s if draft.policies.mode is Mode.ACT else 'advice'}",
        preemptor_lease_id=request.lease.id,
        victims=victims,
        placements=placements,
        policy=draft.policies.preemption.name,
        overhead_ms=sum(price.overhead_ms for price in prices) + delta_ms,
        optimal=choice.optimal,
        bound_ms=choice.bound_ms,
        decided_at_s=state.now_s,
        considered=choice.considered,
        candidate_count=choice.candidate_count,
        median_overhead_ms=choice.median_overhead_ms,
    )
