"""Hosts for a start where nobody has to leave who could not have left by then."""

from __future__ import annotations

from one_preempt.core.availability.gang_demand import GangDemand
from one_preempt.core.availability.slot_table import fit_in
from one_preempt.core.model.lease import Lease
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.giving_way import giving_way
from one_preempt.core.phases.reservations.leaving_in_time import leaves_late, vms_leaving
from one_preempt.core.phases.reservations.room_ahead import free_but_for


def beside_late_leavers(
    draft: PlanDraft, lease: Lease, demand: GangDemand, start_s: int, end_s: int | None
) -> tuple[int, ...] | None:
    """A row for each VM of `lease` from a start on, where others may have to leave but for those; None without any."""
    late = [
        one
        for one in giving_way(draft)
        if one.lease.id != lease.id
        and (one.ends_at_s is None or one.ends_at_s > start_s)
        and leaves_late(draft, vms_leaving(one), start_s)
    ]
    if not late:
        return None
    free = free_but_for(draft.timeline, lease.id, start_s, end_s, firmly=True)
    for one in late:
        for row, vm in zip(one.rows, one.vms, strict=True):
            free[row] -= (vm.cpu_centi, vm.memory_mib)
    return fit_in(demand, free)
