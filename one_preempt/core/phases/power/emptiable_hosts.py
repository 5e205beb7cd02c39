"""Which hosts could be emptied so that they can sleep, and that it begins; the phase `empty_hosts` moves who is there.

Only migrations: nobody is stopped to save power. A lease that nobody may preempt, one that was promised a deadline it
would miss, a gang, and whoever was started or moved a moment ago stay where they are, and so does their host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from one_preempt.core.energy.policy import EmptiableNodes
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.model.lease import Lease, PreemptionMethod
from one_preempt.core.model.modes_and_limits import Mode
from one_preempt.core.model.plan import Placement
from one_preempt.core.model.virtual_machine import LockLevel, VirtualMachine
from one_preempt.core.overhead.planning import Leaver, leave_s
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.power.move_reservations import move_reservations, reserved_only
from one_preempt.core.phases.power.needed_hosts import NeededHosts
from one_preempt.core.phases.power.power_draft import PowerDraft
from one_preempt.core.phases.power.supply_question import UNKNOWN_END_S
from one_preempt.core.phases.power.waking_times import may_sleep_until
from one_preempt.core.phases.queue.moves import another_host
from one_preempt.core.tried_in_vain import methods_in_vain
from one_preempt.core.victims import MOVES, method_is_possible, methods_of, possible_victims


class Moving(NamedTuple):
    """A VM that would leave a host, and how; it is all of its lease."""

    lease: Lease
    vm: VirtualMachine
    method: PreemptionMethod


class Emptiable(Struct, frozen=True):
    """Hosts that could be emptied, in the order in which they would be, who would move, and how a policy sees them.

    Those in `reserved`, by row, are empty already, and have only reservations that would move.
    """

    rows: tuple[int, ...]
    moving: tuple[tuple[Moving, ...], ...]
    reserved: Mapping[int, tuple[Lease, ...]]
    nodes: EmptiableNodes


def emptiable_hosts(draft: PlanDraft, power: PowerDraft) -> Emptiable:
    """The hosts that may sleep once all who are on them have moved: the fewest leases first."""
    hosts = draft.state.hosts
    movable = _movable(draft)
    found: dict[int, tuple[Moving, ...]] = {}
    for row in np.flatnonzero(power.able_to_sleep & power.columns.occupied).tolist():
        vm_ids = hosts.hosts[row].vm_ids
        if all(vm_id in movable for vm_id in vm_ids):
            found[row] = tuple(movable[vm_id] for vm_id in vm_ids)
    reserved = reserved_only(draft, power)
    found |= dict.fromkeys(reserved, ())
    # Those with the fewest leases first (PEMP12 section III-B).
    order = tuple(sorted(found, key=lambda row: (len(found[row]) + len(reserved.get(row, ())), row)))
    ends = [_empty_s(draft, found[row], reserved.get(row, ())) for row in order]
    energy = [_energy_mj(draft, power, row, found[row]) for row in order]
    nodes = EmptiableNodes(np.array(ends, dtype=np.int64), np.array(energy, dtype=np.int64))
    return Emptiable(order, tuple(found[row] for row in order), reserved, nodes)


def _empty_s(draft: PlanDraft, moving: Sequence[Moving], reserved: Sequence[Lease]) -> int:
    """When a host is expected to be empty by itself."""
    unknown_s = draft.state.now_s + UNKNOWN_END_S
    ends = [one.lease.expected_end_at_s or unknown_s for one in moving]
    ends += [stay.end_s or unknown_s for lease in reserved for stay in draft.timeline.stays[lease.id]]
    return max(ends)


def consolidate(draft: PlanDraft, power: PowerDraft, hosts: Emptiable, count: int) -> None:
    """Begin to empty the first `count` of these hosts whose leases all have another place now."""
    left: set[int] = set()
    needed = NeededHosts(draft, power)
    for row, moving in zip(hosts.rows[:count], hosts.moving[:count], strict=True):
        if row in hosts.reserved:
            # It goes to sleep as everybody with nothing to do: for good where they have left it, or until they start.
            if move_reservations(draft, power, row, hosts.reserved[row], left | power.until_then):
                left.add(row)
            elif may_sleep_until(draft, power, row, _first_start_s(draft, row)):
                power.until_then.add(row)
            continue
        if not power.spare or len(moving) > draft.policies.limits.victims_in_flight:
            continue
        if any(one.lease.id in draft.busy_leases for one in moving):
            continue
        mark = draft.room.checkpoint()
        if all(place_elsewhere(draft, power, one.lease, one.vm) is not None for one in moving) and needed.spare(row):
            vm_ids = tuple(one.vm.id for one in moving)
            power.let_sleep(row, "consolidated", f"its {len(vm_ids)} VMs have room elsewhere", vm_ids)
        else:
            draft.room.rollback(mark)


def _first_start_s(draft: PlanDraft, row: int) -> int:
    """When the first of all that were promised the host starts; others may just have moved there."""
    return min(stay.start_s for stays in draft.timeline.stays.values() for stay in stays if row in stay.host_rows)


def _movable(draft: PlanDraft) -> dict[int, Moving]:
    """The VMs that may be moved now, each with its lease and how. None that lately was to move and stayed."""
    policies = draft.policies
    if policies.mode is not Mode.ACT or draft.state.paused or policies.limits.victims_per_hour == 0:
        return {}
    possible, _ = possible_victims(
        draft.state, policies.limits, policies.victims, frozenset(draft.busy_leases), policies.time
    )
    found, in_vain = {}, methods_in_vain(draft.state, policies.limits)
    for one in possible:
        vms = one.vms
        if not MOVES.isdisjoint(in_vain.get(one.lease.id, ())):
            continue
        method = method_to_move(draft, one.lease, vms[0])
        if len(one.lease.vm_ids) == 1 and method is not None and _keeps_its_deadline(draft, one.lease, vms[0], method):
            found[vms[0].id] = Moving(one.lease, vms[0], method)
    return found


def method_to_move(draft: PlanDraft, lease: Lease, vm: VirtualMachine) -> PreemptionMethod | None:
    """The first of the administrator's methods by which a VM can move; None where its type may not, or it cannot."""
    if vm.lock_level is not LockLevel.NONE or not lease.terms.type.preemptable:
        return None
    listed = (one for one in methods_of(lease, draft.policies.victims) if one in MOVES)
    return next((one for one in listed if method_is_possible(draft.state.snapshot, vm, lease, one)), None)


def _keeps_its_deadline(draft: PlanDraft, lease: Lease, vm: VirtualMachine, method: PreemptionMethod) -> bool:
    deadline_s = lease.promised_deadline_at_s
    if deadline_s is None:
        return True
    end_s = lease.expected_end_at_s
    return end_s is not None and end_s + 2 * _takes_s(draft, [(vm, method)]) <= deadline_s


def _takes_s(draft: PlanDraft, leaving: Sequence[Leaver]) -> int:
    return leave_s(leaving, draft.rates, draft.policies.time.exclusion)


def _energy_mj(draft: PlanDraft, power: PowerDraft, row: int, moving: Sequence[Moving]) -> int:
    """What moving takes: both hosts are fully used as long as the overhead models say it lasts."""
    took_s = _takes_s(draft, [(one.vm, one.method) for one in moving])
    return 2 * took_s * power.rules.power_of(power.host(row)).curve.peak_mw


def place_elsewhere(draft: PlanDraft, power: PowerDraft, lease: Lease, vm: VirtualMachine) -> Placement | None:
    """Another host that is on and stays on, for as long as the lease is expected to go on; None where there is none.

    The placement is charged to the draft's room.
    """
    elsewhere = power.awake & power.columns.occupied & (draft.state.hosts.ids != vm.host_id)
    placed = another_host(draft, lease, vm, elsewhere)
    return None if isinstance(placed, Unplaced) else placed[0]
