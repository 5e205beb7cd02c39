"""Hosts that were promised and are lost, or do not suit any more, are replaced before anybody else is promised room."""

from __future__ import annotations

from collections.abc import Sequence, Set

from one_preempt.core.availability.timeline import Stay
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases.devices_and_groups.matched_then import matched_then, need_matching
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.images.promised_images import host_orders, may_be_staged
from one_preempt.core.phases.power.boot_turns import turns_lack_s
from one_preempt.core.phases.queue.starts import is_refused_for_long
from one_preempt.core.phases.queue.turns_by_lot import drawn_place
from one_preempt.core.phases.reservations.demand_ahead import gang_demand
from one_preempt.core.phases.reservations.planned_stays import planned_anew
from one_preempt.core.phases.reservations.promised import has_exact_start, promised_leases, standing_stays
from one_preempt.core.phases.reservations.room_ahead import tables_for
from one_preempt.core.phases.reservations.stays import book, expected_end_s, stay_at
from one_preempt.core.phases.reservations.unknown_ends import overruns_going_on
from one_preempt.core.phases.reservations.unsuited_hosts import has_unsuited_host, set_apart

# Of those that ask for devices, cores or by a VM group so many are matched with other hosts in a cycle.
MENDED_A_CYCLE = 40


def mend_reservations(draft: PlanDraft) -> None:
    """Promise other hosts, at the same time or in time for the deadline, to what lost its own; first come first."""
    displaced = sorted(_displaced(draft), key=lambda lease: (lease.arrived_at_s, lease.id))
    put_off = _put_off(draft, displaced)
    for lease in displaced:
        if lease.id in put_off:
            continue
        vms = draft.startable(lease)
        if not vms:
            continue
        if not has_exact_start(draft, lease):
            # As soon as there may be room; its owner is warned while somebody is there who should have left.
            planned_anew(draft, lease, vms)
        elif (lease.terms.start_at_s or 0) > draft.state.now_s:
            with overruns_going_on(draft, lease):
                _moved(draft, lease, vms, lease.terms.start_at_s or 0)
        set_apart(draft, lease)


def _put_off(draft: PlanDraft, displaced: Sequence[Lease]) -> Set[int]:
    """Those that are not matched with other hosts in this cycle: half of the turns go by arrival, half are drawn."""
    matched = [lease.id for lease in displaced if has_exact_start(draft, lease) and need_matching(draft.members(lease))]
    if len(matched) <= MENDED_A_CYCLE:
        return frozenset()
    behind = matched[MENDED_A_CYCLE // 2 :]
    first = drawn_place(len(behind), draft.state.now_s)
    return frozenset([*behind[first:], *behind[:first]][MENDED_A_CYCLE - MENDED_A_CYCLE // 2 :])


def _displaced(draft: PlanDraft) -> list[Lease]:
    promised = [lease for lease in promised_leases(draft) if lease.id not in draft.busy_leases]
    lost = [one for one in promised if not standing_stays(draft, one) or has_unsuited_host(draft, one)]
    return [one for one in lost if not is_refused_for_long(draft, one, draft.startable(one))]


def _moved(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], start_at_s: int) -> None:
    """Other hosts for the same time, where there are any; of those that sleep only as many as can boot until then."""
    demand = gang_demand(draft, vms, start_s=start_at_s)
    end_at_s = expected_end_s(draft, lease, vms, start_at_s)
    before = draft.timeline.withdraw(lease.id)
    unstaged: Stay | None = None
    ordered = (
        (table, one)
        for table in tables_for(draft, lease)
        for one in host_orders(draft, vms, demand, table, start_at_s, end_at_s)
    )
    for table, first in ordered:
        rows = table.fit_at(first, start_at_s, end_at_s)
        if rows is None:
            continue
        stay = matched_then(draft, vms, stay_at(lease, vms, rows, start_at_s, end_at_s, firm=True), first, table)
        if isinstance(stay, Stay) and not turns_lack_s(draft, lease, [stay]):
            if may_be_staged(draft, lease, vms, stay):
                book(draft, lease, [stay])
                return
            unstaged = unstaged or stay
    if unstaged is not None:
        # Better to wait for its disks then than to have no hosts.
        book(draft, lease, [unstaged])
    elif before:
        # The hosts that it has lost may be back in time: those that it has left are nobody else's.
        draft.timeline.hold(before)
