"""Images of leases without an exact start, on the hosts where these are expected; and hosts that have them, first.

Best effort of VW07 6.2 and 6.3.1, but that nothing waits for its image: see decision 0065.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from one_preempt.core.availability.gang_demand import BoolArray, GangDemand
from one_preempt.core.image_staging.ahead import may_come_ahead, order_ahead, under_way_ahead
from one_preempt.core.image_staging.copied_images import images_of
from one_preempt.core.image_staging.pool_room import room_on
from one_preempt.core.image_staging.staging_plan import ImageNeed, PlannedTransfer, StagingPlan
from one_preempt.core.memory.lease_concerns import Concern
from one_preempt.core.model.host import HostState
from one_preempt.core.model.image_transfer import ImageOrder
from one_preempt.core.model.lease import Lease, LeaseState
from one_preempt.core.model.virtual_machine import LcmState, VirtualMachine, VmState
from one_preempt.core.model.written_time import utc_text
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.images.image_draft import ImageDraft
from one_preempt.core.phases.images.promised_images import brought_for, look_for_needs, needs_at
from one_preempt.core.phases.images.removals import Removals
from one_preempt.core.phases.reservations.promised import has_exact_start, standing_stays

_ON = frozenset({HostState.MONITORED, HostState.MONITORING_MONITORED})


def stage_ahead(draft: PlanDraft, images: ImageDraft) -> None:
    """Order again what is under way ahead of expected starts; while nobody has the link, let one more begin."""
    expected = _expected_needs(draft, images)
    if not expected:
        return
    look_for_needs(draft, images)
    plan, promised, now_s = images.plan, images.all_needs, draft.state.now_s
    for transfer in under_way_ahead(expected, images.known, plan):
        images.orders.append(_order(draft, transfer))
        draft.wake_by(transfer.end_s if transfer.end_s > now_s + 1 else now_s + images.rules.retry_delay_s)
    if _is_deployment_copying(draft, images):
        return
    removals = Removals(draft, images, (*promised, *expected))
    for transfer in may_come_ahead(expected, promised, plan, images.staging):
        lacking_mib = _lacking_mib(images, transfer, plan)
        if lacking_mib <= 0:
            images.orders.append(_order(draft, transfer))
            draft.wake_by(transfer.end_s)
            return
        orders = len(images.orders)
        begun = removals.make_room(transfer, lacking_mib, needed_at_s=None)
        if len(images.orders) > orders:
            # What is just ordered may be done at once.
            draft.wake_by(now_s + 1 if begun else now_s + images.rules.retry_delay_s)
            return


def _expected_needs(draft: PlanDraft, images: ImageDraft) -> list[ImageNeed]:
    """What those who wait need where they were promised room, by the queue or before a deadline, before long."""
    ahead_s, now_s = images.rules.ahead_s, draft.state.now_s
    found: list[ImageNeed] = []
    if ahead_s is None:
        return found
    waiting = draft.concerns.all(Concern.QUEUE)
    for lease_id in sorted(draft.timeline.stays.keys() & waiting.keys()):
        lease = waiting[lease_id]
        if lease.state is not LeaseState.WAITING or lease_id in draft.starting or has_exact_start(draft, lease):
            continue
        stays, vms = standing_stays(draft, lease), draft.members(lease)
        first = next((one for one in stays if one.start_s > now_s), None)
        if first is None or first.start_s > now_s + ahead_s or len(first.host_rows) != len(vms):
            continue
        needs = needs_at(draft, lease, vms, first)
        found += [one for one in needs if draft.state.snapshot.hosts[one.host_id].state in _ON]
    return found


def _is_deployment_copying(draft: PlanDraft, images: ImageDraft) -> bool:
    """A VM that is being started, or is sent to its host now, waits for an image on the same link."""
    snapshot = draft.state.snapshot
    made = [(vm, vm.host_id) for vm in snapshot.vms.values() if vm.lcm_state == LcmState.PROLOG]
    made = [(vm, host_id) for vm, host_id in made if vm.state is VmState.ACTIVE]
    made += [(snapshot.vms[action.vm_id], action.host_id) for action in draft.actions if action.host_id is not None]
    return any(
        host_id in snapshot.hosts
        and any(not images.known.is_held((image.id, host_id)) for image in images_of(vm))
        and draft.matchmaker.makes_disks_on(vm, snapshot.hosts[host_id])
        for vm, host_id in made
        if host_id is not None
    )


def _lacking_mib(images: ImageDraft, transfer: PlannedTransfer, plan: StagingPlan) -> int:
    """What a host's pool lacks for an image beside what it holds, and what others were promised there."""
    room_mib = room_on(transfer.host_id, images.staging)
    if room_mib is None:
        return 0
    others = [one for one in plan.transfers if one.host_id == transfer.host_id and one.place != transfer.place]
    promised_mib = sum(one.size_mib for one in others if not one.is_under_way)
    return transfer.size_mib + promised_mib - room_mib


def _order(draft: PlanDraft, transfer: PlannedTransfer) -> ImageOrder:
    first = draft.state.leases[transfer.lease_ids[0]]
    several = len(transfer.lease_ids) > 1
    whom = f"{len(transfer.lease_ids)} leases are" if several else f"{first.label} is"
    text = f"{whom} expected to start there at {utc_text(transfer.needed_s)}, and the link has nothing else to do"
    return order_ahead(transfer, draft.state.snapshot.hosts[transfer.host_id].name, text)


# -- hosts that have the images ----------------------------------------------------------------------------------


def rows_with_images(draft: PlanDraft, vms: Sequence[VirtualMachine], lease: Lease) -> BoolArray | None:
    """The hosts that hold all images of VMs that start now, shape (H,); None where that is no reason to choose one.

    An owner's own rank comes first.
    """
    images = draft.images
    if images is None or images.rules.ahead_s is None or not images.rules.acts or lease.state is not LeaseState.WAITING:
        return None
    wanted = {image.id for vm in vms for image in brought_for(draft, vm)}
    if not wanted or any(vm.sched_rank for vm in vms):
        return None
    return _rows(draft, images, frozenset(wanted))


def hosts_with_images_first(
    draft: PlanDraft, vms: Sequence[VirtualMachine], lease: Lease, demand: GangDemand
) -> GangDemand:
    """The same demand with the hosts first that hold all its images; the others as they were."""
    there = rows_with_images(draft, vms, lease)
    if there is None:
        return demand
    order = np.arange(len(there)) if demand.host_order is None else demand.host_order
    return replace(demand, host_order=np.concatenate([order[there[order]], order[~there[order]]]))


def _rows(draft: PlanDraft, images: ImageDraft, wanted: frozenset[int]) -> BoolArray | None:
    if wanted not in images.rows_with:
        there: set[int] | None = None
        for image_id in wanted:
            hosts = {host for host in images.held_or_coming.get(image_id, ()) if images.known.is_held((image_id, host))}
            there = hosts if there is None else there & hosts
        rows = [row for host in there or () if (row := draft.state.hosts.index_by_id.get(host)) is not None]
        mask = np.zeros(len(draft.state.hosts.hosts), dtype=np.bool_)
        mask[rows] = True
        images.rows_with[wanted] = mask if rows else None
    return images.rows_with[wanted]
