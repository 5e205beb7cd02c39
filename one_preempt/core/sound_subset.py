"""The sound subset of a plan that the recount refuses: whoever is at fault is left out, and costs nobody else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.model.plan import Plan, Reason, Refusal

# A recount is of the order of a decision. Whatever is not tried by then is left out as well.
TRIALS = 100
_LEFT_OUT = Reason("checked", "left out in this cycle: the plan with it was refused by its own check")


class SoundSubset(Struct, frozen=True):
    """`plan` is sound, and has nothing of `left_out`, leases; `breaks_preemptions`: some of them take part in one."""

    plan: Plan
    left_out: frozenset[int] = frozenset()
    breaks_preemptions: bool = False


def sound_subset(plan: Plan, is_sound: Callable[[Plan], bool]) -> SoundSubset | None:
    """As many leases of `plan` as are sound together, or None where it is not sound without any.

    What belongs together stays together: a lease's VMs, all of a preemption, and what waits for another's step. Found
    by halves, so that few at fault among many take few recounts.
    """
    if is_sound(plan):
        return SoundSubset(plan)
    if not is_sound(_with(plan, frozenset())):
        return None
    kept: frozenset[int] = frozenset()
    left_out: frozenset[int] = frozenset()
    trials = TRIALS
    waiting = [_parts(plan)]
    while waiting:
        parts = waiting.pop()
        leases = frozenset[int]().union(*parts)
        trials -= 1
        if trials >= 0 and is_sound(_with(plan, kept | leases)):
            kept |= leases
        elif len(parts) == 1 or trials < 0:
            left_out |= leases
        else:
            half = len(parts) // 2
            waiting += [parts[half:], parts[:half]]
    refusals = (*plan.refusals, *_refusals(plan, left_out))
    return SoundSubset(replace(_with(plan, kept), refusals=refusals), left_out, _are_of_preemptions(plan, left_out))


def _with(plan: Plan, leases: frozenset[int]) -> Plan:
    """`plan` with nothing of other leases."""
    return replace(
        plan,
        actions=tuple(action for action in plan.actions if action.lease_id in leases),
        preemptions=tuple(one for one in plan.preemptions if one.preemptor_lease_id in leases),
        bookings=tuple(booking for booking in plan.bookings if booking.lease_id in leases),
        verdicts=tuple(verdict for verdict in plan.verdicts if verdict.lease_id in leases),
        image_orders=tuple(order for order in plan.image_orders if leases.issuperset(order.lease_ids)),
    )


def _parts(plan: Plan) -> list[frozenset[int]]:
    """The leases of a plan, those together that take part in the same thing; in the order of the plan."""
    part_of: dict[int, frozenset[int]] = {}
    for leases in _bound_together(plan):
        joined = leases.union(*(part_of.get(lease_id, frozenset()) for lease_id in leases))
        part_of |= dict.fromkeys(joined, joined)
    return list(dict.fromkeys(part_of.values()))


def _bound_together(plan: Plan) -> Iterator[frozenset[int]]:
    """Leases that only go together; every lease at least by itself."""
    lease_of_action = {action.id: action.lease_id for action in plan.actions}
    leases_of_preemption: dict[str, set[int]] = {one.id: {one.preemptor_lease_id} for one in plan.preemptions}
    for action in plan.actions:
        yield frozenset({action.lease_id, *(lease_of_action.get(one, action.lease_id) for one in action.after)})
        if action.preemption_id is not None:
            leases_of_preemption.setdefault(action.preemption_id, set()).add(action.lease_id)
    yield from (frozenset({booking.lease_id}) for booking in plan.bookings)
    yield from (frozenset({verdict.lease_id}) for verdict in plan.verdicts)
    yield from (frozenset(order.lease_ids) for order in plan.image_orders)
    yield from map(frozenset, leases_of_preemption.values())


def _refusals(plan: Plan, left_out: frozenset[int]) -> Sequence[Refusal]:
    """What is said to those of whom something was to be done."""
    vms: dict[int, list[int]] = {}
    for action in plan.actions:
        if action.lease_id in left_out:
            vms.setdefault(action.lease_id, []).append(action.vm_id)
    return [Refusal(tuple(dict.fromkeys(vm_ids)), lease_id, _LEFT_OUT) for lease_id, vm_ids in vms.items()]


def _are_of_preemptions(plan: Plan, leases: frozenset[int]) -> bool:
    taking_part = {action.lease_id for action in plan.actions if action.preemption_id is not None}
    taking_part |= {one.preemptor_lease_id for one in plan.preemptions}
    return not leases.isdisjoint(taking_part)
