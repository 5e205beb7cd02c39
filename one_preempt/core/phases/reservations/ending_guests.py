"""Who shuts down on the hosts of a start that is due will have left in a moment: nobody else has to leave for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from one_preempt.core.model.lease import Lease
from one_preempt.core.model.resources import Resources
from one_preempt.core.model.time import MS_PER_S
from one_preempt.core.model.virtual_machine import LcmState, VmState
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.giving_way import leaving_leases

# Each leaves its host for good, and by itself or by its owner's hand.
_ENDING = frozenset({LcmState.SHUTDOWN, LcmState.EPILOG, LcmState.CLEANUP_DELETE})


def gone_any_moment(draft: PlanDraft, lease: Lease, wanted: Sequence[tuple[int, Resources]]) -> bool:
    """What it lacks of `wanted`, by host id, is with those who are ending there; and it is not late for long.

    For longer than a guest takes to shut down, as far as it was learned, and the margin, nobody is waited for.
    """
    now_s, start_at_s = draft.state.now_s, lease.terms.start_at_s
    waits_s = -(-draft.rates.at(None).shutdown_ms // MS_PER_S) + draft.policies.time.preparation_margin_s
    if start_at_s is None or not start_at_s <= now_s < start_at_s + waits_s:
        return False
    index, free = draft.state.hosts.index_by_id, draft.room.free.copy()
    if not index.keys() >= {host_id for host_id, _ in wanted}:
        return False
    rows = sorted({index[host_id] for host_id, _ in wanted})
    for host_id, takes in wanted:
        free[index[host_id]] -= (takes.cpu_centi, takes.memory_mib)
    if (free[rows] >= 0).all():
        # It lacks something else.
        return False
    for row, amounts in _ending(draft):
        free[row] += amounts
    draft.wake_by(start_at_s + waits_s)
    return bool(np.all(free[rows] >= 0))


def _ending(draft: PlanDraft) -> list[tuple[int, tuple[int, int]]]:
    """What each guest that is ending has of its host, by row; but for those who leave for somebody."""
    state, leaving = draft.state, leaving_leases(draft)
    ending = [vm for vm in state.snapshot.vms.values() if vm.state is VmState.ACTIVE and vm.lcm_state in _ENDING]
    index = state.hosts.index_by_id
    return [
        (index[vm.host_id], (vm.cpu_centi, vm.memory_mib))
        for vm in ending
        if vm.host_id is not None and vm.host_id in index and state.lease_of_vm.get(vm.id) not in leaving
    ]
