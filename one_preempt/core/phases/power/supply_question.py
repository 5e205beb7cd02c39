"""The question to the energy policy, counted from the draft. A node is a host that can take VMs of the request.

Where a host takes several VMs of the request, so many together count as one node, rounded so that nodes are never
promised that are not there: what is asked for up, what is there down. A host in use is one node that is in use until
the last lease on it is expected to end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct

from one_preempt.core.availability.gang_demand import BoolArray
from one_preempt.core.energy.policy import (
    BINDING,
    EmptiableNodes,
    NodeCounts,
    Occasion,
    QueuedWork,
    SupplyQuestion,
    TimedWork,
)
from one_preempt.core.memory.lease_concerns import Concern
from one_preempt.core.model.cluster_state import IntArray
from one_preempt.core.model.lease import Lease, LeaseState
from one_preempt.core.model.modes_and_limits import Mode
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.power.needed_hosts import are_counted, fits_at_all
from one_preempt.core.phases.power.power_draft import PowerDraft
from one_preempt.core.phases.power.suited_hosts import suited_hosts
from one_preempt.core.phases.reservations.promised import is_promised, is_unanswered
from one_preempt.core.phases.reservations.stays import expected_end_s
from one_preempt.core.phases.room_wanted import RoomWanted

# What nobody knows the end of is taken to run so long, and what nobody knows the duration of to take so long.
UNKNOWN_END_S = 30 * 86_400
UNKNOWN_DURATION_S = 3600
# Why a lease waits that more hosts would help: of those behind others where they may overtake them.
BEHIND = "behind"
WAITS_FOR_ROOM = frozenset({"promised", BEHIND, "waking"})
_UNDER_WAY = frozenset({LeaseState.STARTING, LeaseState.RETURNING})


class Asked(Struct, frozen=True):
    """A question, and what its numbers are counted from.

    `rows_to_wake` could be woken for the request, the cheapest first. `rows_there` are on and each have room for a node
    of it once others have left, those with the fewest leases first; of `free_rows` nobody has to leave.
    """

    question: SupplyQuestion
    rows_to_wake: tuple[int, ...]
    rows_there: tuple[int, ...]
    free_rows: frozenset[int]

    def rows_for(self, count: int, *, packed: bool) -> tuple[int, ...]:
        """So many of those that are there: with the fewest leases, or packed: with the most, of those that are free if
        they are enough."""
        if not packed:
            return self.rows_there[:count]
        most_first = self.rows_there[::-1]
        return tuple(sorted(most_first, key=lambda row: row not in self.free_rows))[:count]


def ask(
    draft: PlanDraft,
    power: PowerDraft,
    occasion: Occasion,
    request: RoomWanted | None,
    *,
    unscheduled: int = 0,
    put_off: TimedWork | None = None,
    find_emptiable: Callable[[], EmptiableNodes] = EmptiableNodes,
) -> Asked:
    """The question about `request`, None where the queue is empty; to be answered before anything more is decided."""
    now_s = draft.state.now_s
    counted = _counted(draft, power, occasion, request, unscheduled)
    rows = counted.rows_to_wake
    question = SupplyQuestion(
        occasion=occasion,
        now_s=now_s,
        nodes_asked=counted.asked,
        start_s=now_s if request is None else request.start_s,
        nodes=counted.nodes,
        put_off=TimedWork() if put_off is None else put_off,
        power=power.rules.power_of(power.host(rows[0])) if rows else power.rules.power,
        find_queue=lambda: _queued_work(draft, power, counted.size),
        find_running=lambda: _running_work(draft, power),
        find_emptiable=find_emptiable,
    )
    return Asked(question, rows, counted.rows_there, counted.free_rows)


def request_at(draft: PlanDraft, lease: Lease, start_s: int, vms: Sequence[VirtualMachine] | None = None) -> RoomWanted:
    """A lease as it asks for nodes from an instant on, for these of its VMs; None: for all of them."""
    asking = tuple(draft.members(lease) if vms is None else vms)
    return RoomWanted(lease, asking, start_s, expected_end_s(draft, lease, asking, start_s))


class _Counted(Struct, frozen=True):
    asked: int
    size: int
    nodes: NodeCounts
    rows_to_wake: tuple[int, ...]
    rows_there: tuple[int, ...] = ()
    free_rows: frozenset[int] = frozenset()


def _counted(
    draft: PlanDraft, power: PowerDraft, occasion: Occasion, request: RoomWanted | None, unscheduled: int
) -> _Counted:
    awake = power.awake
    if request is None:
        rows = power.economical(np.flatnonzero(power.asleep & power.wakeable).tolist())
        nodes = NodeCounts(
            int(awake.sum()), 0, 0, len(rows), booting=int(power.coming_in_time.sum()), unscheduled=unscheduled
        )
        return _Counted(0, 1, nodes, tuple(rows))
    suited = suited_hosts(draft, request.vms)
    places = suited.places(draft.state.hosts.capacity)
    size = max(int(places.max(initial=1)), 1)
    suits = _large_enough(draft, request.vms, suited.mask, places)
    free_then, firm_then = _free_then(draft, request)
    free = suited.places(free_then)
    gives_way = request.lease.preempts and draft.policies.mode is Mode.ACT and not draft.state.paused
    firm = suited.places(firm_then) if gives_way else free
    # What a reservation needs later may come from hosts on their way up; for the queue they are counted beside.
    on = awake | power.coming if occasion in BINDING else awake
    able = np.flatnonzero(power.asleep & suits).tolist()
    if request.start_s < power.latest_up_s:
        able = [row for row in able if power.up_at_s[row] <= request.start_s]
    if able and are_counted(draft, request.vms):
        coming, needed = int(places[power.coming_in_time].sum()), len(request.vms)
        # What those who were promised hosts firmly leave of these; where nobody was promised anything, all of them.
        could_come = places if draft.timeline.is_empty else firm
        at_most = int(firm[awake].sum()) + coming + int(could_come[able].sum())
        # Who has no room even then, and would have enough on the hosts that are on once others have left, does not
        # keep on what is woken for it: that would go to sleep, and be woken again.
        if at_most < needed <= int(places[awake].sum()) + coming:
            able = []
    nodes = NodeCounts(
        on=int((awake & suits).sum()),
        free=int(free[on].sum()) // size,
        preemptable=max(int(firm[on].sum()) - int(free[on].sum()), 0) // size,
        bootable=len(able),
        booting=int(free[power.coming_in_time].sum()) // size,
        unscheduled=unscheduled,
        required_at_start=_required_at(draft, request.start_s),
    )
    there = fewest_leases_first(draft, np.flatnonzero(on & (firm >= size)).tolist())
    # Those of which others were promised some of the time are of no use to it until they can be moved.
    to_wake = sorted(power.economical(able), key=lambda row: bool(free[row] < size))
    free_rows = frozenset(np.flatnonzero(on & (free >= size)).tolist())
    return _Counted(-(-len(request.vms) // size), size, nodes, tuple(to_wake), there, free_rows)


def _large_enough(draft: PlanDraft, vms: Sequence[VirtualMachine], mask: BoolArray, places: IntArray) -> BoolArray:
    """The hosts of a mask that one of these VMs would have room on, were nobody there: the others are no nodes.

    `places` are those for the largest of them.
    """
    if are_counted(draft, vms):
        return places > 0
    least = [min(vm.cpu_centi for vm in vms), min(vm.memory_mib for vm in vms)]
    return mask & (draft.state.hosts.capacity >= least).all(axis=1)


def _free_then(draft: PlanDraft, request: RoomWanted) -> tuple[IntArray, IntArray]:
    """What is free for all of the request's time, and what nobody was promised firmly; its own promise is no hindrance.

    Shape (hosts, 2) both.
    """
    timeline = draft.timeline
    if timeline.is_empty:
        return draft.room.free, draft.room.free
    of_time = ([request.lease.id], request.start_s, request.end_s)
    return timeline.free_without(*of_time), timeline.free_without(*of_time, firmly=True)


def fewest_leases_first(draft: PlanDraft, rows: Iterable[int]) -> tuple[int, ...]:
    """Rows by the number of leases that are or were promised to be on their hosts, then in their order."""
    leases = leases_by_row(draft)
    return tuple(sorted(rows, key=lambda row: (leases.get(row, 0), row)))


def leases_by_row(draft: PlanDraft) -> Mapping[int, int]:
    """How many leases are or were promised to be on each host, as far as there are any."""
    found: Counter[int] = Counter()
    for stays in draft.timeline.stays.values():
        found.update({row for stay in stays for row in stay.host_rows})
    return found


def _required_at(draft: PlanDraft, start_s: int) -> int:
    """The hosts that firm reservations have at an instant."""
    rows: set[int] = set()
    for lease_id in draft.concerns.all(Concern.TIME):
        for stay in draft.timeline.stays.get(lease_id, ()):
            if stay.firm and stay.start_s <= start_s and (stay.end_s is None or stay.end_s > start_s):
                rows.update(stay.host_rows)
    return len(rows)


def _queued_work(draft: PlanDraft, power: PowerDraft, size: int) -> QueuedWork:
    """What waits in the queue, in the order of arrival; not whoever waits for the time that was asked for."""
    now_s, leases = draft.state.now_s, draft.concerns.all(Concern.QUEUE).values()
    waiting = sorted(
        (
            lease
            for lease in leases
            if not (
                _waits_for_its_time(draft, lease)
                or _has_its_room(draft, lease)
                or _waits_for_no_room(draft, power, lease)
            )
        ),
        key=lambda lease: (lease.arrived_at_s, lease.id),
    )
    return QueuedWork(
        _whole(-(-len(lease.vm_ids) // size) for lease in waiting),
        # To be served is not to wait, though it was preempted since.
        _whole(max(now_s - lease.arrived_at_s - lease.served_s, 0) for lease in waiting),
        _whole(lease.terms.duration_s or UNKNOWN_DURATION_S for lease in waiting),
        _whole(lease.remaining_s or UNKNOWN_DURATION_S for lease in waiting),
    )


def _waits_for_its_time(draft: PlanDraft, lease: Lease) -> bool:
    """A reservation decides about its start, or may: at some questions of a decision those are not judged yet."""
    if lease.id in draft.reserved or is_promised(draft, lease):
        return True
    return lease.terms.asks_for_time and not lease.terms.at_once and is_unanswered(draft, lease)


def _waits_for_no_room(draft: PlanDraft, power: PowerDraft, lease: Lease) -> bool:
    """As far as it was looked at: no host suits it, it is too large, or something else than room stands against it."""
    waits = draft.waits.get(lease.id)
    if waits is None:
        # What its owner keeps on HOLD is looked at by nobody.
        return not draft.startable(lease)
    if lease.id not in draft.lacking_room and waits.code not in WAITS_FOR_ROOM:
        return True
    return bool(draft.startable(lease)) and not fits_at_all(draft, power, lease)


def _has_its_room(draft: PlanDraft, lease: Lease) -> bool:
    """It starts now, or all of its VMs are on a host already, though they do not run yet."""
    if lease.id in draft.starting:
        return True
    return lease.state in _UNDER_WAY and all(vm.host_id is not None for vm in draft.members(lease))


def _running_work(draft: PlanDraft, power: PowerDraft) -> TimedWork:
    """One entry for each host in use, found once in a decision."""
    if power.running is not None:
        return power.running
    now_s = draft.state.now_s
    hosts = draft.state.hosts.hosts
    rows = np.flatnonzero(power.columns.occupied & power.awake).tolist()
    ends = [max(_end_s(draft, vm_id) for vm_id in hosts[row].vm_ids) for row in rows]
    power.running = TimedWork(_whole(1 for _ in ends), _whole(now_s for _ in ends), _whole(ends))
    return power.running


def _end_s(draft: PlanDraft, vm_id: int) -> int:
    """When a VM is expected to be gone."""
    now_s = draft.state.now_s
    lease = draft.state.leases.get(draft.state.lease_of_vm.get(vm_id, -1))
    end_at_s = None if lease is None else lease.expected_end_at_s
    return now_s + UNKNOWN_END_S if end_at_s is None else max(end_at_s, now_s + 1)


def _whole(values: Iterable[int]) -> IntArray:
    return np.array(list(values), dtype=np.int64)
