"""Hosts at once for what was promised a time: those that it was promised, else any; why there are none is noted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from one_preempt.core.availability.timeline import Stay
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.model.cluster_state import IntArray
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.plan import Placement, Reason
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases.devices_and_groups.beside_promised import placed_beside
from one_preempt.core.phases.devices_and_groups.matched_then import has_all_then, need_matching
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.queue.queue_room import lacks_room
from one_preempt.core.phases.queue.starts import hindrance_of
from one_preempt.core.phases.reservations.stays import stay_of_placed

_PROMISED_TO_OTHERS = Reason("behind", "waits for its slot: until then, what it needs is promised to others")


def place_now(
    draft: PlanDraft,
    lease: Lease,
    vms: Sequence[VirtualMachine],
    promised: Sequence[Stay],
    free_then: IntArray | None,
    end_s: int | None = None,
) -> tuple[Placement, ...] | None:
    """Hosts for all VMs now, until `end_s`, the promised ones first; None with the reason noted."""
    hindrance = hindrance_of(draft, lease, vms)
    if hindrance is not None:
        draft.waits[lease.id] = hindrance
        return None
    counted = any(vm.needs_hardware for vm in vms)
    resting = np.zeros_like(draft.resting_room) if counted else draft.resting_room
    with draft.room.beside(resting), draft.room.capped(free_then):
        placed: tuple[Placement, ...] | Unplaced | None = None
        if promised and len(promised[0].host_rows) == len(vms):
            ids = draft.state.hosts.ids
            rows = promised[0].host_rows
            there = [Placement(vm.id, int(ids[row])) for vm, row in zip(vms, rows, strict=True)]
            placed = draft.matchmaker.place_at(vms, there, draft.room)
        if placed is None or isinstance(placed, Unplaced):
            placed = _placed_anywhere(draft, lease, vms, end_s)
    if isinstance(placed, Unplaced):
        _wait(draft, lease, placed)
        return None
    draft.waits.pop(lease.id, None)
    return placed


def _placed_anywhere(
    draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], end_s: int | None
) -> tuple[Placement, ...] | Unplaced:
    """Hosts on which nobody lacks by it what he was promised for later, if there are such: what is due comes first."""
    anywhere = partial(draft.matchmaker.place_together, vms, draft.room, limited=False)
    placed = placed_beside(draft, lease, vms, end_s, anywhere)
    return anywhere() if isinstance(placed, Unplaced) and need_matching(vms) else placed


def place_now_beside(
    draft: PlanDraft,
    lease: Lease,
    vms: Sequence[VirtualMachine],
    promised: Sequence[Stay],
    free_then: IntArray | None,
    end_s: int | None,
) -> tuple[Placement, ...] | None:
    """Hosts now as `place_now` finds them, where no device or core of theirs was promised to others before `end_s`."""
    mark = draft.room.checkpoint()
    placed = place_now(draft, lease, vms, promised, free_then, end_s)
    if placed is None:
        return None
    stay = stay_of_placed(draft, lease, vms, placed, end_s)
    if has_all_then(draft, vms, stay):
        return placed
    draft.room.rollback(mark)
    draft.waits[lease.id] = _PROMISED_TO_OTHERS
    return None


def place_nowhere(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine]) -> bool:
    """Nothing is left for it on any host; the reason is noted that a search would come to."""
    unplaced = draft.matchmaker.where_all_is_full(vms, draft.room)
    if unplaced is None:
        return place_now(draft, lease, vms, (), np.zeros_like(draft.room.free)) is not None
    hindrance = hindrance_of(draft, lease, vms)
    if hindrance is not None:
        draft.waits[lease.id] = hindrance
    else:
        _wait(draft, lease, unplaced)
    return False


def _wait(draft: PlanDraft, lease: Lease, unplaced: Unplaced) -> None:
    draft.waits[lease.id] = unplaced.reason
    if lacks_room(unplaced):
        draft.lacking_room.add(lease.id)
