"""A VM that moves to another host while it runs: where to, and what it holds there from now on."""

from __future__ import annotations

from one_preempt.core.availability.gang_demand import BoolArray
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.plan import Placement
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases.devices_and_groups.beside_promised import placed_beside
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.room_ahead import ceiling_for_the_rest
from one_preempt.core.phases.reservations.stays import rows_of, stay_at


def another_host(
    draft: PlanDraft,
    lease: Lease,
    vm: VirtualMachine,
    elsewhere: BoolArray | None = None,
    *,
    limited: bool = False,
    after_host_id: int | None = None,
) -> tuple[Placement, ...] | Unplaced:
    """The best other host, of `elsewhere`, for as long as it may run, where nobody loses what he was promised.

    `limited`: by how many VMs a host may get in a cycle. What moved to `after_host_id` in vain goes to the next best.
    """

    def place(among: BoolArray | None) -> tuple[Placement, ...] | Unplaced:
        able = among if elsewhere is None else elsewhere if among is None else elsewhere & among
        placed = draft.matchmaker.place(vm, draft.room, among=able, limited=limited, after_host_id=after_host_id)
        return placed if isinstance(placed, Unplaced) else (placed,)

    with draft.room.capped(ceiling_for_the_rest(draft, lease)):
        return placed_beside(draft, lease, [vm], _runs_until_s(draft, lease), place)


def _runs_until_s(draft: PlanDraft, lease: Lease) -> int | None:
    """When a lease that runs is expected to end; None where nobody knows, as of what outlives its DURATION."""
    end_s = lease.expected_end_at_s
    return None if end_s is not None and end_s <= draft.state.now_s else end_s


def hold_target(draft: PlanDraft, lease: Lease, vm: VirtualMachine, placement: Placement) -> None:
    """Whoever is placed after it finds it on its new host for as long as it may run, and on its old one."""
    rows, firm = rows_of(draft, [placement]), not draft.gives_way(lease)
    there = stay_at(lease, [vm], rows, draft.state.now_s, _runs_until_s(draft, lease), firm=firm)
    draft.timeline.hold_beside(there)
