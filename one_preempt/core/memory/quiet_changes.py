"""Starts and ends that need no second look: once they are decided, or nobody waits, that they are seen decides nothing.

So it is with a start at once while others wait and nothing that was promised to them may come earlier: they are asked
the same again. Whoever has a START reserved is asked nothing, as long as nobody is in the way then. So it is with ends
while one at most has a promise, as long as they leave less room than the smallest of all that wait needs. The same
holds of a request that was refused for good and of which nothing else came: whether it is still there when its owner
has read the answer is nothing to anybody.

Who is woken by every change of a VM's state looks twice for each start, when the request comes and when it runs, and
once more when it ends. Where nobody waits, is promised anything or is to leave, such a look finds nothing to do. What
it would have written down is written down at the next one: when a VM began to run is heard, not seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from msgspec import Struct

from one_preempt.core.availability.timeline import Stay
from one_preempt.core.memory.decision_memory import DecisionMemory
from one_preempt.core.memory.lease_concerns import Concern, LeaseConcerns
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.lease import LeaseState
from one_preempt.core.model.plan import ActionKind, Plan
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.model.time_rules import Overrun
from one_preempt.core.overhead.planning import start_s
from one_preempt.core.policies import Policies
from one_preempt.core.reconciliation.observation import Progress, observe_action

# Leases of these kinds may want something whenever a cycle looks at them.
_RESTLESS = (Concern.HALF_STARTED, Concern.TO_HOLD, Concern.RUNS_TO_DEADLINE, Concern.MARKED)
_DEPLOY = ActionKind.DEPLOY

# Of VMs that may end: nobody waits for their room.
ALL_OF_THEM = 2**62


class Quiet(Struct, frozen=True):
    """What may happen next without being looked at for itself.

    `started_vm_ids` were just started: no decision depends on whether they run by now. `ending_vms`: nor on whether
    leases end, each of them as a whole at one instant, that have no more VMs than that in all. `refused_vm_ids` were
    just refused: nor on whether they are withdrawn at this instant.
    """

    started_vm_ids: frozenset[int] = frozenset()
    ending_vms: int = 0
    refused_vm_ids: frozenset[int] = frozenset()


NOTHING_QUIET = Quiet()


def quiet_changes(
    state: ClusterState, plan: Plan, policies: Policies, memory: DecisionMemory, *, learned: bool
) -> Quiet:
    """What `plan` leaves quiet, until something else happens: with the next plan the question is another one.

    `memory` is what the decision that made `plan` left, and all of its actions were accepted. `learned`: overheads
    were observed with it, of which the decision did not know yet.
    """
    if _asks_for_more(policies):
        return NOTHING_QUIET
    if not (learned and policies.learns_overheads) and _only_refuses(state, plan, memory):
        refused = [state.leases[given.lease_id].vm_ids for given in plan.verdicts]
        return Quiet(refused_vm_ids=frozenset(chain.from_iterable(refused)))
    if state.actions or state.failed_actions or plan.verdicts or _is_under_way(state, plan):
        return NOTHING_QUIET
    if [action for action in plan.actions if action.kind is not _DEPLOY or action.after]:
        return NOTHING_QUIET
    concerns = memory.concerns
    started = frozenset([action.vm_id for action in plan.actions])
    if any(map(concerns.all, _RESTLESS)):
        return NOTHING_QUIET
    reserved = concerns.all(Concern.TIME).keys() | concerns.all(Concern.PREEMPTS).keys()
    # Of images that are brought for a START more is to be said.
    may_be_quiet = started and policies.images is None
    if reserved and not (may_be_quiet and _leave_reservations_alone(state, plan, memory, reserved)):
        return NOTHING_QUIET
    waits_on_hold = _waits_on_hold(state, started)
    promised = _promised_to_others(state, plan, memory, started)
    if not (promised or plan.refusals or reserved) and _nobody_else_waits(concerns, started):
        return Quiet(started, ALL_OF_THEM if plan.wake_at_s is None and not waits_on_hold else 0)
    # Whoever waits was asked already, and gets the same answer if what was started runs from now on, as was planned.
    if waits_on_hold or not _start_at_once(state, memory, started, policies):
        return NOTHING_QUIET
    if promised > 1:
        # Each look may bring a promise forward into what another has left, and then those behind it.
        return Quiet(started) if started and not _may_come_forward(memory, state.now_s) else NOTHING_QUIET
    if reserved:
        # What ends may make room for another to move aside.
        return Quiet(started)
    # Images may have to be under way for a start that is expected earlier by then.
    return Quiet(started, 0 if policies.images is not None else _vms_that_leave_too_little(state, memory, started))


def _only_refuses(state: ClusterState, plan: Plan, memory: DecisionMemory) -> bool:
    """The plan does nothing but say no, to requests that took no part in anything after that.

    Asked again without them at the same instant, everybody gets the same answer. Hosts have to be counted: one request
    of another kind would have kept them from being so, and a share of the cloud be looked for among the preparations.
    What was asked of VMs before may be under way, but has to be: what was never sent is forgotten with this plan.
    """
    if not plan.verdicts:
        # Asked after every plan.
        return False
    if plan.actions or plan.bookings or _is_under_way(state, plan):
        return False
    vms, now_s = state.snapshot.vms, state.now_s
    if any(observe_action(one, vms.get(one.vm_id), now_s) is Progress.TO_ISSUE for one in state.actions.values()):
        return False
    timeline, leases = memory.timeline, state.leases
    if timeline is None or timeline.alike is None:
        return False
    # What waits on HOLD is judged by the leases that its owner has; of what is on its way back nothing else is known.
    unsettled = [leases[lease_id] for lease_id in state.unsettled_lease_ids if lease_id in leases]
    if any(lease.state is not LeaseState.RETURNING for lease in unsettled):
        return False
    return all(
        given.verdict is Verdict.REFUSED
        and not leases[given.lease_id].terms.at_once
        and leases[given.lease_id].max_share_percent is None
        for given in plan.verdicts
    )


def _is_under_way(state: ClusterState, plan: Plan) -> bool:
    """Somebody leaves for others, a host's power is changed, or not all that there is could be read."""
    decided = (plan.preemptions, plan.ended_preemptions, plan.advised, plan.power_steps, plan.power_sequences)
    before = (state.preemptions, state.half_seen_leases, state.snapshot.unreadable_vm_ids, state.power.sequences)
    return any((*decided, *before))


def _asks_for_more(policies: Policies) -> bool:
    """By these rules somebody is told of each start, is to be stopped in time, or waits for another cycle."""
    match = policies.match
    paced = match.max_vm or match.max_dispatch or match.max_host
    ends = policies.time.overrun in (Overrun.STOP, Overrun.TERMINATE)
    # When VMs leave their hosts must be seen where what owners use is measured.
    is_measured = policies.queue_order.measures is not None
    return bool(policies.tells_owners or ends or paced or policies.power.handed_over or is_measured)


def _nobody_else_waits(concerns: LeaseConcerns, started: frozenset[int]) -> bool:
    """Whoever wanted room is started, as a whole."""
    return not [lease for lease in concerns.all(Concern.QUEUE).values() if not started.issuperset(lease.vm_ids)]


def _start_at_once(state: ClusterState, memory: DecisionMemory, started: frozenset[int], policies: Policies) -> bool:
    """No time was planned for them to boot or to be read back."""
    observed = state.observed_overheads if policies.learns_overheads else ()
    rates = memory.learner.learned(observed, policies.overhead, state.snapshot.own_disks_ids)
    return start_s([state.snapshot.vms[vm_id] for vm_id in started], rates, policies.time.exclusion) == 0


def _may_come_forward(memory: DecisionMemory, now_s: int) -> bool:
    """Would any that has a promise be given an earlier start, if it were looked for again?

    So it may be where somebody behind it in the queue came forward. Where hosts are not counted it is not known.
    """
    alike = None if memory.timeline is None else memory.timeline.alike
    return alike is None or any(alike.may_come_forward(lease_id, now_s) for lease_id in alike.held())


def _vms_that_leave_too_little(state: ClusterState, memory: DecisionMemory, started: frozenset[int]) -> int:
    """So many VMs may end, and yet there is no room for any lease that waits, whatever else stands in its way.

    Known where hosts are counted, and each VM that ends leaves one place: not more, as one may of another kind, or that
    runs until nobody knows when. An earlier promise that follows from an end is found with the next plan.
    """
    timeline, waiting = memory.timeline, memory.concerns.all(Concern.QUEUE)
    if timeline is None or timeline.alike is None or state.leases.keys() - waiting.keys() - timeline.stays.keys():
        return 0
    sizes = [len(lease.vm_ids) for lease in waiting.values() if not started.issuperset(lease.vm_ids)]
    return max(0, min(sizes, default=0) - 1 - timeline.alike.profile.free_at(state.now_s))


def _promised_to_others(state: ClusterState, plan: Plan, memory: DecisionMemory, started: frozenset[int]) -> int:
    """How many that wait have a promise of the queue; under EASY one at most has, the head of the queue."""
    others = {*state.reservations, *[booking.lease_id for booking in plan.bookings if booking.reservations]}
    leases = [state.leases.get(lease_id) for lease_id in others - memory.undisturbed.keys()] if others else []
    return sum(
        lease is not None and lease.state is not LeaseState.RUNNING and not started.issuperset(lease.vm_ids)
        for lease in leases
    )


def _leave_reservations_alone(state: ClusterState, plan: Plan, memory: DecisionMemory, reserved: Iterable[int]) -> bool:
    """Who asks for a time, or may preempt, runs or only waits for what he was promised, and whoever was started is off
    his hosts by then or was never there.

    Nothing has to be done for him then, as before. Whoever was started stays as long as he was expected to.
    """
    undisturbed, leases = memory.undisturbed, state.leases
    if any(one not in undisturbed and leases[one].state is not LeaseState.RUNNING for one in reserved):
        return False
    stays = memory.timeline.stays if memory.timeline is not None else {}
    for lease_id in {action.lease_id for action in plan.actions}:
        known, foreseen_s = stays.get(lease_id, ()), leases[lease_id].foreseen_s
        if not known or foreseen_s is None or any(stay.end_s != state.now_s + foreseen_s for stay in known):
            return False
        if any(_meet(stay, later) for stay in known for later in undisturbed.values()):
            return False
    return True


def _meet(stay: Stay, later: Stay) -> bool:
    """A host of theirs is the same, and the one is not over before the other begins."""
    is_over = stay.end_s is not None and stay.end_s <= later.start_s
    return not is_over and not set(later.host_rows).isdisjoint(stay.host_rows)


def _waits_on_hold(state: ClusterState, started: frozenset[int]) -> bool:
    """A lease is to be judged again, by the leases that its owner still has among others."""
    leases = state.leases
    unsettled = [leases[lease_id] for lease_id in state.unsettled_lease_ids if lease_id in leases]
    return bool([lease for lease in unsettled if not started.issuperset(lease.vm_ids)])
